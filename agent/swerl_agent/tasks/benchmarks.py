"""Tasks of published benchmarks.

Guarantee: a training never gets one of these, unless the import allowed it explicitly.
"""

from __future__ import annotations

from typing import Literal

Purpose = Literal["train", "evaluation"]

MARKER = "swe-bench"  # in a data source: SWE-bench, its Lite, Verified, Multilingual, Multimodal, and copies of them
ONLY_TEST = "verified"  # a set without any part for training
TRAINING_SPLITS = ("train", "dev")
MEASURED = frozenset(  # repositories of the tasks of SWE-bench, its Lite and Verified; none of its train and dev splits
    {
        "astropy/astropy",
        "django/django",
        "matplotlib/matplotlib",
        "mwaskom/seaborn",
        "pallets/flask",
        "psf/requests",
        "pydata/xarray",
        "pylint-dev/pylint",
        "pytest-dev/pytest",
        "scikit-learn/scikit-learn",
        "sphinx-doc/sphinx",
        "sympy/sympy",
    }
)


def is_benchmark(data_source: str, split: str, repo: str) -> bool:
    """Whether a task belongs to a benchmark: by its data source and split, or by its repository without a source.

    A SWE-bench set of unknown split counts as a benchmark.
    """
    if not data_source:
        return repo in MEASURED
    name = data_source.lower().replace("_", "-")
    return MARKER in name and (ONLY_TEST in name or split not in TRAINING_SPLITS)
