"""A misspelt verb, option, target or variable of a documented command is found."""

from __future__ import annotations

import shlex
import shutil

import pytest

from .programs import OTHERS, check_command

SOUND = (
    "swerl eval run tasks/ --samples 4",
    "swerl sandbox run IMAGE -- ls -la --no-option-of-ours",
    "kubectl swerl logs NAME --follow",
    "kubectl get swerl -n swerl-demo -w",
    "kubectl create token -n swe-gym my-account",
    "kubectl wait job/loader --for=condition=Complete --timeout=4h",
    "kubectl get secret NAME -o jsonpath={} | base64 -d",
    "helm install swe-rl charts/ --namespace swe-rl --create-namespace --wait --kube-context other",
    "helm repo add kuberay https://charts.example.org",
    "uv pip install --python /opt/venv/bin/python wandb",
    "make release PUSH=registry IMAGES=no",
    "QUICK=1 make bench",
    "SWERL_CLUSTER=existing make demo",
    "python3 -m cluster down --purge",
    "python3 -m images trainer -- python -m pytest tests",
    "python -m pytest tests -k replay",
    "python -m swerl_trainer.megatron.export CHECKPOINT MODEL FOLDER --dtype bfloat16",
)
MISSPELT = (
    "swerl evall run tasks/",
    "swerl eval runs tasks/",
    "swerl eval run tasks/ --sample 4",
    "kubectl swerl logs NAME --folow",
    "kubectl gett swerl",
    "kubectl create tokens my-account",
    "kubectl get swerl --watches",
    "kubectl get swerl -Z",
    "kubectl wait job/loader --from=condition=Complete",
    "helm instal swe-rl charts/",
    "helm repo ad kuberay",
    "helm install swe-rl charts/ --create-namespaces",
    "uv pip instal wandb",
    "uv pip install --pythons 3.12 wandb",
    "make releases",
    "make release PUSHED=registry",
    "SWERL_CLUSTERS=existing make demo",
    "python3 -m cluster down --purged",
    "python3 -m cluster build kwoks",
    "python3 -m images trainers --stored",
    "python3 -m release --pushed registry",
    "python -m pytest tests --keyword replay",
    "python -m swerl_trainer.plans job.yaml",
    "python -m swerl_trainer.plan job.yaml --gpu-memories 80",
    "python -m swerl_agent.cli view --ports 80",
)


def fault(command: str) -> str:
    """What is wrong with a command, if anything. Skips the test where `make cluster` has not built the program."""
    words = shlex.split(command)
    if words[0] in OTHERS - {"uv"} and words[1] != "swerl" and not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} yet: `make cluster` builds it")
    try:
        check_command(words)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("command", SOUND)
def test_command_that_its_program_takes_is_accepted(command: str) -> None:
    assert fault(command) == ""


@pytest.mark.parametrize("command", MISSPELT)
def test_misspelt_command_is_found(command: str) -> None:
    assert fault(command)
