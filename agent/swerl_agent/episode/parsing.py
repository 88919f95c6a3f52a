"""What the model's text and a command's output mean: actions, submissions, patches. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .protocol import MINI_1, AgentProtocol

# Lines one of which a file's diff has, besides its `diff --git` line: text, new or deleted empty file, rename, mode,
# binary.
_CHANGE = re.compile(
    r"^(?:--- |\+\+\+ |new file mode |deleted file mode |rename from |copy from |old mode |GIT binary patch)",
    re.MULTILINE,
)
_DIFF = re.compile(r"^diff --git ", re.MULTILINE)
_OPAQUE = re.compile(r"^Binary files .* differ$", re.MULTILINE)

THOUGHT, THOUGHT_END = "<think>", "</think>"  # around a model's reasoning

# Tool calls as models write them: a JSON object, tags per parameter, or tags per key and value.
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_TAGGED = re.compile(r"\s*<function=([^>\s]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>\s*(?=<parameter=|$)", re.DOTALL)
_KEYED = re.compile(r"\s*([\w.-]+?)\s*(<arg_key>.*</arg_value>)?\s*", re.DOTALL)
_KEY = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*(?=<arg_key>|$)", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """A tool call. Arguments of a call in tags are all text, of a JSON call what JSON has."""

    name: str
    arguments: Mapping[str, Any]


def find_actions(text: str, protocol: AgentProtocol = MINI_1) -> list[str]:
    """The commands that `text` asks for behind its thought, in order; [] when one of its tool calls is none of bash's.

    A well-formed answer has exactly one; with tool calls it may have more.
    """
    text = after_reasoning(text)
    if protocol.fence is None:
        commands = [_command(call) for call in find_calls(text)]
        return [command for command in commands if command is not None] if None not in commands else []
    blocks = [block.strip() for block in _blocks(protocol.fence, protocol.exactly_one).findall(text)]
    return blocks if protocol.exactly_one else blocks[:1]


def split_thought(text: str) -> tuple[str, str]:
    """The thought that `text` begins with, whether it or the chat template opened it, and what follows.

    An unfinished thought is the whole text; without any it is ''.
    """
    thinks = text.lstrip().startswith(THOUGHT)
    before, ended, rest = text.partition(THOUGHT_END)
    if thinks or (ended and THOUGHT not in before):
        return before.lstrip().removeprefix(THOUGHT), rest
    return "", text


def after_reasoning(text: str) -> str:
    """`text` without the thought it begins with."""
    return split_thought(text)[1]


def find_calls(text: str) -> list[Call | None]:
    """The tool calls in `text`, in order; None for each that is malformed."""
    return [_call(match.group(1)) for match in _CALL.finditer(text)]


def without_calls(text: str) -> str:
    """`text` around its tool calls."""
    return _CALL.sub("", text).strip()


def is_action(actions: list[str], protocol: AgentProtocol) -> bool:
    """Whether what `find_actions` found can be run."""
    return len(actions) == 1 if protocol.exactly_one else bool(actions)


def submission(output: str, protocol: AgentProtocol = MINI_1) -> str | None:
    """What follows the submission sentinel when that is the first line of `output`, else None."""
    first, _, rest = output.lstrip().partition("\n")
    return rest if first.strip() in protocol.sentinels else None


def clean_patch(text: str) -> str:
    """`text` from its first `diff --git` line on, ending with the newline that git insists on; '' if there is none."""
    start = _DIFF.search(text)
    if not start:
        return ""
    patch = text[start.start() :]
    return patch if patch.endswith("\n") else patch + "\n"


def is_valid_patch(patch: str) -> bool:
    """Whether `patch` is a git diff that changes something: text, deletion, rename, mode or binary content alike."""
    return bool(_DIFF.search(patch) and _CHANGE.search(patch))


def is_opaque(patch: str) -> bool:
    """Whether `patch` names a binary file without its content, so that it cannot be applied."""
    return bool(_OPAQUE.search(patch))


@cache
def _blocks(fence: str, strict: bool) -> re.Pattern[str]:
    """Fenced blocks; a strict one closes on a line of its own. An unclosed or other fence is no action."""
    end = r"\n```" if strict else r"```"
    return re.compile(rf"```{re.escape(fence)}\s*\n(.*?){end}", re.DOTALL)


def _command(call: Call | None) -> str | None:
    """The command of a tool call; None when it is not a call of bash."""
    command = call.arguments.get("command") if call and call.name == "bash" else None
    return command if isinstance(command, str) else None


def _call(body: str) -> Call | None:
    try:
        parsed = json.loads(body, strict=False)
    except ValueError:
        return _in_tags(body, _TAGGED, _PARAMETER) or _in_tags(body, _KEYED, _KEY)
    name = parsed.get("name") if isinstance(parsed, dict) else None
    arguments = parsed.get("arguments") if isinstance(parsed, dict) else None
    return Call(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _in_tags(body: str, whole: re.Pattern[str], one: re.Pattern[str]) -> Call | None:
    match = whole.fullmatch(body)
    arguments = match.group(2) or "" if match else ""
    rest = one.sub("", arguments).strip()
    return Call(match.group(1), dict(one.findall(arguments))) if match and not rest else None
