"""Tasks: one repository at one commit, what is wrong with it, and the tests that say whether a patch solved it.

Guarantees: what the agent may see (`TaskView`) and what only grading may see (`GroundTruth`) are different types. No
`repr` shows the second. A malformed task is an error that names its place, never a silently smaller set.
"""

from .benchmarks import Purpose
from .images import image_name
from .loading import Format, format_of, load_tasks
from .rows import Row
from .selection import select
from .task import GroundTruth, Task, TaskError, TaskView

__all__ = [
    "Format",
    "GroundTruth",
    "Purpose",
    "Row",
    "Task",
    "TaskError",
    "TaskView",
    "format_of",
    "image_name",
    "load_tasks",
    "select",
]
