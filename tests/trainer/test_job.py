"""The job file, and what becomes of its fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from swerl_api.swesandbox import MAX_SANDBOX_NAME
from swerl_trainer.driver import resources
from swerl_trainer.job import Job, JobError
from swerl_trainer.megatron.config import RankConfig, initial_lr

MakeJob = Callable[..., Job]


def test_job_has_folders_and_labels(make_job: MakeJob) -> None:
    job = make_job(attempt=3)
    assert job.selector == "swerl.dev/job=demo,swerl.dev/attempt=3"
    assert job.folder == job.paths.output / "demo"
    assert job.checkpoints == job.folder / "checkpoints"
    assert job.logs == job.folder / "logs" / "3"
    assert job.sandbox_name("g12-r1") == "demo-3-g12-r1"


def test_model_is_named_by_its_repository_or_its_folder(make_job: MakeJob) -> None:
    sources = {
        "Qwen/Qwen3-4B": {"huggingFace": {"id": "Qwen/Qwen3-4B"}},
        "tiny": {"image": {"reference": "registry/x:1", "path": "/models/tiny"}},
        "qwen": {"persistentVolumeClaim": {"claimName": "models", "path": "hub/qwen"}},
        "models": {"persistentVolumeClaim": {"claimName": "models"}},
    }
    found = {name: make_job(model={"source": source}).model for name, source in sources.items()}
    assert found == {name: name for name in sources}


def test_long_job_name_still_gives_unique_sandbox_names(make_job: MakeJob) -> None:
    job = make_job()
    jobs = [Job(name * 5, "n", "u", 12, "l", job.spec) for name in ("abcdefgh", "abcdefgx")]
    names = {job.sandbox_name("g1234567-r2") for job in jobs}
    assert len(names) == 2
    assert all(len(name) <= MAX_SANDBOX_NAME for name in names)


def test_broken_job_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    with pytest.raises(JobError, match=r"job\.json"):
        Job.read(path)
    path.write_text(json.dumps({"name": "x"}))
    with pytest.raises(JobError, match="spec"):
        Job.read(path)


def test_spec_reaches_training_ranks_as_it_is(make_job: MakeJob) -> None:
    job = make_job(algorithm={"clipHigh": 0.3, "minibatches": 2}, trainer={"image": "i", "gpus": 1, "offload": True})
    config = RankConfig.of(job.spec, "/m")
    assert (config.model, config.dtype) == ("/m", "float32")
    assert (config.algorithm, config.trainer) == (job.spec.algorithm, job.spec.trainer)


def test_supervised_steps_have_their_own_learning_rate(make_job: MakeJob) -> None:
    sft = {"data": "d.jsonl", "lr": 5e-4}
    assert initial_lr(make_job(algorithm={"lr": 1e-6}).spec.algorithm) == 1e-6
    assert initial_lr(make_job(algorithm={"lr": 1e-6, "sft": sft}).spec.algorithm) == 5e-4


def test_ranks_take_whole_gpus_also_when_engines_share_them(make_job: MakeJob) -> None:
    cpu = make_job()
    assert resources.training_ranks(cpu.spec) == (1, 0.0)
    assert resources.training_ranks(make_job(trainer={"replicas": 2, "cpuRanks": 2}).spec) == (4, 0.0)
    trainer = {"image": "i", "gpus": 4, "replicas": 2}
    separate = make_job(trainer=trainer, rollout={"gpusPerEngine": 4})
    assert resources.training_ranks(separate.spec) == (8, 1.0)
    shared = separate.spec.model_copy(update={"colocate": True})
    assert resources.training_ranks(shared) == (8, 1.0)
    assert not resources.shares_gpus(separate.spec)
    assert resources.shares_gpus(shared)


def test_engines_get_the_users_arguments(make_job: MakeJob) -> None:
    server = resources.engine_server(make_job(rollout={"engineArgs": {"max-total-tokens": 9}}))
    assert server.arguments == {"max-total-tokens": 9}
    assert (server.gpus, server.context_tokens) == (0, 512)


def test_judges_engines_have_their_own_window(make_job: MakeJob) -> None:
    judge = {"model": {"configMap": {"name": "j"}}, "contextTokens": 4096}
    job = make_job(judge=judge, algorithm={"stepwise": {"enabled": True}})
    assert job.spec.judge is not None
    server = resources.judge_server(job, job.spec.judge)
    assert (server.model, server.dtype, server.gpus, server.context_tokens) == (str(job.paths.judge), "auto", 0, 4096)
