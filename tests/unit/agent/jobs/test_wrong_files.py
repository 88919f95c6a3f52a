"""Job files with the errors that people make are refused, with the field, its value, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_agent.jobs import Fault, JobCommandError, file_faults, parse_job, read_job_file
from swerl_plan import Machines

ROOT = Path(__file__).parents[4]
EXAMPLE = (ROOT / "examples/swerljob-1x8-4b.yaml").read_text()
GIB = 2**30

# text of the example -> what stands there instead; field, value and remedy of the fault
HABITS = {
    "learning rate of another trainer": (
        "lr: 1.0e-6", "learning_rate: 1e-6", "algorithm.learning_rate", "1e-06", "algorithm.lr",
    ),
    "number in quotes": ("lr: 1.0e-6", 'lr: "1e-6"', "algorithm.lr", '"1e-6"', "without quotes: 1e-6"),
    "group size of another trainer": (
        "groupSize: 4", "n_samples_per_prompt: 4", "algorithm.n_samples_per_prompt", "4", "algorithm.groupSize",
    ),
    "snake case": ("promptsPerStep: 8", "prompts_per_step: 8", "algorithm.prompts_per_step", "8", "promptsPerStep"),
    "typing error": ("stepLimit: 20", "stepLimt: 20", "agent.stepLimt", "20", "agent.stepLimit"),
    "whole number with an exponent": ("steps: 500", "steps: 1.5", "algorithm.steps", "1.5", "write 2"),
    "epochs": ("steps: 500", "num_train_epochs: 3", "algorithm.num_train_epochs", "3", "algorithm.steps"),
    "unknown algorithm": ("name: grpo", "name: ppo", "algorithm.name", '"ppo"', "'grpo'"),
    "short name of a number format": ("dtype: bfloat16", "dtype: bf16", "model.dtype", '"bf16"', "'bfloat16'"),
    "model without a source": (
        "huggingFace: {id: Qwen/Qwen3-4B}", "Qwen/Qwen3-4B", "model.source", '"Qwen/Qwen3-4B"', "huggingFace: {id",
    ),
    "short name of a parallel axis": ("tensorParallel: 4", "tp: 4", "trainer.tp", "4", "trainer.tensorParallel"),
    "layout that does not divide": ("tensorParallel: 4", "tensorParallel: 3", "trainer", "TP 3", "a layout that fits"),
    "context longer than the model's": (
        "contextTokens: 32768", "contextTokens: 131072", "trainer", "contextTokens 131072", "lower it",
    ),
    "code of the model's repository": (
        "engineArgs: {mem-fraction-static: 0.6}", "engineArgs: {trust-remote-code: true}", "rollout.engineArgs",
        '{"trust-remote-code": true}', "leave it out",
    ),
    "placeholder left": (
        "{claimName: runs}", "{claimName: <your-claim>}", "checkpoint.volume.persistentVolumeClaim.claimName",
        '"<your-claim>"', "replace it",
    ),
    "path instead of a volume": (
        "persistentVolumeClaim: {claimName: runs}", "/data/runs", "checkpoint.volume", '"/data/runs"',
        "persistentVolumeClaim: {claimName: runs}",
    ),
    "absolute path in a volume": (
        "path: train", "path: /data/train", "tasks.source.persistentVolumeClaim.path", '"/data/train"', "data/train",
    ),
    "decimal unit": ("sharedMemory: 32Gi", "sharedMemory: 32GB", "trainer.sharedMemory", '"32GB"', "use 32Gi"),
    "decimal unit of a request": (
        "memory: 400Gi", "memory: 400GB", "trainer.resources.requests.memory", '"400GB"', "use 400Gi",
    ),
    "yes for true": ("offload: true", 'offload: "yes"', "trainer.offload", '"yes"', "write true"),
    "one name for a list": (
        "# envFromSecrets: [hugging-face]", "envFromSecrets: hugging-face", "trainer.envFromSecrets", '"hugging-face"',
        "[hugging-face]",
    ),
    "interval of another trainer": (
        "every: 20", "save_interval: 20", "checkpoint.save_interval", "20", "checkpoint.every",
    ),
    "field one level too high": ("  trainer:\n", "  gpus: 8\n  trainer:\n", "gpus", "8", "spec.trainer.gpus"),
    "argument of an engine as a field": (
        "workers: 4", "gpu_memory_utilization: 0.8", "rollout.gpu_memory_utilization", "0.8", "mem-fraction-static",
    ),
    "rate above its range": ("lr: 1.0e-6", "lr: 3", "algorithm.lr", "3", "at most 1"),
    "image left out": ("    image: swe-rl/trainer-gpu:0.1.0\n", "", "trainer.image", "", "swe-rl/trainer-gpu"),
}  # fmt: skip


def faults(old: str, new: str) -> list[Fault]:
    assert EXAMPLE.count(old) >= 1
    return file_faults(parse_job(EXAMPLE.replace(old, new, 1), "job.yaml").job)


@pytest.mark.parametrize("habit", HABITS)
def test_habit_is_refused_with_field_value_and_remedy(habit: str) -> None:
    old, new, field, value, remedy = HABITS[habit]
    found = next(fault for fault in faults(old, new) if fault.field == f"spec.{field}")
    text = found.as_text()
    assert found.level == "error" and found.remedy
    assert value in text.partition("; ")[0], text
    assert remedy in text, text


@pytest.mark.parametrize(
    ("old", "new", "field", "remedy"),
    [
        ("name: qwen3-4b", "name: Qwen3_4B", "metadata.name", "use qwen3-4b"),
        ("name: qwen3-4b", f"name: {'a' * 41}", "metadata.name", f"use {'a' * 40}"),
        ("name: qwen3-4b", "labels: {}", "metadata.name", "give one"),
        ("swerl.dev/v1alpha1", "swerl.dev/v1", "apiVersion", "use swerl.dev/v1alpha1"),
        ("kind: SweRLJob", "kind: SweRLJob\nretries: 3", "retries", "below spec"),
    ],
)
def test_head_of_the_object_is_checked(old: str, new: str, field: str, remedy: str) -> None:
    [found] = faults(old, new)
    assert found.field == field and remedy in found.as_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXAMPLE.replace("kind: SweRLJob", "kind: SWERLJob"), "use kind: SweRLJob"),
        (EXAMPLE.replace("kind: SweRLJob\n", ""), "has no kind"),
        (f"{EXAMPLE}---\n{EXAMPLE}", "has 2 SweRLJobs"),
        ("kind: ConfigMap\n", "has no SweRLJob; it has ConfigMap"),
        (EXAMPLE.replace("groupSize: 4", "groupSize: 4\n    groupSize: 8"), "'groupSize' stands twice"),
        (EXAMPLE.replace("    groupSize", "\tgroupSize"), "indent with spaces"),
        ("just text", "a document is str"),
    ],
)
def test_what_is_no_job_file_says_so(text: str, message: str) -> None:
    with pytest.raises(JobCommandError, match=message):
        parse_job(text, "job.yaml")


def test_memory_of_the_nodes_gpus_counts() -> None:
    job = parse_job(EXAMPLE, "job.yaml").job
    assert file_faults(job, Machines(gpu_memory=80 * GIB)) == []
    [found] = file_faults(job, Machines(gpu_memory=8 * GIB))
    assert found.field == "spec.trainer" and "GiB" in found.message


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("swerljob*.yaml")), ids=lambda path: path.stem)
def test_examples_have_no_fault(path: Path) -> None:
    assert file_faults(read_job_file(path).job) == []


def test_number_with_an_exponent_is_a_number_as_for_kubectl() -> None:
    assert parse_job(EXAMPLE.replace("1.0e-6", "1e-6"), "x").job["spec"]["algorithm"]["lr"] == 1e-6
    assert parse_job(EXAMPLE.replace("name: qwen3-4b", "name: 12e3x"), "x").job["metadata"]["name"] == "12e3x"
