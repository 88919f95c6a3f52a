"""SWE-ReX's runtime over a sandbox's session: commands, files, and named bash sessions.

Guarantees: every call runs in the thread of the event loop that holds the streams, whichever event loop it comes from.
Every failure of the sandbox is `SandboxFailed`. An unreadable file raises the OSError of Python's `open`. Bash sessions
do not wait for each other; `execute` and file calls run one after the other. Of a command, NUL is dropped and a lone
surrogate becomes U+FFFD.

Unlike SWE-ReX's own server, a program ended by signal n has exit code 128 + n, as in a shell.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import logging
import os
import secrets
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from swerex.exceptions import (
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    CloseBashSessionResponse,
    CloseResponse,
    Command,
    CommandResponse,
    CreateBashSessionRequest,
    CreateBashSessionResponse,
    IsAliveResponse,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)
from swerex.utils.log import get_logger
from swerl_kube import KubeError

from ..sandbox import FileError, PodConnector, SandboxError, Session, files, folders
from ..sandbox.blocking import LoopThread
from ..sandbox.session import FILE_LIMIT
from ..sandbox.wire import OutputLimit, quoted, shell_text
from .swe_rex_bash import BashSession

P = ParamSpec("P")
T = TypeVar("T")
NO_TIMEOUT = 1e7  # seconds; longer than any sandbox lives
NOT_FOUND = 127  # exit code

# As `open(path, "w")`: follow links, keep mode and owner of an existing file. $1 uploaded file, $2 destination.
_OVERWRITE = (
    'case $2 in */*) mkdir -p -- "${2%/*}/" || exit 1 ;; esac; cat <"$1" >"$2"; status=$?; rm -f -- "$1"; exit $status'
)


class SandboxFailed(SwerexException, RuntimeError):
    """The sandbox is lost or cannot be reached; the cause says which."""


def _in_loop(
    method: Callable[Concatenate[SandboxRuntime, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SandboxRuntime, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: SandboxRuntime, /, *arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await self._loop.run(method(self, *arguments, **options))
        except (SandboxError, KubeError) as error:
            code = getattr(error, "code", type(error).__name__)
            raise SandboxFailed(f"{code}: {error}") from error

    return call


class SandboxRuntime(AbstractRuntime):
    """The runtime of one Pod; `session` and `connector` belong to `loop`."""

    def __init__(
        self, session: Session, connector: PodConnector, loop: LoopThread, *, logger: logging.Logger | None = None
    ) -> None:
        self.logger = logger or get_logger("rex-runtime")
        self._session, self._connector, self._loop = session, connector, loop
        self._shells: dict[str, BashSession] = {}
        self._not_found_mark = secrets.token_hex(8)  # printed if a program or folder is missing
        self._image_env: dict[str, str] | None = None

    @_in_loop
    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Whether the container runs; a call in progress does not delay the answer."""
        try:
            async with asyncio.timeout(timeout):
                await self._connector.check()
        except TimeoutError:
            return IsAliveResponse(is_alive=False, message=f"the API server did not answer in {timeout} s")
        except SandboxError as error:
            return IsAliveResponse(is_alive=False, message=f"{error.code}: {error}")
        return IsAliveResponse(is_alive=True)

    @_in_loop
    async def create_session(self, request: CreateBashSessionRequest) -> CreateBashSessionResponse:
        """Raises SessionExistsError, SessionNotInitializedError without bash, CommandTimeoutError."""
        if request.session in self._shells:
            raise SessionExistsError(f"session {request.session} already exists")
        shell = self._shells[request.session] = BashSession(self._connector, request)
        try:
            return CreateBashSessionResponse(output=await shell.start())
        except BaseException:
            del self._shells[request.session]
            await shell.close()
            raise

    @_in_loop
    async def run_in_session(self, action: BashAction | BashInterruptAction) -> BashObservation:
        """See BashSession.run and BashSession.interrupt; raises SessionDoesNotExistError."""
        shell = self._shell(action.session)
        if isinstance(action, BashInterruptAction):
            return await shell.interrupt(action)
        return await shell.run(action.model_copy(update={"command": shell_text(action.command)}))

    @_in_loop
    async def close_session(self, request: CloseBashSessionRequest) -> CloseBashSessionResponse:
        """Raises SessionDoesNotExistError."""
        await self._shell(request.session).close()
        del self._shells[request.session]
        return CloseBashSessionResponse()

    @_in_loop
    async def execute(self, command: Command) -> CommandResponse:
        """As `subprocess.run`, in the environment of the image; outputs are complete, up to 1 GiB each.

        Raises CommandTimeoutError, NonZeroExitCodeError, FileNotFoundError for a missing program or folder.
        """
        env = await self._environment() if command.env is None else command.env
        seconds = NO_TIMEOUT if command.timeout is None else command.timeout
        result = await self._session.execute(
            self._text(command, env), timeout=seconds, limit=OutputLimit(FILE_LIMIT, 0)
        )
        if result.timed_out:
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        if result.exit_code == NOT_FOUND and f"{self._not_found_mark}\n".encode() in (result.stdout, result.stderr):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(command.cwd or command.command))
        done = CommandResponse(
            stdout=result.stdout.decode(errors="backslashreplace"),
            stderr=result.stderr.decode(errors="backslashreplace"),
            exit_code=result.exit_code,
        )
        if command.check and result.exit_code != 0:
            prefix = f"{command.error_msg}: " if command.error_msg else ""
            what = f"{prefix}Command {command.command!r} failed with exit code {result.exit_code}. "
            raise NonZeroExitCodeError(f"{what}Stdout:\n{done.stdout!r}\nStderr:\n{done.stderr!r}")
        return done

    @_in_loop
    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        """As `Path.read_text`; raises OSError, UnicodeDecodeError."""
        try:
            data = await self._session.read_file(request.path, FILE_LIMIT)
        except FileError as error:
            await self._raise_os_error(request.path, error)
        text = io.TextIOWrapper(io.BytesIO(data), encoding=request.encoding or "utf-8", errors=request.errors)
        return ReadFileResponse(content=text.read())

    @_in_loop
    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        """As `Path.write_text`, and creates missing folders; raises OSError."""
        data = request.content.encode()
        try:
            await files.deliver(self._session, data, _OVERWRITE, [request.path], what=request.path)
        except FileError as error:
            await self._raise_os_error(request.path, error)
        return WriteFileResponse()

    @_in_loop
    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Copy a file or the content of a folder; raises ValueError for a source that is neither, OSError."""
        source = Path(request.source_path)
        if not (source.is_file() or source.is_dir()):
            raise ValueError(f"Source path {source} is not a file or directory")
        try:
            await folders.upload(self._session, source, request.target_path)
        except FileError as error:
            await self._raise_os_error(request.target_path, error)
        return UploadResponse()

    @_in_loop
    async def close(self) -> CloseResponse:
        """Close every session; the deployment owns the sandbox."""
        shells, self._shells = list(self._shells.values()), {}
        await asyncio.gather(*(shell.close() for shell in shells))
        return CloseResponse()

    async def disconnect(self) -> None:
        """Close the streams, in the loop's own thread; programs end with the Pod."""
        shells, self._shells = list(self._shells.values()), {}
        await asyncio.gather(*(shell.drop() for shell in shells))

    def _shell(self, name: str) -> BashSession:
        if name not in self._shells:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._shells[name]

    async def _environment(self) -> Mapping[str, str]:
        """The variables of image and Pod: those of the session's loop, which no login shell has changed."""
        if self._image_env is None:
            printed = await self._session.execute(
                "exec cat /proc/$PPID/environ", timeout=60, limit=OutputLimit(1 << 20, 1024)
            )
            entries = printed.stdout.decode(errors="surrogateescape").split("\0")
            pairs = (entry.partition("=") for entry in entries if "=" in entry)
            self._image_env = {name: value for name, _, value in pairs}
        return self._image_env

    def _text(self, command: Command, env: Mapping[str, str]) -> str:
        """The shell text that executes the command."""
        given = command.command
        arguments = [shell_text(word) for word in ([given] if isinstance(given, str) else given)]
        if not arguments:
            raise ValueError("no command")
        not_found = f"{{ echo {self._not_found_mark} >&2; exit {NOT_FOUND}; }}"
        steps = [f"cd -- {quoted(command.cwd)} 2>/dev/null || {not_found}"] if command.cwd is not None else []
        steps += ["exec 2>&1"] if command.merge_output_streams else []
        if command.shell:
            arguments = ["/bin/sh", "-c", *arguments]
        else:
            path = quoted(env.get("PATH", os.defpath))
            steps.append(f"(PATH={path}; command -v {quoted(arguments[0])} >/dev/null) || {not_found}")
        variables = [quoted(f"{name}={value}") for name, value in env.items()]
        return "; ".join([*steps, " ".join(["exec env -i", *variables, *map(quoted, arguments)])])

    async def _raise_os_error(self, path: str, error: FileError) -> NoReturn:
        """Raise the OSError of `open` for `path`."""
        name = quoted(path)
        text = f"[ -d {name} ] && exit {errno.EISDIR}; [ -e {name} ] || exit {errno.ENOENT}; exit {errno.EIO}"
        number = (await self._session.execute(text, timeout=files.FILE_TIMEOUT, limit=OutputLimit(0, 0))).exit_code
        known = number in (errno.EISDIR, errno.ENOENT)
        raise OSError(number if known else errno.EIO, os.strerror(number) if known else str(error), path) from error
