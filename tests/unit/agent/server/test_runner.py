"""How a request reaches the model, or the reference fix the grader."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from swerl_agent.episode import Agent, BuiltinAgent, EpisodeRequest, GradedEpisode, HFTokenizer, Prompts
from swerl_agent.evaluation import SampleRunner
from swerl_agent.grading import Grader, Verdict
from swerl_agent.server import GoldPatchRunner, InvalidRequest, ModelRunner, RequestDefaults, RunRequest, read_request
from swerl_agent.server.answer import answer
from swerl_agent.tasks import Task
from swerl_api import AgentSpec, SandboxSpec

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block, served
from tests.unit.agent.episode.conftest import PLAIN, SUBMIT, CannedSession, make_tokenizer
from tests.unit.agent.episode.test_served import serving

from .conftest import SOLVED, body


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN))


class RecordingRunner:
    """Notes what it is asked for, as the grader and as the place of attempts."""

    def __init__(self) -> None:
        self.agents: list[BuiltinAgent] = []
        self.requests: list[EpisodeRequest] = []
        self.sandbox = SandboxSpec()
        self.patches: list[str] = []

    async def run(self, request: EpisodeRequest, agent: BuiltinAgent) -> GradedEpisode:
        self.agents.append(agent)
        self.requests.append(request)
        return SOLVED

    async def grade(self, task: Task, patch: str) -> Verdict:
        self.patches.append(patch)
        return Verdict("resolved")


def read(**changes: Any) -> RunRequest:
    return read_request(json.dumps(body(**changes)).encode(), RequestDefaults())


async def test_request_runs_on_the_model_it_names() -> None:
    recorder = RecordingRunner()
    async with aiohttp.ClientSession() as http:
        tokenizer = cast(Any, SimpleNamespace())
        runner = ModelRunner(cast(SampleRunner, recorder), http, tokenizer, Prompts.default(), AgentSpec())
        await runner.run(read(sampling_params={"temperature": 0.3, "top_p": 0.9, "top_k": 20, "max_new_tokens": 100}))
        await runner.run(read(sampling_params={"max_new_tokens": 1_000_000}, sglang_url="http://other:1/v1"))
    assert [agent.spec.max_tokens_per_turn for agent in recorder.agents] == [100, AgentSpec().max_tokens_per_turn]
    engines = [cast(Any, agent.engine) for agent in recorder.agents]
    assert [engine._url for engine in engines] == ["http://127.0.0.1:9/generate", "http://other:1/generate"]
    assert engines[0]._share == {"top_p": 0.9, "top_k": 20}
    assert [request.temperature for request in recorder.requests] == [0.3, 0.0]
    assert len({request.group for request in recorder.requests}) == 1, (
        "rollouts of a task share their prefix in one engine"
    )
    assert [request.index for request in recorder.requests] == [0, 1]


async def test_engine_of_another_model_is_refused(tokenizer: HFTokenizer, tmp_path: Path) -> None:
    recorder = RecordingRunner()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}))
    async with aiohttp.ClientSession() as http, serving({"/model_info": {"model_type": "llama"}}) as engine:
        runner = ModelRunner(
            cast(SampleRunner, recorder), http, tokenizer, Prompts.default(), AgentSpec(), folder=tmp_path
        )
        with pytest.raises(InvalidRequest, match=r"^sglang_url: .*llama"):
            await runner.run(read(sglang_url=f"{engine}/v1"))
    assert not recorder.agents


class LocalRunner:
    """Samples without a sandbox, all of them solved."""

    sandbox = SandboxSpec()

    async def run(self, request: EpisodeRequest, agent: Agent) -> GradedEpisode:
        return GradedEpisode(await agent.run_episode(request, CannedSession()), Verdict("resolved"))


async def test_engine_tokens_reach_the_answer(tokenizer: HFTokenizer) -> None:
    script = Script(tokenizer, [block("ls"), block(SUBMIT)])
    spec = agent_spec()
    async with aiohttp.ClientSession() as http, served(script) as engine:
        runner = ModelRunner(cast(SampleRunner, LocalRunner()), http, tokenizer, Prompts.default(), spec)
        request = read(sglang_url=f"{engine}/v1", sampling_params={})
        answered = answer(request, await runner.run(request), "m")
    sampled = [item for item in answered["response"]["output"] if "generation_token_ids" in item]
    assert [tokenizer.decode(item["prompt_token_ids"]) for item in sampled] == script.read
    assert tokenizer.decode(sampled[1]["generation_token_ids"]) == f"{block(SUBMIT)}<|im_end|>"
    assert sampled[1]["generation_log_probs"] == [-0.25] * len(sampled[1]["generation_token_ids"])
    assert (answered["reward"], answered["info"]["exit_status"]) == (1, "Submitted")


async def test_reference_fix_is_graded_in_the_models_place() -> None:
    recorder, request = RecordingRunner(), read()
    attempt = await GoldPatchRunner(cast(Grader, recorder)).run(request)
    assert recorder.patches == [request.task.ground_truth.patch]
    assert attempt.resolved and attempt.episode.exit_status == "golden" and not attempt.episode.messages
