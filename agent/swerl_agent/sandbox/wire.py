"""The session protocol as pure functions: requests out, results and replies in (records.sh, loop.sh: the other side).

Guarantees:
* A request is one line, whatever the command contains.
* The reader accepts input split at any byte. It never searches output for a marker: outputs travel with byte counts.
* Bytes that are neither a result nor a reply raise `ProtocolError`.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

LOOP = b"".join((Path(__file__).parent / part).read_bytes() for part in ("records.sh", "loop.sh"))
BECOME_USER = "\n".join(
    line for line in (Path(__file__).parent / "user.sh").read_text().splitlines() if not line.startswith("#")
)
LINE_LIMIT = 4096  # bytes; a result line has about 80
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SURROGATE = re.compile("[\ud800-\udfff]")  # has no encoding
LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
CALLER_ID_PREFIX = "n-"  # of the id of a command whose caller gave the id
INLINE_LIMIT = 4 << 10  # bytes; a shell reads a line byte by byte, so longer texts travel as files


class ProtocolError(Exception):
    """The stream carries bytes that violate the protocol."""


class OutputLimit(NamedTuple):
    """How much of an output is returned: all of it up to `head + tail` bytes, else its first and last bytes."""

    head: int
    tail: int

    @classmethod
    def halves(cls, total: int) -> Self:
        """`total` bytes, half from the start and half from the end; raises ValueError for a negative `total`."""
        if total < 0:
            raise ValueError(f"an output cannot have {total} bytes")
        return cls(total - total // 2, total // 2)

    def kept(self, total: int) -> int:
        return min(total, self.head + self.tail)


class ResultFrame(NamedTuple):
    """End of a command: the returned part of its outputs, and their true lengths."""

    id: str
    exit_code: int
    timed_out: bool  # killed at its timeout
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    run_seconds: float | None  # in the Pod, to 0.01; None when not measured


class Reply(NamedTuple):
    """A reply of the control side: hello, unknown, exists, refused, put, full, count, pong, nofolder."""

    word: str
    argument: str


def bootstrap(token: str, name: str, file_limit: int, login: bool) -> tuple[list[str], bytes]:
    """The command to execute in the container, and the first bytes to send to it.

    `name` is unique to this loop; `login`: whether its shells read the login profile.
    """
    arguments = [str(len(LOOP)), token, str(file_limit // 512), name, "login" if login else ""]
    return ["sh", "-c", 'eval "$(head -c "$1")"', "swerl", *arguments], LOOP


def run(id: str, seconds: float, limit: OutputLimit, text: str) -> bytes:
    """Raises ValueError for a text that cannot be encoded: a lone surrogate that stands for no byte."""
    line = f"run {id} {_whole_seconds(seconds)} {limit.head} {limit.tail} {text}\n"
    return line.encode("utf-8", "surrogateescape")


def query(id: str, limit: OutputLimit) -> bytes:
    return f"query {id} {limit.head} {limit.tail}\n".encode()


def watchdog(id: str, seconds: float) -> bytes:
    return f"watchdog {id} {_whole_seconds(seconds)}\n".encode()


def kill(id: str) -> bytes:
    return f"kill {id}\n".encode()


def put(name: str, size: int) -> bytes:
    return f"put {name} {size}\n".encode()


def count(name: str) -> bytes:
    return f"count {name}\n".encode()


def _whole_seconds(seconds: float) -> int:
    return max(1, round(seconds))


PING = b"ping\n"


def has_caller_id(name: str) -> bool:
    """Whether the caller gave the id of the command `name`."""
    return name.startswith(CALLER_ID_PREFIX)


def valid_label(label: str, what: str) -> str:
    """`label`, which becomes part of a file name; raises ValueError."""
    if not LABEL.match(label):
        raise ValueError(f"not {what}: {label!r}; give 1 to 64 letters, digits, `-` or `_`")
    return label


def shell_text(text: str) -> str:
    """A model's `text` as a shell can be given it: without NUL, and with U+FFFD for surrogates."""
    return SURROGATE.sub("\ufffd", text.replace("\0", ""))


def quoted(word: str) -> str:
    """`word` as one word of a single shell line; raises ValueError for NUL, which a shell cannot take."""
    if not isinstance(word, str):
        raise TypeError(f"a command, path, user or variable is text, not {type(word).__name__}: {word!r:.80}")
    if "\0" in word:
        raise ValueError("a command, path or variable cannot contain a NUL byte")
    return shlex.quote(word).replace("\n", "'\"$sw_nl\"'")


def command_text(
    command: str,
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    login: bool,
    shell_login: bool = True,
    script: str | None = None,
    stdin: str | None = None,
    user: str | None = None,
) -> str:
    """The shell text that runs `command` (or, with `script`, the content of that file in the session's folder).

    * `login`: whether the command's shell reads the login profile. `shell_login`: whether the shell that takes the text
      has read it; if both agree the command runs in that shell, else in a child shell.
    * `user`: the command runs in a shell of that user. `stdin`: name of the file in the session's folder that it reads.
    Exit code 126 and a message when `cwd` or `user` is not available; the command then does not run.
    """
    redirect = [f'exec <"$sw_dir/{stdin}"; rm -f "$sw_dir/{stdin}"'] if stdin else []
    if user is not None:
        return "; ".join([*redirect, *_as_user(user, command, _context(cwd, env), login, script)])
    steps = redirect + _context(cwd, env)
    if login == shell_login:
        steps.append(f'set -- "$(cat "$sw_dir/{script}")$sw_nl"' if script else f"set -- {quoted(command)}")
        internal = "sw_dir sw_notes sw_shell sw_nl sw_id sw_head sw_tail sw_text sw_from sw_rest"
        steps += [f"unset {internal}", 'eval "shift; $1"']
    else:
        shell = "$sw_shell -l" if login else "sh"
        steps.append(f'exec {shell} "$sw_dir/{script}"' if script else f"exec {shell} -c {quoted(command)}")
    return "; ".join(steps)


def _context(cwd: str | None, env: Mapping[str, str] | None) -> list[str]:
    steps = []
    if cwd is not None:
        missing = quoted(f"cannot change to the working directory {cwd}")
        steps.append(f"cd -- {quoted(cwd)} 2>/dev/null || {{ echo {missing} >&2; exit 126; }}")
    for name, value in (env or {}).items():
        if not NAME.match(name):
            raise ValueError(f"not a name of an environment variable: {name!r}")
        steps.append(f"export {name}={quoted(value)}")
    return steps


def _as_user(user: str, command: str, context: list[str], login: bool, script: str | None) -> list[str]:
    """Steps that end in a shell of `user`. A long command arrives by a descriptor: the user cannot read the folder."""
    load = 'set -- "$(cat <&3)$sw_nl"; exec 3<&-' if script else f"set -- {quoted(command)}"
    inner = ["sw_nl='\n'; unset sw_inner", *context, load, "unset sw_nl", 'eval "shift; $1"']
    steps = [f'exec 3<"$sw_dir/{script}"'] if script else []
    shell = "sw_option=-lc" if login else "sw_shell=sh sw_option=-c"
    steps.append(f"sw_user={quoted(user)} {shell}; set -- {quoted('; '.join(inner))}")
    return [*steps, f"eval {quoted(BECOME_USER)}"]


class Reader:
    """Parser of the loop's two output streams: feed it bytes, take results and replies."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._out = bytearray()
        self._err = bytearray()

    def feed_control(self, data: bytes) -> list[Reply]:
        """Replies in the loop's standard error; other lines there are messages of the shell."""
        self._err += data
        *lines, rest = self._err.split(b"\n")
        self._err = bytearray(rest[-LINE_LIMIT:])
        replies = []
        for line in lines:
            head, _, fields = bytes(line).partition(b" ")
            if head == self._token:
                word, _, argument = fields.decode(errors="replace").partition(" ")
                replies.append(Reply(word, argument))
        return replies

    def feed(self, data: bytes) -> None:
        """Bytes of the loop's standard output."""
        self._out += data

    def take(self, limit: OutputLimit) -> ResultFrame | None:
        """The first result, once it is complete; `limit` must be that of its request."""
        end = self._out.find(b"\n", 0, LINE_LIMIT)
        if end < 0:
            if len(self._out) >= LINE_LIMIT:
                raise ProtocolError(f"no result line in {bytes(self._out[:80])!r}...")
            return None
        id, exit_code, timed_out, out, err, run_seconds = self._header(bytes(self._out[:end]))
        split = end + 1 + limit.kept(out)
        stop = split + limit.kept(err)
        if len(self._out) < stop:
            return None
        with memoryview(self._out) as whole:
            stdout, stderr = bytes(whole[end + 1 : split]), bytes(whole[split:stop])
        del self._out[:stop]
        return ResultFrame(id, exit_code, bool(timed_out), stdout, stderr, out, err, run_seconds)

    def _header(self, line: bytes) -> tuple[str, int, int, int, int, float | None]:
        try:
            token, word, id, *numbers = line.split(b" ")
            exit_code, timed_out, out, err = map(int, numbers[:-2])
            start, ended = map(float, numbers[-2:])
            name = id.decode()
        except ValueError:
            raise ProtocolError(f"not a result line: {line[:80]!r}") from None
        sane = math.isfinite(start) and math.isfinite(ended) and min(out, err) >= 0
        if token != self._token or word != b"result" or not sane:
            raise ProtocolError(f"not a result line: {line[:80]!r}")
        return name, exit_code, timed_out, out, err, ended - start if start and ended else None
