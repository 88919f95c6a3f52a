"""What a grading Pod gets: its programs, what to run, and what a patch may not change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

from swerl_api import GradingSpec
from swerl_api.isolation import SCRIPT

from swerl_agent.tasks import Task
from swerl_agent.tasks.diffs import changed_files, named_paths

from .contrast import AlteredRun
from .eval_script import instrumented
from .manifests import WITNESS
from .policy import exempt_paths, paths_within, protected_globs, reserved_names
from .test_targets import file_patterns

SCRIPTS = ("grade.sh", "work_tree.sh", "survey.sh", "scrub_history.sh")


@cache
def programs() -> dict[str, bytes]:
    """What runs in every Pod."""
    package = resources.files(__package__)
    scripts = {name: package.joinpath(name).read_bytes() for name in SCRIPTS}
    scripts["probe.sh"] = SCRIPT.encode()
    return scripts | {name: package.joinpath(path).read_bytes() for name, path in WITNESS.items()}


def grading_payload(
    task: Task,
    patch: str,
    settings: GradingSpec,
    workdir: str,
    altered: AlteredRun | None = None,
    probe: Sequence[str] = (),
) -> dict[str, bytes]:
    """The files for `patch`, with altered tests if given; names and forms are the same either way.

    `probe`: arguments of the isolation probe, none for none.
    """
    ground_truth = task.ground_truth
    hidden = paths_within(workdir, task.hidden_paths)
    globs = protected_globs(ground_truth, settings.protected_paths, hidden)
    return {
        **programs(),
        "eval.sh": as_bytes(instrumented(altered.eval_script if altered else ground_truth.eval_script)),
        "patch.diff": as_bytes(patch if patch.endswith("\n") or not patch else patch + "\n"),
        "tests.diff": as_bytes(altered.test_patch if altered else ground_truth.test_patch),
        "targets": _lines(file_patterns(ground_truth, task.hidden_paths)),
        "protected": _lines(globs),
        "reserved": _lines(reserved_names(ground_truth)),
        "exempt": _lines(exempt_paths(ground_truth, hidden)),
        "closed": _lines(list(probe)),
        "created": as_bytes("".join(each.path + "\0" for each in changed_files(patch) if each.added)),
        "named": as_bytes("".join(path + "\0" for path in named_paths(patch))),
    }


def _lines(items: list[str]) -> bytes:
    return as_bytes("".join(item + "\n" for item in items))


def as_bytes(text: str) -> bytes:
    """A patch's text as the bytes that it was."""
    return text.encode("utf-8", "surrogateescape")
