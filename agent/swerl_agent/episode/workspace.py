"""The agent's view of its sandbox: commands, the output shown to the model, and the patch of the work tree.

Guarantees: no command of the model runs before the baseline of the work tree is taken, and none outlives the episode's
deadline. The patch is what changed since (`baseline`); the text of a submission counts where the tree has no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from swerl_api import AgentSpec

from swerl_agent.sandbox import CommandResult
from swerl_agent.sandbox.wire import shell_text
from swerl_agent.tasks.diffs import changed_paths

from .baseline import STAGED_DIFF_COMMAND, Baseline, Patch, printed_patch
from .command_runner import CommandRunner
from .parsing import is_opaque
from .prompts import Output

# No pagers, no progress bars.
ENVIRONMENT = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}
MAX_OUTPUT = 1 << 16  # bytes of a command's output that leave the sandbox, unless the model is shown more
HEAD_AND_TAIL = 2_000  # characters of output kept per step in the artifacts


class Workspace:
    """The repository in a sandbox."""

    def __init__(self, session: CommandRunner, spec: AgentSpec, workdir: str) -> None:
        self._session, self._spec, self._workdir = session, spec, workdir
        self.baseline = Baseline(session, workdir, ENVIRONMENT)

    async def execute(
        self,
        action: str,
        *,
        seconds_left: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int | None = None,
    ) -> CommandResult:
        """Run one of the model's commands, by default in the repository with ENVIRONMENT. Raises SandboxError."""
        await self.baseline.ready()
        return await self._session.run(
            shell_text(action),
            timeout=max(0.1, min(self._spec.command_timeout_seconds, seconds_left)),
            cwd=cwd or self._workdir,
            env=ENVIRONMENT if env is None else env,
            # Each half of what the model is shown may hold 4 bytes per character.
            max_output=max_output or max(MAX_OUTPUT, 8 * self._spec.observation.max_chars),
        )

    def shown(self, result: CommandResult) -> Output:
        """A command's result as the templates see it."""
        text = "".join(part.decode("utf-8", "replace") for part in (result.stdout, result.stderr))
        return Output.of(
            text,
            returncode=result.exit_code,
            omitted=result.omitted_bytes,
            observation=self._spec.observation,
            timed_out=result.timed_out,
            timeout=self._spec.command_timeout_seconds,
        )

    async def submitted(self, result: CommandResult) -> Patch:
        """The changes of the files that the submitting command printed a patch of (standard output excludes warnings).

        Of all files where it printed none, or not all of it, or where it does not list commits of the agent.
        """
        patch = await self.baseline.patch()
        text = printed_patch(result)
        truncated = result.stdout_bytes > len(result.stdout)
        if patch.text:
            return patch if truncated or patch.head_moved else patch.of(changed_paths(text))
        if is_opaque(text) or truncated:
            text = (await self.baseline.printed(STAGED_DIFF_COMMAND)).text
        return replace(patch, text=text)


def step_record(step: int, action: str, result: CommandResult, started: float) -> dict[str, Any]:
    """The record of a command and its result, for artifacts and the judge; `step` counts the model's answers from 0.

    `output_len` counts the characters that head and tail are the ends of; `output_hidden` counts omitted bytes.
    """
    output = result.output
    return {
        "step_idx": step,
        "action": action,
        "returncode": result.exit_code,
        "output_len": len(output),
        "output_hidden": result.omitted_bytes,
        "output_head": output[:HEAD_AND_TAIL],
        "output_tail": output[-HEAD_AND_TAIL:],
        "start_ts": started,
        "end_ts": started + result.duration,
        "ok": not result.timed_out,
        "timed_out": result.timed_out,
        "retries": result.retries,
        "handshake_errors": result.handshake_errors,
    }
