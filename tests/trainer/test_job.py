"""The job file, and what becomes of its fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from swerl_api.swesandbox import MAX_SANDBOX_NAME
from swerl_trainer.driver import settings
from swerl_trainer.job import Job, JobError

MakeJob = Callable[..., Job]


def test_a_job_knows_its_folders_and_labels(make_job: MakeJob) -> None:
    job = make_job(attempt=3)
    assert job.selector == "swerl.dev/job=demo,swerl.dev/attempt=3"
    assert job.folder == job.paths.output / "demo"
    assert job.checkpoints == job.folder / "checkpoints"
    assert job.logs == job.folder / "logs" / "3"
    assert job.sandbox_name("g12-r1") == "demo-3-g12-r1"


def test_a_long_job_name_still_gives_unique_sandbox_names(make_job: MakeJob) -> None:
    job = make_job()
    jobs = [Job(name * 5, "n", "u", 12, "l", job.spec) for name in ("abcdefgh", "abcdefgx")]
    names = {job.sandbox_name("g1234567-r2") for job in jobs}
    assert len(names) == 2
    assert all(len(name) <= MAX_SANDBOX_NAME for name in names)


def test_a_broken_job_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    with pytest.raises(JobError, match=r"job\.json"):
        Job.read(path)
    path.write_text(json.dumps({"name": "x"}))
    with pytest.raises(JobError, match="spec"):
        Job.read(path)


def test_the_algorithm_reaches_trainer_and_dispatcher(make_job: MakeJob) -> None:
    job = make_job(algorithm={"clipHigh": 0.3, "minibatches": 2, "maxStaleness": 1}, sandbox={"prefetch": 3})
    trainer = settings.trainer_settings(job, "/m")
    assert (trainer.loss.clip_high, trainer.minibatches, trainer.dtype) == (0.3, 2, "float32")
    dispatch = settings.dispatch_settings(job.spec)
    assert (dispatch.max_staleness, dispatch.prefetch) == (1, 3)


def test_ranks_take_whole_gpus_also_when_engines_share_them(make_job: MakeJob) -> None:
    cpu = make_job()
    assert settings.ranks(cpu.spec) == (1, 0.0)
    trainer = {"image": "i", "gpus": 4, "replicas": 2}
    apart = make_job(trainer=trainer, rollout={"gpusPerEngine": 4})
    assert settings.ranks(apart.spec) == (8, 1.0)
    shared = apart.spec.model_copy(update={"colocate": True})
    assert settings.ranks(shared) == (8, 1.0)
    assert not settings.shares_gpus(apart.spec)
    assert settings.shares_gpus(shared)


def test_the_optimizers_place_reaches_the_trainer(make_job: MakeJob) -> None:
    job = make_job(trainer={"image": "i", "gpus": 1, "offload": True, "recompute": "full"})
    trainer = settings.trainer_settings(job, "/m")
    assert (trainer.offload, trainer.recompute) == (True, "full")


def test_engines_get_the_users_arguments(make_job: MakeJob) -> None:
    server = settings.server_settings(make_job(rollout={"engineArgs": {"max-total-tokens": 9}}), "/m")
    assert server.arguments == {"max-total-tokens": 9}
    assert (server.gpus, server.context_tokens) == (0, 512)


def test_the_judges_engines_have_their_own_window(make_job: MakeJob) -> None:
    judge = {"model": {"configMap": {"name": "j"}}, "contextTokens": 4096}
    job = make_job(judge=judge, algorithm={"stepwise": {"enabled": True}})
    assert job.spec.judge is not None
    server = settings.judge_settings(job.spec.judge, "/j")
    assert (server.model, server.dtype, server.gpus, server.context_tokens) == ("/j", "auto", 0, 4096)
