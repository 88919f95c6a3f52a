"""The session protocol as pure functions: requests out, answers in (loop.sh is the other side).

Guarantees: a request is one line, whatever the command contains; the reader accepts answers cut at any byte and never
looks for a marker inside output, because outputs travel by byte count; bytes that are no answer raise `Garbled`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

LOOP = (Path(__file__).parent / "loop.sh").read_bytes()
BECOME_USER = "\n".join(
    line for line in (Path(__file__).parent / "user.sh").read_text().splitlines() if not line.startswith("#")
)
LINE_LIMIT = 4096  # bytes; a result line has about 80
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
NAMED = "n-"  # begins the id of a command that its client named
INLINE_LIMIT = 4 << 10  # bytes; a shell reads a line byte by byte, so longer texts travel as files


class Garbled(Exception):
    """The stream carries something that is not the protocol."""


class Cut(NamedTuple):
    """How much of an output travels: all of it up to `head + tail` bytes, else its two ends."""

    head: int
    tail: int

    @classmethod
    def of(cls, limit: int) -> Self:
        """`limit` bytes, half of them from the start; raises ValueError for less than none."""
        if limit < 0:
            raise ValueError(f"an output cannot have {limit} bytes")
        return cls(limit - limit // 2, limit // 2)

    def travels(self, total: int) -> int:
        return min(total, self.head + self.tail)


class Result(NamedTuple):
    """End of a command: what travelled of its outputs and how many bytes they really had."""

    id: str
    exit_code: int
    late: bool  # killed for its time
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    ran: float | None  # seconds in the Pod, to 0.01; None where nobody saw it


class Say(NamedTuple):
    """A word of the control side: hello, unknown, claimed, refused, put, full, count, pong, nowhere."""

    word: str
    argument: str


def bootstrap(token: str, name: str, file_limit: int, login: bool) -> tuple[list[str], bytes]:
    """The command to execute in the container and the bytes to send it first; `name`: of this loop alone.

    `login`: whether its shells read the login profile.
    """
    words = [str(len(LOOP)), token, str(file_limit // 512), name, "login" if login else ""]
    return ["sh", "-c", 'eval "$(head -c "$1")"', "swerl", *words], LOOP


def run(id: str, seconds: float, cut: Cut, text: str) -> bytes:
    """Raises ValueError for a text that has no bytes: a surrogate that stands for none."""
    line = f"run {id} {_whole(seconds)} {cut.head} {cut.tail} {text}\n"
    return line.encode("utf-8", "surrogateescape")


def ask(id: str, cut: Cut) -> bytes:
    return f"ask {id} {cut.head} {cut.tail}\n".encode()


def guard(id: str, seconds: float) -> bytes:
    return f"guard {id} {_whole(seconds)}\n".encode()


def kill(id: str) -> bytes:
    return f"kill {id}\n".encode()


def put(name: str, size: int) -> bytes:
    return f"put {name} {size}\n".encode()


def count(name: str) -> bytes:
    return f"count {name}\n".encode()


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


PING = b"ping\n"


def named(id: str) -> bool:
    return id.startswith(NAMED)


def checked(label: str, what: str) -> str:
    """`label`, which is to be part of a file's name; raises ValueError."""
    if not LABEL.match(label):
        raise ValueError(f"not {what}: {label!r}; give 1 to 64 letters, digits, `-` or `_`")
    return label


def quoted(word: str) -> str:
    """`word` as one word of a single shell line; NUL cannot be said in a shell and raises ValueError."""
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
    taker_login: bool = True,
    script: str | None = None,
    stdin: str | None = None,
    user: str | None = None,
) -> str:
    """The shell text that runs `command` (or, with `script`, what the file of that name in the session's folder holds).

    In a shell that reads the login profile if `login` says so: the very one that takes the text if `taker_login` says
    the same of that, else one below it; as `user` in a shell of that user. `stdin` is the file in the session's folder
    it reads. Exit code 126 and a message when `cwd` is not there, or `user` cannot be had; it then does not run.
    """
    feed = [f'exec <"$sw_dir/{stdin}"; rm -f "$sw_dir/{stdin}"'] if stdin else []
    if user is not None:
        return "; ".join([*feed, *_as_user(user, command, _setting(cwd, env), login, script)])
    steps = feed + _setting(cwd, env)
    if login == taker_login:
        steps.append(f'set -- "$(cat "$sw_dir/{script}")$sw_nl"' if script else f"set -- {quoted(command)}")
        ours = "sw_dir sw_notes sw_shell sw_nl sw_id sw_head sw_tail sw_text sw_from sw_rest"
        steps += [f"unset {ours}", 'eval "shift; $1"']
    else:
        shell = "$sw_shell -l" if login else "sh"
        steps.append(f'exec {shell} "$sw_dir/{script}"' if script else f"exec {shell} -c {quoted(command)}")
    return "; ".join(steps)


def _setting(cwd: str | None, env: Mapping[str, str] | None) -> list[str]:
    steps = []
    if cwd is not None:
        missing = quoted(f"cannot change to the working directory {cwd}")
        steps.append(f"cd -- {quoted(cwd)} 2>/dev/null || {{ echo {missing} >&2; exit 126; }}")
    for name, value in (env or {}).items():
        if not NAME.match(name):
            raise ValueError(f"not a name of an environment variable: {name!r}")
        steps.append(f"export {name}={quoted(value)}")
    return steps


def _as_user(user: str, command: str, setting: list[str], login: bool, script: str | None) -> list[str]:
    """Steps that end in a shell of `user`. It takes a long command by a descriptor: it may not read the folder."""
    told = 'set -- "$(cat <&3)$sw_nl"; exec 3<&-' if script else f"set -- {quoted(command)}"
    inner = ["sw_nl='\n'; unset sw_inner", *setting, told, "unset sw_nl", 'eval "shift; $1"']
    steps = [f'exec 3<"$sw_dir/{script}"'] if script else []
    shell = "sw_option=-lc" if login else "sw_shell=sh sw_option=-c"
    steps.append(f"sw_user={quoted(user)} {shell}; set -- {quoted('; '.join(inner))}")
    return [*steps, f"eval {quoted(BECOME_USER)}"]


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
        id, exit_code, late, out, err, ran = self._header(bytes(self._out[:end]))
        split = end + 1 + cut.travels(out)
        stop = split + cut.travels(err)
        if len(self._out) < stop:
            return None
        with memoryview(self._out) as whole:
            stdout, stderr = bytes(whole[end + 1 : split]), bytes(whole[split:stop])
        del self._out[:stop]
        return Result(id, exit_code, bool(late), stdout, stderr, out, err, ran)

    def _header(self, line: bytes) -> tuple[str, int, int, int, int, float | None]:
        try:
            token, word, id, *numbers = line.split(b" ")
            exit_code, late, out, err = map(int, numbers[:-2])
            began, ended = map(float, numbers[-2:])
        except ValueError:
            raise Garbled(f"not a result line: {line[:80]!r}") from None
        if token != self._token or word != b"result":
            raise Garbled(f"not a result line: {line[:80]!r}")
        return id.decode(), exit_code, late, out, err, ended - began if began and ended else None
