"""Trajectories of mini-swe-agent (1.x, 2.x) and SWE-agent as episodes.

Guarantee: any object that has a list of messages or steps gives an episode; fields of another type than expected count
as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from swerl_agent.audit.trajectory import asked
from swerl_agent.episode import Episode

from .fields import integer, listed, mapping, number, text
from .trajectory import block_text

MINI, SWE_AGENT = "mini-swe-agent", "SWE-agent"
ENDS = 1_500  # characters of an output's beginning and of its end, as the records of episodes have them
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no undecodable byte
_RETURN_CODE = re.compile(r"<returncode>(-?\d{1,6})</returncode>")


def foreign_episode(instance_id: str, index: int, content: Mapping[str, Any]) -> tuple[Episode, dict[str, Any]]:
    """The episode in the content of a file, and what else its meta.json says (model, version of the agent)."""
    info = mapping(content.get("info"))
    sort = SWE_AGENT if isinstance(content.get("trajectory"), list) else MINI
    episode = Episode(instance_id, "import", index, agent_name=sort)
    stats = mapping(info.get("model_stats"))
    episode.usage = _known(
        requests=number(stats.get("api_calls")),
        cost_usd=number(stats.get("instance_cost")),
        prompt_tokens=number(stats.get("tokens_sent")),
        completion_tokens=number(stats.get("tokens_received")),
    )
    if sort == SWE_AGENT:
        _read_swe_agent(episode, content)
    else:
        messages = next((listed(content.get(name)) for name in ("messages", "input", "items") if content.get(name)), [])
        _read_mini(episode, messages)
    episode.turns = sum(message["role"] == "assistant" for message in episode.messages)
    episode.patch = _NO_BYTE.sub("\ufffd", text(info.get("submission"))) or None
    episode.patch_source = "submission" if episode.patch else None
    episode.exit_status = text(info.get("exit_status")) or "unknown"
    config = mapping(mapping(info.get("config")).get("model"))
    return episode, {
        "model": text(config.get("model_name")) or text(info.get("model_name")) or text(info.get("model")),
        "agent_version": text(info.get("mini_version")) or text(info.get("swe_agent_version")),
    }


def _known(**figures: float | None) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}


def _record(turn: int, command: str, output: str | None = None, **fields: Any) -> dict[str, Any]:
    """A command as the records of episodes have it."""
    record: dict[str, Any] = {"step_idx": turn, "action": command, "returncode": None, "timed_out": False, **fields}
    return record | _ends(output) if output is not None else record


def _ends(output: str) -> dict[str, Any]:
    return {
        "output_len": len(output),
        "output_hidden": 0,
        "output_head": output[:ENDS],
        "output_tail": output[-ENDS:],
    }


def _read_mini(episode: Episode, messages: Sequence[Any]) -> None:
    """Each answer's commands are matched with the messages that follow it, in their order."""
    turn, waiting, clock = -1, list[dict[str, Any]](), None
    for message in map(mapping, messages):
        extra, role = mapping(message.get("extra")), _role(message)
        now = number(extra.get("timestamp"))
        if role == "exit":
            continue
        content = _content(message)
        episode.messages.append({"role": role, "content": content})
        if role == "assistant":
            turn += 1
            waiting = [_record(turn, command) for command in _commands(message, extra)]
            episode.commands += waiting
            _count_tokens(episode, mapping(mapping(extra.get("response")).get("usage") or message.get("usage")))
        elif waiting:
            record = waiting.pop(0)
            record |= _ends(text(extra.get("raw_output")) or content)
            code = _RETURN_CODE.search(content)
            record["returncode"] = integer(extra.get("returncode")) if "returncode" in extra else None
            if record["returncode"] is None and code:
                record["returncode"] = int(code[1])
            if clock is not None and now is not None:
                record |= {"start_ts": clock, "end_ts": now}
        clock = now


def _role(message: Mapping[str, Any]) -> str:
    """The role of a message; those of the Responses API name none."""
    if role := text(message.get("role")):
        return role
    return "tool" if text(message.get("type")) == "function_call_output" else "assistant"


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message, of an item of the Responses API, or of a whole response."""
    output = message.get("output")
    if isinstance(output, list) and "content" not in message:
        return "\n".join(filter(None, (_item_text(mapping(item)) for item in output)))
    return block_text(message.get("content", output))


def _item_text(item: Mapping[str, Any]) -> str:
    thought = block_text(item.get("summary"))
    return f"<think>{thought}</think>" if thought else block_text(item.get("content"))


def _commands(message: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    """What an answer had run: version 2 says so; version 1 runs an answer's block where it has exactly one."""
    if isinstance(extra.get("actions"), list):
        return [text(mapping(each).get("command") or each) for each in extra["actions"]]
    found = list(asked(message))
    calls = isinstance(message.get("output"), list) or bool(message.get("tool_calls"))
    return found if calls or len(found) == 1 else []


def _count_tokens(episode: Episode, usage: Mapping[str, Any]) -> None:
    details = mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    counts = _known(
        prompt_tokens=number(usage.get("prompt_tokens") or usage.get("input_tokens")),
        completion_tokens=number(usage.get("completion_tokens") or usage.get("output_tokens")),
        cached_tokens=number(details.get("cached_tokens")),
    )
    for name, value in counts.items():
        episode.usage[name] = episode.usage.get(name, 0.0) + value


def _read_swe_agent(episode: Episode, content: Mapping[str, Any]) -> None:
    """The messages before the first answer are those of the history, without demonstrations."""
    for message in map(mapping, listed(content.get("history"))):
        if message.get("is_demo") or text(message.get("message_type")) == "demonstration":
            continue
        if (role := text(message.get("role"))) not in ("system", "user"):
            break
        episode.messages.append({"role": role, "content": block_text(message.get("content"))})
    for turn, step in enumerate(map(mapping, listed(content.get("trajectory")))):
        output = text(step.get("observation"))
        answer = text(step.get("response")) or text(step.get("thought"))
        episode.messages.append({"role": "assistant", "content": answer})
        if action := text(step.get("action")).strip():
            episode.commands.append(_record(turn, action, output, seconds=number(step.get("execution_time"))))
        if output:
            episode.messages.append({"role": "user", "content": output})
