"""Tokens of a conversation, from the model's own chat template.

Guarantees:
* A conversation's prompt is rendered once; afterwards only the delta of each new message is encoded, so that sampled
  tokens are never decoded and encoded again.
* Message content never becomes a control token: text such as `<|im_end|>` in a command's output is plain text.
* The delta is derived from the chat template and checked against it when the tokenizer is loaded.
* Every id given out lies inside the model's vocabulary.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from .rendering import failure
from .tokenizer_folder import TokenizerError, read_tokenizer, vocabulary_size

Messages = Sequence[Mapping[str, Any]]


class Tokenizer(Protocol):
    """What an episode needs of a tokenizer."""

    stop_token_ids: tuple[int, ...]  # any of these ends an answer
    turn_end_id: int  # the token that closes an answer in the chat template
    tool_end_id: int  # the same for an answer that a tool's result follows
    vocab_size: int

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tokens in it stay text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens included."""
        ...

    def prompt(self, messages: Messages) -> list[int]:
        """Ids of a whole conversation with the header of the next answer."""
        ...

    def delta(self, *contents: str, role: str = "user") -> list[int]:
        """Ids that follow a closed answer: messages of `role` (user or tool) and the header of the next answer."""
        ...


# Placeholders of message content in a rendered template: private-use characters around a number.
_MARK = "\ue000{}\ue001"
_MARKED = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True)
class _TemplateText:
    text: str
    trusted: bool  # from the chat template, where control tokens count


@dataclass(frozen=True)
class _Appended:
    """How the template appends messages to a closed answer."""

    end: int  # the token that closes the answer
    around: tuple[str, ...]  # template text before, between and after their contents


class HFTokenizer:
    """A Hugging Face tokenizer folder (tokenizer.json, chat template), without torch.

    `chat_template` replaces the tokenizer's own; `tools` are shown in every prompt. Raises TokenizerError when the
    folder has no usable tokenizer, no chat template, or one that cannot append messages one by one or show tools.
    """

    def __init__(
        self, path: str | Path, *, chat_template: str | None = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._inner = read_tokenizer(Path(path), chat_template)
        self._control: dict[str, int] = {
            token.content: index for index, token in self._inner.added_tokens_decoder.items()
        }
        self._written = {  # control tokens of the model's own writing: <think>, <tool_call>
            token.content for token in self._inner.added_tokens_decoder.values() if not token.special
        }
        self._split = re.compile("|".join(map(re.escape, sorted(self._control, key=len, reverse=True))) or r"(?!)")
        self._risky = re.compile(f"{self._split.pattern}|{_MARKED.pattern}")
        self.vocab_size = vocabulary_size(Path(path), len(self._inner))
        self._options: dict[str, Any] = {}
        self._show(tools)

    def with_tools(self, tools: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None) -> HFTokenizer:
        """The same with other tools in the prompt and other `options` of the chat template (enable_thinking, ...).

        Raises TokenizerError when the chat template does not show the tools, or for a name that is no option.
        """
        reserved = {"messages", "add_generation_prompt", *signature(self._inner.apply_chat_template).parameters}
        if names := sorted(reserved & set(options or {})):
            raise TokenizerError(f"{names[0]!r} is not an option of a chat template; leave it out")
        other = copy.copy(self)
        other._options = dict(options or {})
        other._show(tools)
        return other

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tokens in it stay text."""
        return self._encode([_TemplateText(text, trusted=False)])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens included."""
        return str(self._inner.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def prompt(self, messages: Messages) -> list[int]:
        """Ids of a whole conversation with the header of the next answer."""
        return self._encode(self._fill(messages))

    def rendered(self, messages: Messages) -> list[int]:
        """Ids of a conversation as a chat server renders it: the template sees the contents and may change them.

        Answers may have `tool_calls` as chat templates read them, with arguments as an object.
        """
        replaced: list[str] = []
        shown = [
            self._marked_all({**message, "content": ""}, replaced)
            | {"content": self._marked(message["role"], message["content"], replaced)}
            for message in messages
        ]
        return self._encode_marked(self._render(shown), replaced)

    def encode_answer(self, text: str) -> list[int]:
        """Ids of an answer's text; tokens such as <think> that a model itself writes are tokens, others stay text."""
        replaced: list[str] = []
        return self._encode_marked(self._marked("assistant", text, replaced), replaced)

    def header(self) -> str:
        """What the template writes before an answer."""
        return self._appended("user").around[-1]

    def delta(self, *contents: str, role: str = "user") -> list[int]:
        """Ids that follow a closed answer: messages of `role` (user or tool) and the header of the next answer."""
        return self.continuation([{"role": role, "content": content} for content in contents])[1]

    def continuation(self, messages: Messages) -> tuple[int, list[int]]:
        """The token that closes an answer before `messages`, and the ids after it with the header of the next answer.

        Raises TokenizerError when the chat template cannot append messages of these roles.
        """
        appended = self._appended(*(message["role"] for message in messages))
        first, *others = appended.around
        parts = [_TemplateText(first, True)]
        for message, after in zip(messages, others, strict=True):
            parts += [_TemplateText(message["content"], False), _TemplateText(after, True)]
        return appended.end, self._encode(parts)

    def _show(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """Have `tools` in every prompt."""
        self._tools = [dict(tool) for tool in tools]
        self._known: dict[tuple[str, ...], _Appended] = {}
        self.turn_end_id = self._appended("user").end
        self.tool_end_id = self._tool_end() if tools else self.turn_end_id
        eos = self._inner.eos_token_id
        ends = [self.turn_end_id, self.tool_end_id, *([] if eos is None else [eos])]
        self.stop_token_ids: tuple[int, ...] = tuple(dict.fromkeys(ends))
        self._verify("tool" if tools else "user")

    def _marked_all(self, value: Any, replaced: list[str]) -> Any:
        """The same of every text in `value`, as text that was not written by the model."""
        if isinstance(value, str):
            return self._marked("tool", value, replaced)
        if isinstance(value, Mapping):
            return {
                self._marked("tool", key, replaced): self._marked_all(part, replaced) for key, part in value.items()
            }
        return [self._marked_all(part, replaced) for part in value] if isinstance(value, list) else value

    def _marked(self, role: str, content: str, replaced: list[str]) -> str:
        """The content with marks for what must not become a control token; `replaced` gets what they stand for."""

        def mark(match: re.Match[str]) -> str:
            if role == "assistant" and match.group() in self._written:
                return match.group()
            replaced.append(match.group())
            return _MARK.format(len(replaced) - 1)

        return self._risky.sub(mark, content)

    def _encode_marked(self, text: str, replaced: Sequence[str]) -> list[int]:
        """Ids of text with marks."""
        pieces = _MARKED.split(text)
        return self._encode(
            [
                _TemplateText(replaced[int(piece)], False) if i % 2 else _TemplateText(piece, True)
                for i, piece in enumerate(pieces)
            ]
        )

    def _render(self, messages: Messages) -> str:
        try:
            return str(
                self._inner.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=self._tools or None,
                    tokenize=False,
                    add_generation_prompt=True,
                    **self._options,
                )
            )
        except Exception as error:  # jinja2 errors and whatever a template raises
            template = str(self._inner.chat_template)
            raise TokenizerError(f"the chat template does not render: {failure(error, template)}") from error

    def _fill(self, messages: Messages) -> list[_TemplateText]:
        """The rendered conversation, split into the template's text and the messages' content."""
        marked = [{**message, "content": _MARK.format(index)} for index, message in enumerate(messages)]
        pieces = _MARKED.split(self._render(marked))
        if [int(index) for index in pieces[1::2]] != list(range(len(messages))):
            raise TokenizerError("the chat template does not show every message exactly once and in order")
        return [
            _TemplateText(messages[int(piece)]["content"], False) if position % 2 else _TemplateText(piece, True)
            for position, piece in enumerate(pieces)
        ]

    def _encode(self, parts: Sequence[_TemplateText]) -> list[int]:
        ids: list[int] = []
        plain = ""
        for part in parts:
            if not part.trusted:
                plain += part.text
                continue
            position = 0
            for match in self._split.finditer(part.text):
                ids += self._plain(plain + part.text[position : match.start()])
                ids.append(self._control[match.group()])
                plain, position = "", match.end()
            plain += part.text[position:]
        return self._checked(ids + self._plain(plain))

    def _plain(self, text: str) -> list[int]:
        if not text:
            return []
        text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no encoding
        ids: list[int] = []
        position = 0
        for match in self._split.finditer(text):  # a control token's text, cut in two, is ordinary text
            ids += self._piece(text[position : match.start() + 1])
            position = match.start() + 1
        return ids + self._piece(text[position:])

    def _piece(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False)) if text else []

    def _checked(self, ids: list[int]) -> list[int]:
        if ids and not (min(ids) >= 0 and max(ids) < self.vocab_size):
            outside = [index for index in ids if not 0 <= index < self.vocab_size]
            raise TokenizerError(f"token ids {outside[:5]} are outside the model's vocabulary of {self.vocab_size}")
        return ids

    def _appended(self, *roles: str) -> _Appended:
        """How messages of `roles` follow an answer, read off the template."""
        if roles not in self._known:
            whole = ("system", "user", "assistant", *roles)
            pieces = self._fill([{"role": name, "content": name} for name in whole])
            between = pieces[6].text
            match = self._split.match(between)
            if not match:
                raise TokenizerError(
                    f"the chat template does not close an answer with a control token but {between[:20]!r}"
                )
            around = (between[match.end() :], *(piece.text for piece in pieces[8::2]))
            self._known[roles] = _Appended(self._control[match.group()], around)
        return self._known[roles]

    def _tool_end(self) -> int:
        try:
            end = self._appended("tool").end
        except TokenizerError as error:
            raise TokenizerError(f"tool calls need a chat template with tool messages: {error}") from error
        names = [tool["function"]["name"] for tool in self._tools]
        shown = self._render([{"role": "system", "content": ""}, {"role": "user", "content": ""}])
        if not all(name in shown for name in names):
            raise TokenizerError(f"tool calls need a chat template that shows the tools {names}; this one does not")
        return end

    def _verify(self, role: str) -> None:
        messages = [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": "List the files."},
            {"role": "assistant", "content": "```bash\nls\n```"},
            {"role": role, "content": "<returncode>0</returncode>\nREADME.md"},
        ]
        whole = self._piece(self._render(messages))
        delta = self.delta(messages[-1]["content"], role=role)
        if whole[-len(delta) :] != delta or whole[-len(delta) - 1] != self._appended(role).end:
            raise TokenizerError("the chat template does not append messages: their tokens depend on what comes later")
