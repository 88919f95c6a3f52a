"""An evaluation in real sandboxes with real grading: killed in between, it continues where it stopped."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import BuiltinAgent, HFTokenizer, Prompts
from swerl_agent.evaluation import (
    Evaluation,
    SampleRecord,
    SampleRecords,
    SummaryWriter,
    open_sample_runner,
    predictions,
    summarise,
)
from swerl_agent.tasks import Task
from swerl_api import AgentSpec, Resources, SampleSpec, SandboxSpec
from swerl_kube import KubeClient

from tests.control_plane.operator_process import Operator
from tests.scripted_engine import Scripts, block

from .conftest import settings
from .test_episode import FIX, SUBMIT, tokenizer

__all__ = ["tokenizer"]
SMALL = SandboxSpec(resources=Resources(requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "512Mi"}))
SAMPLES = 3


def solver(tokenizer: HFTokenizer) -> Scripts:
    """An engine that fixes the task in its samples 0 and 1 and gives up in the others."""

    def answers(routing_key: str) -> list[str]:
        solves = routing_key.partition("/")[0].endswith(("-0", "-1"))
        return [block(FIX), block(SUBMIT)] if solves else [block("true"), block("true")]

    return Scripts(tokenizer, answers)


@pytest.fixture
def tasks(task: Task) -> list[Task]:
    return [task, replace(task, instance_id="calc__calc-2")]


async def test_killed_evaluation_resumes_and_repeats_no_sample(
    operator: Operator,
    client: KubeClient,
    kubeconfig: str,
    namespace: str,
    tasks: list[Task],
    tokenizer: HFTokenizer,
    tmp_path: Path,
) -> None:
    how = SampleSpec(samples=SAMPLES, workers=2, temperature=1.0)
    spec = AgentSpec(context_tokens=200_000, step_limit=2)
    first = asyncio.Event()

    def evaluation(records: SampleRecords, engine: Scripts) -> Evaluation:
        def note(record: SampleRecord) -> None:
            first.set()

        agent = BuiltinAgent(engine, tokenizer, Prompts.default(), spec)
        summary_writer = SummaryWriter(tmp_path, records, {"model": "m"})
        return Evaluation(tasks, agent, how, records, tmp_path, on_record=note, write_summary=summary_writer.write)

    async def run(evaluation: Evaluation) -> None:
        sample_runner = open_sample_runner(client, namespace, settings(), SMALL, job="killed", kubeconfig=kubeconfig)
        async with sample_runner as runner:
            await evaluation.run(runner)

    interrupted = asyncio.create_task(run(evaluation(SampleRecords(tmp_path), solver(tokenizer))))
    await asyncio.wait([interrupted, asyncio.create_task(first.wait())], return_when=asyncio.FIRST_COMPLETED)
    interrupted.cancel()
    await asyncio.gather(interrupted, return_exceptions=True)
    settled = {record.sample_id for record in SampleRecords(tmp_path).all}
    assert 0 < len(settled) < len(tasks) * SAMPLES

    records, engine = SampleRecords(tmp_path), solver(tokenizer)
    await run(evaluation(records, engine))
    assert {r.sample_id for r in records.all} == {(task.instance_id, n) for task in tasks for n in range(SAMPLES)}
    assert all(r.valid and r.resolved == (r.sample < 2) for r in records.all), records.all
    assert set(engine.episodes.values()) == {1}
    assert not [key for name, n in settled for key in engine.episodes if key.startswith(f"{name}-{n}/")]

    summary = summarise(records.all, model="m", data="d", arguments={})
    assert summary["resolve_rate"] == pytest.approx(2 / 3, abs=1e-3)
    found = predictions(tmp_path, records.all, "m")
    assert json.loads((tmp_path / "preds.json").read_text()) == found
    assert all("min(high" in row["model_patch"] for row in found.values())
    meta = json.loads((tmp_path / records.all[0].run_dir / "meta.json").read_text())
    assert meta["verdict"]["status"] == "resolved"
    remaining = await client.list("swerl.dev/v1alpha1", "swesandboxes", namespace)
    assert not remaining
