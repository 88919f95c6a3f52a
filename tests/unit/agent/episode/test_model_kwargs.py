"""Further fields of the model's requests reach engine, chat template and chat completions server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import (
    ChatCompletions,
    Completion,
    EpisodeRequest,
    HFTokenizer,
    PromptError,
    SamplingFields,
    request_fields,
    with_template_options,
)
from swerl_agent.episode.chat_conversation import ChatConversation
from swerl_agent.episode.conversation import SampledConversation
from swerl_agent.episode.model_kwargs import sampling_fields
from swerl_agent.evaluation import open_agent, open_chat_agent
from swerl_agent.tasks import GroundTruth, Task
from swerl_api import AgentSpec

from tests.scripted_engine import Script

from .conftest import PLAIN, make_tokenizer

THINKS = "{% if enable_thinking is defined and not enable_thinking %}no thoughts\n{% endif %}"
OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
TASK = Task("kit__kit-1", "kit/kit", "0" * 40, "1", "It breaks.", "image", GroundTruth("", "", "", ("t::a",), ()))
REQUEST = EpisodeRequest(TASK, group="g", index=0, temperature=0.5, workdir="/testbed")


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec(model_kwargs=fields)


class Noting(Script):
    """Notes what its requests leave out."""

    truncation: Any = "not asked"

    async def generate(self, *ids: Any, truncation: Any = None, **how: Any) -> Any:
        self.truncation = truncation
        return await super().generate(*ids, **how)


@pytest.mark.parametrize(
    ("fields", "truncation"),
    [
        ({}, None),
        ({"top_p": 0.9, "min_p": 0}, {"top_p": 0.9}),
        ({"extra_body": {"top_k": 20, "min_p": 0.1}}, {"top_k": 20, "min_p": 0.1}),
        ({"top_p": 1.0, "top_k": -1}, None),
    ],
)
async def test_engine_leaves_out_the_tokens_that_the_fields_say(
    tokenizer: HFTokenizer, fields: dict[str, Any], truncation: Any
) -> None:
    engine = Noting(tokenizer, ["an answer"])
    conversation = SampledConversation(engine, tokenizer, spec(**fields), list(OPENING), REQUEST)
    await conversation.answer()
    assert engine.truncation == truncation


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": False},
        {"reasoning_effort": "none"},
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    ],
)
def test_chat_template_reads_the_fields(tmp_path: Path, fields: dict[str, Any]) -> None:
    tokenizer = HFTokenizer(make_tokenizer(tmp_path, THINKS + PLAIN))
    rendering = with_template_options(tokenizer, spec(**fields))
    assert tokenizer.decode(rendering.prompt(OPENING)).startswith("no thoughts\n")
    assert not tokenizer.decode(tokenizer.prompt(OPENING)).startswith("no thoughts\n")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0.2}, "temperature is set by the temperature of the job or evaluation; leave it out"),
        ({"max_tokens": 9}, "max_tokens is set by agent.maxTokensPerTurn"),
        ({"extra_body": {"stop": ["x"]}}, "stop is set by agent.protocol"),
        ({"extra_body": "x"}, "extra_body must be an object"),
        ({"drop_params": True}, "drop_params: is none of top_p, top_k, min_p, chat_template_kwargs"),
        ({"top_p": 2}, "top_p: Input should be less than or equal to 1"),
    ],
)
def test_fields_that_would_change_nothing_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PromptError, match=r"^agent\.modelKwargs: ") as refused:
        sampling_fields(spec(**fields))
    assert message in str(refused.value)


async def test_chat_completions_get_any_other_field() -> None:
    bodies: list[dict[str, Any]] = []

    class Server(ChatCompletions):
        def __init__(self) -> None: ...

        async def complete(self, messages: Any, **how: Any) -> Completion:
            bodies.append(how)
            return Completion({}, {"content": "an answer"}, False, {})

    fields = {"top_p": 0.9, "extra_body": {"provider": {"order": ["a"]}}}
    await ChatConversation(Server(), spec(**fields), list(OPENING), REQUEST).answer()
    assert {"top_p": 0.9, "provider": {"order": ["a"]}}.items() <= bodies[0].items()
    assert (bodies[0]["temperature"], request_fields(spec())) == (0.5, {})


async def test_fields_of_another_agent_or_at_fault_are_refused_at_its_start(tokenizer: HFTokenizer) -> None:
    mini = AgentSpec(kind="mini-swe-agent", protocol="mini-swe-agent-2", model_kwargs={"top_p": 0.9})
    with pytest.raises(PromptError, match=r"agent\.modelKwargs is of the builtin agent"):
        async with open_agent(mini, Script(tokenizer, ()), tokenizer, None):
            pass
    with pytest.raises(PromptError, match=r"n is set by agent\.protocol"):
        server = ChatCompletions("http://127.0.0.1:9", None, model="m")  # type: ignore[arg-type]
        async with open_chat_agent(spec(n=2), server, None, temperature=0.0):
            pass


def test_fields_are_those_of_the_gateway() -> None:
    assert SamplingFields(top_k=5).truncation == {"top_k": 5}
