"""The plan of a SweRLJob: memory, groups and traffic of its layout, from the model's sizes alone. Of a SweEval, its
engines.

Guarantees: pure Python without torch; used by the operator before an attempt takes resources, by the preflight Pod and
the driver once the model's folder is readable, and by `python -m swerl_trainer.plan`.
"""

from .engine import SHARED_FRACTION
from .evaluation import evaluation_plan
from .exchange import models_text, read_models_text
from .job import JobPlan, Machines, plan_job
from .known import known_shape
from .refusal import Models, known_models, refusal
from .search import propose
from .shape import ModelShape, ShapeError, read_shape, shape_of
from .text import plan_text

__all__ = [
    "SHARED_FRACTION",
    "JobPlan",
    "Machines",
    "ModelShape",
    "Models",
    "ShapeError",
    "evaluation_plan",
    "known_models",
    "known_shape",
    "models_text",
    "plan_job",
    "plan_text",
    "propose",
    "read_models_text",
    "read_shape",
    "refusal",
    "shape_of",
]
