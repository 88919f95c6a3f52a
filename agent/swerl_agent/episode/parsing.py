"""What the model's text and a command's output mean: actions, submissions, patches. Pure functions."""

from __future__ import annotations

import re

# The closing fence stands on a line of its own; an unclosed or other fence is no action.
_ACTION = re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL)

SENTINELS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")

# Lines one of which a file's diff has, besides its `diff --git` line: text, new or deleted empty file, rename, mode,
# binary.
_CHANGE = re.compile(
    r"^(?:--- |\+\+\+ |new file mode |deleted file mode |rename from |copy from |old mode |GIT binary patch)",
    re.MULTILINE,
)
_DIFF = re.compile(r"^diff --git ", re.MULTILINE)
_OPAQUE = re.compile(r"^Binary files .* differ$", re.MULTILINE)


def find_actions(text: str) -> list[str]:
    """The commands of all fenced bash blocks, in order; a well-formed answer has exactly one."""
    return [block.strip() for block in _ACTION.findall(text)]


def submission(output: str) -> str | None:
    """What follows the submission sentinel when that is the first line of `output`, else None."""
    first, _, rest = output.lstrip().partition("\n")
    return rest if first.strip() in SENTINELS else None


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
