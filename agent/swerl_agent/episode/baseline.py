"""The patch of an episode: the difference between the work tree as it was handed out and the tree at the end.

Guarantees: the patch does not depend on the repository in the tree, which the agent may commit to, reconfigure or
delete. A patch that lacks a change, or that cannot be taken, says so in `left_out`. An image without a repository or
without git is an error before the model is asked. Where no baseline can be kept for another reason (no folder can be
written), the patch is what `git add -A && git diff --cached` prints. A login profile that the agent broke costs no
change: the diff then runs in a session without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks.diffs import changed_paths, file_diffs

from .command_runner import CommandRunner
from .parsing import clean_patch

SCRIPT = (Path(__file__).parent / "snapshot.sh").read_text()
ENDED = "diff ended"  # last line of standard error
DIFF_COMMAND = f"git add -A && git diff --cached --binary && echo '{ENDED}' >&2"
STAGED_DIFF_COMMAND = f"git diff --cached --binary && echo '{ENDED}' >&2"
CHECK_TIMEOUT = 60.0  # seconds
TAKE_TIMEOUT = 120.0  # seconds
NO_FOLDER = 126  # exit code of a command whose working directory is missing
DIFF_TIMEOUT = 60.0  # seconds
MAX_PATCH = 8 << 20  # bytes; the largest parts of a longer patch are left out
MAX_LEFT_OUT = 50  # lines kept of what a patch lacks
_LEFT_OUT, HEAD_MOVED = "left out ", "head moved"
_UNUSABLE = "unusable "
_LATE = "every change: git did not end in time"


class NoRepository(SandboxError):
    """The image has no git, or no repository in the work folder, so that no patch can be taken."""

    code = "no_repository"


@dataclass(frozen=True)
class Patch:
    """A git diff, '' for none."""

    text: str = ""
    left_out: tuple[str, ...] = ()  # changes that it lacks, and why
    head_moved: bool = False  # the agent committed, reset or switched branches, or removed the repository

    def of(self, paths: Sequence[str]) -> Patch:
        """The patch of those files alone; all of it where it changes none of them."""
        parts = file_diffs(self.text.removesuffix("\n"))
        chosen = [part + "\n" for part in parts if set(paths) & set(changed_paths(part))]
        return replace(self, text="".join(chosen)) if chosen else self


class Baseline:
    """The work tree of a sandbox as it was when `begin` was called."""

    def __init__(
        self, session: CommandRunner, workdir: str, env: Mapping[str, str], *, diff_timeout: float = DIFF_TIMEOUT
    ) -> None:
        """`diff_timeout`: seconds that a diff may take, and at least twice what the baseline took."""
        self._session, self._workdir, self._env = session, workdir, env
        self._diff_timeout = diff_timeout
        self._taking: asyncio.Task[None] | None = None
        self._place: tuple[str, str] | None = None  # folder and tree object in the sandbox
        self._missing = ""  # why there is none
        self.seconds = 0.0  # that it took

    async def check(self) -> None:
        """Raise NoRepository where no patch could be taken, and SandboxError; quick, and no part of the baseline."""
        result = await self._run(_command("check", self._workdir, secrets.token_hex(8)), CHECK_TIMEOUT, cwd="/")
        self._raise_unusable(_last_line(result))

    def begin(self) -> None:
        """Start to take it; a command that is to run after it awaits `ready`."""
        self._taking = asyncio.create_task(self._take())

    async def ready(self) -> None:
        """Return once it is taken; raises SandboxError, which is NoRepository where no patch can be taken."""
        if self._taking is not None:
            await asyncio.shield(self._taking)

    async def close(self) -> None:
        """End what `begin` started."""
        if self._taking is None:
            return
        if not self._taking.done():
            self._taking.cancel()
            await asyncio.wait([self._taking])
        elif not self._taking.cancelled():
            self._taking.exception()  # of a sandbox that was lost, which some command reported

    async def patch(self) -> Patch:
        """The changes of the work tree since; raises SandboxError.

        Where all changes take git too long, those of files that the image's git tracks are tried alone.
        """
        await self.ready()
        if self._place is None:
            patch = await self.printed(DIFF_COMMAND)
            missing = f"the patch is relative to HEAD: {self._missing}"
            return replace(patch, left_out=(missing, *patch.left_out)) if self._missing else patch
        diff = ("diff", self._workdir, *self._place, str(MAX_PATCH))
        patch = await self.printed(_command(*diff))
        if _LATE not in patch.left_out:
            return patch
        tracked = await self.printed(_command(*diff, "tracked"))
        return replace(tracked, left_out=(*tracked.left_out, "new files: git did not end in time"))

    async def printed(self, command: str) -> Patch:
        """The diff that `command` prints."""
        result = await self._run(command, self._diff_timeout)
        if not _whole(result) and not await self._is_gone(result):
            # A session cannot start where the agent removed the image's working directory; it would try on and on.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * self._diff_timeout), self._session.without_profile() as session:
                    result = await self._run(command, self._diff_timeout, session=session)
        errors = _error_lines(result)
        named = dict.fromkeys(line.removeprefix(_LEFT_OUT) for line in errors if line.startswith(_LEFT_OUT))
        left_out = list(named)[:MAX_LEFT_OUT]
        failure = _failure(result, errors)
        if not failure and not _whole(result):
            failure = ("every change: the shell ended before the diff did",)
        text = "" if failure else printed_patch(result)
        return Patch(text, (*left_out, *failure), HEAD_MOVED in errors)

    async def _is_gone(self, result: CommandResult) -> bool:
        """Whether a command that ended with `result` found no work tree."""
        if result.exit_code != NO_FOLDER:
            return False
        looked = await self._run(f"[ -d {shlex.quote(self._workdir)} ]", self._diff_timeout, cwd="/")
        return looked.exit_code == 1

    async def _take(self) -> None:
        started = time.monotonic()
        result = await self._run(_command("take", self._workdir, secrets.token_hex(8)), TAKE_TIMEOUT, cwd="/")
        self.seconds = time.monotonic() - started
        self._diff_timeout = max(self._diff_timeout, 2 * self.seconds)
        last_line = _last_line(result)
        self._raise_unusable(last_line)
        folder, _, tree = last_line.rpartition(" ")
        if result.exit_code == 0 and folder.startswith("/"):
            self._place = folder, tree
        elif last_line.startswith("none "):
            self._missing = last_line.removeprefix("none ")
        else:
            failure = _failure(result, _error_lines(result))
            self._missing = f"no baseline was taken: {failure[0] if failure else last_line}"

    def _raise_unusable(self, line: str) -> None:
        if line.startswith(_UNUSABLE):
            image, why = self._session.image or "of the sandbox", line.removeprefix(_UNUSABLE)
            remedy = "give the repository's folder as `workdir`, in the row or in the sandbox settings"
            raise NoRepository(f"the image {image} {why}; {remedy}")

    async def _run(
        self, command: str, timeout: float, *, cwd: str | None = None, session: CommandRunner | None = None
    ) -> CommandResult:
        return await (session or self._session).run(
            command, timeout=timeout, cwd=cwd or self._workdir, env=self._env, max_output=MAX_PATCH
        )


def printed_patch(result: CommandResult) -> str:
    """The patch that a command printed; bytes that are not UTF-8 become surrogate escapes."""
    return clean_patch(result.stdout.decode("utf-8", "surrogateescape"))


def _whole(result: CommandResult) -> bool:
    """Whether the command of a diff ran to its end; a login profile may exit with 0 before it."""
    ran = result.exit_code == 0 and not result.timed_out
    return ran and (ENDED in _error_lines(result) or bool(printed_patch(result)))


def _last_line(result: CommandResult) -> str:
    return (result.stdout.decode("utf-8", "replace").splitlines()[-1:] or [""])[0]


def _error_lines(result: CommandResult) -> list[str]:
    return result.stderr.decode("utf-8", "replace").splitlines()


def _command(*arguments: str) -> str:
    """The script in a shell of its own, which has no options and functions of the login profile."""
    return f"command exec sh -c {shlex.join([SCRIPT, 'sh', *arguments])}"


def _failure(result: CommandResult, errors: list[str]) -> tuple[str, ...]:
    """Why the output of a command is not a whole diff, as one item; () where it is."""
    if result.timed_out:
        return (_LATE,)
    if result.exit_code != 0:
        return (f"every change: {(errors or ['git ended with'])[-1][:500]} (exit code {result.exit_code})",)
    if result.stdout_bytes > len(result.stdout):
        return (f"every change: the patch has {result.stdout_bytes} bytes, more than {MAX_PATCH}",)
    return ()
