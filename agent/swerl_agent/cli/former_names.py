"""Option names of eval_swe.py, run_minisweagent_eval, the SWE-bench harness and miles, answered with those of here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Old option -> what to give instead, by the command that does its work.
EVALUATION = {
    "--data": "the first argument, without an option name",
    "--dataset": "the first argument, without an option name",
    "--subset": "the first argument: verified, lite, swe-gym, owner/name or a file",
    "--api-base": "--engine URL with --api chat-completions",
    "--sglang-url": "--engine URL",
    "--api-key": "--api-key-env VARIABLE, which names an environment variable",
    "--output-dir": "--output FOLDER",
    "--env-server-url": "no option: sandboxes are Pods of the cluster in the kubeconfig",
    "--swe-config": "--prompts FILE",
    "--config": "--prompts FILE",
    "--max-concurrent": "--workers N",
    "--max-instances": "--slice 0:N",
    "--redo-existing": "--redo all",
}
GRADING = {
    "--predictions-path": "the first argument, without an option name; --gold grades reference fixes",
    "--dataset-name": "--tasks SOURCE",
    "--dataset": "--tasks SOURCE",
    "--instance-ids": "--instances ID,ID",
    "--max-workers": "--jobs N",
    "--run-id": "--output FOLDER",
    "--report-dir": "--output FOLDER",
    "--rewrite-reports": "--logs FOLDER instead of predictions",
}
IMPORT = {"--input": "the first argument, without an option name; --format prompt writes the form of miles"}
COMMANDS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("eval", "run"): EVALUATION,
    ("grade",): GRADING,
    ("tasks", "import"): IMPORT,
}


def former_names(arguments: Sequence[str]) -> list[str]:
    """A line for each option that has another name here, in the order given."""
    for command, names in COMMANDS.items():
        if tuple(arguments[: len(command)]) == command:
            options = [argument.partition("=")[0] for argument in arguments[len(command) :]]
            found = {each: names.get(each.replace("_", "-")) for each in options}
            return [f"{each} is here: {name}" for each, name in found.items() if name]
    return []
