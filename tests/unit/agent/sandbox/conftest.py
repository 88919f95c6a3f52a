"""Images for the session loop: real shells as child processes, each with the programs of such an image."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from swerl_agent.sandbox import HandshakeFailed, Session, SessionSettings
from swerl_kube import Data, ExitStatus, Unreachable
from swerl_kube.exec import STDERR, STDOUT

# fmt: off
TOOLS = [
    "head", "tail", "wc", "mkdir", "rm", "sleep", "cat", "mv", "chmod", "sha256sum", "sort", "cut", "tr", "seq", "dd",
    "yes", "ls", "id", "env", "timeout", "kill", "comm", "grep", "sed", "true", "false", "touch", "find", "git",
    "cp", "awk", "readlink",
]
# fmt: on
# runc's words through containerd and the kubelet.
MISSING = (
    "error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: "
    'unable to start container process: exec: "{}": executable file not found in $PATH'
)
BUSYBOX = shutil.which("busybox") or ""


class ProcessChannel:
    """The channel of a child process. `cut` fails like a network: both ends stay alive, nothing arrives."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._queue: asyncio.Queue[Data | None] = asyncio.Queue()
        assert process.stdout and process.stderr
        self._pumps = [
            asyncio.create_task(self._pump(STDOUT, process.stdout)),
            asyncio.create_task(self._pump(STDERR, process.stderr)),
        ]
        self.status: ExitStatus | None = None
        self.sent = bytearray()
        self.resized = 0
        self._lost = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _pump(self, stream: int, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(1 << 16):
            if not self._lost:
                self._queue.put_nowait(Data(stream, data))
        if stream == STDOUT:
            if not self._lost:
                code = await self._process.wait()
                self.status = ExitStatus(code if code >= 0 else 128 - code, "")
            self._queue.put_nowait(None)

    async def send(self, data: bytes) -> None:
        if self._lost or self._process.stdin is None or self._process.stdin.is_closing():
            raise Unreachable("cut")
        self.sent += data
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Unreachable(str(error)) from error

    async def receive(self) -> Data | None:
        return await self._queue.get()

    async def resize(self) -> None:
        self.resized += 1

    def disconnect(self, *, end_input: bool = True) -> None:
        """Lose the stream; output of the process is discarded, as the container runtime does."""
        self._lost = True
        if end_input and self._process.stdin is not None:
            self._process.stdin.close()
        self._queue.put_nowait(None)

    async def close(self) -> None:
        if not self._lost:
            self.disconnect()

    async def finish(self) -> None:
        """Kill what is left and wait until the transport is closed."""
        _end(self.pid)
        await self._process.wait()
        await asyncio.gather(*self._pumps)
        if self._process.stdin is not None:  # a transport left open raises wherever it is collected
            self._process.stdin.close()
            with suppress(BrokenPipeError, ConnectionResetError):
                await self._process.stdin.wait_closed()


@dataclass
class EndedChannel:
    """The channel of an exec that was accepted and whose process the runtime did not start."""

    status: ExitStatus | None  # None: the runtime reports nothing, and the channel stays open

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> Data | None:
        if self.status is None:
            await asyncio.Event().wait()
        return None

    async def resize(self) -> None: ...

    async def close(self) -> None: ...


@dataclass
class ImageFolder:
    """A folder of programs standing for an image."""

    path: Path
    name: str
    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    channels: list[ProcessChannel] = field(default_factory=list)
    refuse: Exception | None = None  # raised by the next `open` instead of opening
    unavailable: bool = False  # nothing can be opened
    runtime_error: str = ""  # with which the runtime ends each accepted exec
    runtime_hangs: bool = False  # each accepted exec stays silent

    async def open(self, command: Sequence[str]) -> ProcessChannel | EndedChannel:
        if self.refuse is not None:
            error, self.refuse = self.refuse, None
            raise error
        if self.unavailable:
            raise HandshakeFailed("connection refused")
        if self.runtime_error:
            return EndedChannel(ExitStatus(None, self.runtime_error))
        if self.runtime_hangs:
            return EndedChannel(None)
        if not (self.path / command[0]).exists():
            return EndedChannel(ExitStatus(None, MISSING.format(command[0])))
        pipe = asyncio.subprocess.PIPE
        variables = {"PATH": str(self.path), "HOME": str(self.home)} | self.variables
        process = await asyncio.create_subprocess_exec(
            str(self.path / command[0]), *command[1:], stdin=pipe, stdout=pipe, stderr=pipe,
            env=variables, cwd=self.home, start_new_session=True,
        )  # fmt: skip
        self.channels.append(ProcessChannel(process))
        return self.channels[-1]

    @property
    def channel(self) -> ProcessChannel:
        return self.channels[-1]

    def state(self, session: Session, suffix: str = "") -> list[Path]:
        """The session's folders on this machine's disk; more than one would be a defect."""
        bases = [Path(base) for base in ("/run", "/var/tmp", "/tmp", "/dev/shm")]
        return [folder for base in bases for folder in base.glob(f".swerl-{session.token}{suffix}")]

    def memory_folders(self, session: Session) -> list[Path]:
        """The session's folders in memory."""
        return self.state(session, ".notes")

    async def finish(self) -> None:
        """End everything that the sessions started."""
        for channel in self.channels:
            await channel.finish()

    def remove_state(self, session: Session, suffix: str = "*") -> None:
        """Remove the session's state, also while its loop may be writing there."""
        for folder in self.state(session, suffix):
            for _ in range(100):
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
            else:
                raise AssertionError(f"{folder} comes back again and again")


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.02)


def _populate(folder: Path, shell: str, extra: Sequence[str]) -> None:
    folder.mkdir()
    (folder / "sh").symlink_to(shell)
    for tool in [*TOOLS, *extra]:
        if found := shutil.which(tool):
            (folder / tool).symlink_to(found)


def _populate_busybox(folder: Path, *, without: Sequence[str] = ()) -> None:
    folder.mkdir()
    for tool in {*TOOLS, "sh", "setsid"} - {"git", *without}:
        (folder / tool).symlink_to(BUSYBOX)
    (folder / "git").symlink_to(shutil.which("git") or "/usr/bin/git")


@pytest.fixture(params=["dash", "bash", "busybox", "bare"])
def image_folder(request: pytest.FixtureRequest, tmp_path: Path) -> ImageFolder:
    """dash: Debian; bash: sh is bash, as on Fedora; busybox: Alpine; bare: busybox without setsid."""
    path, home = tmp_path / "bin", tmp_path / "home"
    home.mkdir()
    if request.param in ("busybox", "bare"):
        assert BUSYBOX, "install busybox: apt-get install busybox"
        _populate_busybox(path, without=["setsid"] if request.param == "bare" else [])
    else:
        shell = shutil.which("dash") or "/bin/dash" if request.param == "dash" else shutil.which("bash") or "/bin/bash"
        _populate(path, shell, ["bash", "setsid"])
    return ImageFolder(path, request.param, home)


@pytest.fixture
def settings() -> SessionSettings:
    """Timing of `session`; a test overrides it by its parameter of this name."""
    return SessionSettings()


@pytest.fixture
async def session(image_folder: ImageFolder, settings: SessionSettings) -> AsyncIterator[Session]:
    """An open session in `image_folder`; everything it started is gone afterwards."""
    session = Session(image_folder, settings=settings)
    yield session
    await session.close()
    await image_folder.finish()
    image_folder.remove_state(session)


def _end(leader: int) -> None:
    """Kill everything of the loop's session, then what ran in sessions of its children."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            in_session = os.getsid(int(entry.parent.name)) == leader
        except (ProcessLookupError, PermissionError):
            continue
        if in_session:
            try:
                os.kill(int(entry.parent.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
