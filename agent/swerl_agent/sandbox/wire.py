"""The session protocol as pure functions: requests out, answers in (loop.sh is the other side).

Guarantees: a request is one line, whatever the command contains; the reader accepts answers cut at any byte and never
looks for a marker inside output, because outputs travel by byte count; bytes that are no answer raise `Garbled`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOOP = (Path(__file__).parent / "loop.sh").read_bytes()
LINE_LIMIT = 4096  # bytes; a result line has about 80
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
INLINE_LIMIT = 4 << 10  # bytes; a shell reads a line byte by byte, so longer texts travel as files


class Garbled(Exception):
    """The stream carries something that is not the protocol."""


@dataclass(frozen=True)
class Cut:
    """How much of an output travels: all of it up to `head + tail` bytes, else its two ends."""

    head: int
    tail: int

    def travels(self, total: int) -> int:
        return min(total, self.head + self.tail)


@dataclass(frozen=True)
class Result:
    """End of a command: what travelled of its outputs and how many bytes they really had."""

    id: str
    exit_code: int
    late: bool  # killed for its time
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int


@dataclass(frozen=True)
class Say:
    """A word of the control side: hello, unknown, claimed, refused, put, full, pong, nowhere."""

    word: str
    argument: str


def bootstrap(token: str, file_limit: int) -> tuple[list[str], bytes]:
    """The command to execute in the container and the bytes to send it first."""
    command = ["sh", "-c", 'eval "$(head -c "$1")"', "swerl", str(len(LOOP)), token, str(file_limit // 512)]
    return command, LOOP


def run(id: str, cut: Cut, text: str) -> bytes:
    return f"run {id} {cut.head} {cut.tail} ".encode() + text.encode("utf-8", "surrogateescape") + b"\n"


def ask(id: str, cut: Cut) -> bytes:
    return f"ask {id} {cut.head} {cut.tail}\n".encode()


def guard(id: str, seconds: float) -> bytes:
    return f"guard {id} {max(1, round(seconds))}\n".encode()


def kill(id: str) -> bytes:
    return f"kill {id}\n".encode()


def put(name: str, size: int) -> bytes:
    return f"put {name} {size}\n".encode()


PING = b"ping\n"


def quoted(word: str) -> str:
    """`word` as one word of a single shell line; NUL cannot be said in a shell and raises ValueError."""
    if "\0" in word:
        raise ValueError("a command, path or variable cannot contain a NUL byte")
    return shlex.quote(word).replace("\n", "'\"$sw_nl\"'")


def command_text(
    command: str, *, cwd: str | None, env: Mapping[str, str] | None, login: bool, script: str | None = None
) -> str:
    """The shell text that runs `command` (or, with `script`, what the file of that name in the session's folder holds).

    `login` runs it in the very login shell that takes the text, else in a plain shell below that. Exit code 126 and a
    message when `cwd` is not there; the command then does not run.
    """
    steps = []
    if cwd is not None:
        missing = quoted(f"cannot change to the working directory {cwd}")
        steps.append(f"cd -- {quoted(cwd)} 2>/dev/null || {{ echo {missing} >&2; exit 126; }}")
    for name, value in (env or {}).items():
        if not NAME.match(name):
            raise ValueError(f"not a name of an environment variable: {name!r}")
        steps.append(f"export {name}={quoted(value)}")
    if login:
        steps.append(f'set -- "$(cat "$sw_dir/{script}")$sw_nl"' if script else f"set -- {quoted(command)}")
        steps += ["unset sw_dir sw_shell sw_nl sw_id sw_head sw_tail sw_text", 'eval "shift; $1"']
    else:
        steps.append(f'exec $sw_shell "$sw_dir/{script}"' if script else f"exec $sw_shell -c {quoted(command)}")
    return "; ".join(steps)


class Reader:
    """Answers from the two output streams of the loop; feed it bytes, take answers."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._out = bytearray()
        self._err = bytearray()

    def feed_control(self, data: bytes) -> list[Say]:
        """Words among the loop's standard error; other lines there are noise of the shell."""
        self._err += data
        *lines, rest = self._err.split(b"\n")
        self._err = bytearray(rest[-LINE_LIMIT:])
        said = []
        for line in lines:
            head, _, words = bytes(line).partition(b" ")
            if head == self._token:
                word, _, argument = words.decode(errors="replace").partition(" ")
                said.append(Say(word, argument))
        return said

    def feed(self, data: bytes) -> None:
        """Bytes of the loop's standard output."""
        self._out += data

    def take(self, cut: Cut) -> Result | None:
        """The result at the front, once it is complete; `cut` must be that of its request."""
        end = self._out.find(b"\n", 0, LINE_LIMIT)
        if end < 0:
            if len(self._out) >= LINE_LIMIT:
                raise Garbled(f"no result line in {bytes(self._out[:80])!r}...")
            return None
        id, exit_code, late, out, err = self._header(bytes(self._out[:end]))
        split = end + 1 + cut.travels(out)
        stop = split + cut.travels(err)
        if len(self._out) < stop:
            return None
        stdout, stderr = bytes(self._out[end + 1 : split]), bytes(self._out[split:stop])
        del self._out[:stop]
        return Result(id, exit_code, bool(late), stdout, stderr, out, err)

    def _header(self, line: bytes) -> tuple[str, int, int, int, int]:
        try:
            token, word, id, *numbers = line.split(b" ")
            exit_code, late, out, err = map(int, numbers)
        except ValueError:
            raise Garbled(f"not a result line: {line[:80]!r}") from None
        if token != self._token or word != b"result":
            raise Garbled(f"not a result line: {line[:80]!r}")
        return id.decode(), exit_code, late, out, err
