"""The commands of a trajectory: what an agent runs most, each cheap, so that the way to the sandbox is timed."""

from __future__ import annotations

from itertools import cycle, islice

PAGE = 4096  # bytes that one of the commands prints
PRINT_PAGE = f"head -c {PAGE} /dev/zero | tr '\\0' x"
MIX = (
    "true",
    "ls -l /usr",
    "grep -rn 'def ' /usr/lib/python3/dist-packages/pluggy | head -n 20",
    PRINT_PAGE,
    "echo edit >>/tmp/notes && wc -l </tmp/notes",
    "true",
    "cat /etc/os-release",
    "python3 -c 'print(6 * 7)'",
    PRINT_PAGE,
    "ls /usr/lib/python3/dist-packages | wc -l",
)


def commands(count: int) -> list[str]:
    """The first `count` commands of a trajectory."""
    return list(islice(cycle(MIX), count))


def check(command: str, exit_code: int | None, length: int) -> None:
    """Raises RuntimeError unless the command succeeded and its whole output, of `length` bytes, is there."""
    if exit_code != 0 or (command == PRINT_PAGE and length != PAGE):
        raise RuntimeError(f"`{command}` ended with {exit_code} and {length} bytes of output")
