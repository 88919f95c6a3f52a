"""The answer to `POST /run`: reward, conversation, and the same as an OpenAI response object with its tokens.

Guarantee: the token ids and log-probs of an answer are those the engine read and sampled, in full and unchanged.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from swerl_agent.episode import Episode, GradedEpisode, agent_metrics
from swerl_agent.grading.predictions import instance_report

from .request import RunRequest
from .runner import GOLD_PATCH

Json = dict[str, Any]
PROMPT = 2  # messages before the first answer: system, user
# How trainers of this wire format call the ends of an episode: the first is a complete sample, the others are truncated
# ones; whatever else they read drops the whole group. Those that no answer is made of are not here.
EXIT_STATUSES = {
    "submitted": "Submitted",
    GOLD_PATCH: "Submitted",
    "max_steps": "LimitsExceeded",
    "episode_timeout": "LimitsExceeded",
    "context_overflow": "RolloutTruncated",
    "prompt_too_long": "RolloutTruncated",
    "repeated_format_errors": "RolloutTruncated",
    "repeated_command": "CollapseContinued",
    "sandbox_destroyed": "RolloutTruncated",
}


def answer(request: RunRequest, graded: GradedEpisode, model: str) -> Json:
    """The body of the answer for a graded episode that was not lost."""
    episode, verdict = graded.episode, graded.verdict
    return {
        "reward": int(graded.resolved),
        "instance_id": request.instance_id,
        "messages": episode.messages,
        "responses_create_params": {**_without_row(request.create_params), "input": episode.messages[:PROMPT]},
        "response": response(episode, request, model),
        "metadata": {
            "eval_report": {request.instance_id: instance_report(episode.patch or "", verdict)} if verdict else {}
        },
        "info": {
            "exit_status": EXIT_STATUSES.get(episode.exit_status, episode.exit_status),
            "status": episode.exit_status,
            "agent_metrics": agent_metrics(episode, eval_time=verdict.duration if verdict else None),
            "patch_source": episode.patch_source,
            "verdict": verdict.status if verdict else None,
        },
    }


def response(episode: Episode, request: RunRequest, model: str) -> Json:
    """The episode after its prompt as an object of the Responses API."""
    output = list(output_items(episode))
    sampled = [item for item in output if "generation_token_ids" in item]
    read, written = (sum(len(item[f"{kind}_token_ids"]) for item in sampled) for kind in ("prompt", "generation"))
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": time.time(),
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": False,
        "temperature": request.sampling.temperature,
        "tool_choice": "auto",
        "tools": [],
        "top_p": request.sampling.top_p,
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
    }


def output_items(episode: Episode) -> Iterator[Json]:
    """Answers with their tokens, observations, and with tool calls each call before its output, in their order."""
    tokens, commands = _tokens(episode), enumerate(episode.commands)
    for number, message in enumerate(episode.messages[PROMPT:]):
        role, text = message["role"], message["content"]
        if role == "assistant":
            content = {"type": "output_text", "text": text, "annotations": []}
            yield {"id": f"msg_{number}", **_message(role, content), **next(tokens)}
        elif role == "tool":
            yield from _call(*next(commands), text)
        else:
            yield _message(role, {"type": "input_text", "text": text})


def _without_row(params: Mapping[str, Any]) -> Json:
    """Without the metadata, in which some clients send the reference fix and the tests."""
    return {key: value for key, value in params.items() if key != "metadata"}


def _tokens(episode: Episode) -> Iterator[Json]:
    """Of every answer: all that was read for it, what was sampled, and its natural log-probs."""
    for segment in episode.segments:
        for _, start, end in segment.answers:
            yield {
                "prompt_token_ids": segment.tokens[:start],
                "generation_token_ids": segment.tokens[start:end],
                "generation_log_probs": segment.logprobs[start:end],
            }


def _message(role: str, content: Json) -> Json:
    return {"type": "message", "role": role, "status": "completed", "content": [content]}


def _call(number: int, step: Mapping[str, Any], output: str) -> Iterator[Json]:
    call = {"call_id": f"call_{number}", "status": "completed"}
    arguments = json.dumps({"command": step["action"]})
    yield {"type": "function_call", "id": f"fc_{number}", "name": "bash", "arguments": arguments, **call}
    yield {"type": "function_call_output", "id": f"fco_{number}", "output": output, **call}
