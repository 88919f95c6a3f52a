"""How a request reaches the model, or the reference fix the grader."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from swerl_agent.episode import AgentLimits, Prompts
from swerl_agent.evaluation import Attempt, Attempts, Model
from swerl_agent.grading import Grader, Verdict
from swerl_agent.server import AttemptRunner, Defaults, GoldenRunner, RunRequest, read_request
from swerl_agent.tasks import Task

from .conftest import SOLVED, body


class Asked:
    """Notes what it is asked for, as the grader and as the place of attempts."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.how: list[dict[str, Any]] = []
        self.patches: list[str] = []

    async def make(self, task: Task, model: Model, **how: Any) -> Attempt:
        self.models.append(model)
        self.how.append(how)
        return SOLVED

    async def grade(self, task: Task, patch: str) -> Verdict:
        self.patches.append(patch)
        return Verdict("resolved")


def read(**changes: Any) -> RunRequest:
    return read_request(json.dumps(body(**changes)).encode(), Defaults())


async def test_a_request_is_played_by_the_model_it_names() -> None:
    asked = Asked()
    async with aiohttp.ClientSession() as http:
        tokenizer = cast(Any, SimpleNamespace())
        runner = AttemptRunner(cast(Attempts, asked), http, tokenizer, Prompts.default(), AgentLimits())
        await runner.run(read(sampling_params={"temperature": 0.3, "top_p": 0.9, "top_k": 20, "max_new_tokens": 100}))
        await runner.run(read(sampling_params={"max_new_tokens": 1_000_000}, sglang_url="http://other:1/v1"))
    assert [model.limits.max_tokens_per_turn for model in asked.models] == [100, AgentLimits().max_tokens_per_turn]
    engines = [cast(Any, model.engine) for model in asked.models]
    assert [engine._url for engine in engines] == ["http://127.0.0.1:9/generate", "http://other:1/generate"]
    assert engines[0]._share == {"top_p": 0.9, "top_k": 20}
    assert [how["temperature"] for how in asked.how] == [0.3, 0.0]
    assert len({how["group"] for how in asked.how}) == 1, "rollouts of a task share their prefix in one engine"
    assert [how["index"] for how in asked.how] == [0, 1]


async def test_the_reference_fix_is_graded_in_the_models_place() -> None:
    asked, request = Asked(), read()
    attempt = await GoldenRunner(cast(Grader, asked)).run(request)
    assert asked.patches == [request.task.evaluation.patch]
    assert attempt.resolved and attempt.episode.exit_status == "golden" and not attempt.episode.messages
