"""What text means: actions, submissions, patches."""

from __future__ import annotations

import pytest
from swerl_agent.episode import find_actions, is_valid_patch, submission
from swerl_agent.episode.parsing import clean_patch, is_opaque

TEXT = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
DELETED = "diff --git a/x.py b/x.py\ndeleted file mode 100644\n--- a/x.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
RENAMED = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
MODE = "diff --git a/x.sh b/x.sh\nold mode 100644\nnew mode 100755\n"
EMPTY_FILE = "diff --git a/__init__.py b/__init__.py\nnew file mode 100644\nindex 000..e69\n"
BINARY = "diff --git a/i.png b/i.png\nnew file mode 100644\nGIT binary patch\nliteral 1\nIcmZ\n"


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("THOUGHT: x\n```bash\nls -la\n```\n", ["ls -la"]),
        ("```bash\nls\n```\n```bash\npwd\n```", ["ls", "pwd"]),
        ("```sh\nls\n```", []),
        ("```bash\nls```", []),
        ("```bash\nls", []),
        ("", []),
        ("```bash\ncat <<'E' > f\na\n\nb\nE\n```", ["cat <<'E' > f\na\n\nb\nE"]),
    ],
)
def test_actions(text: str, actions: list[str]) -> None:
    assert find_actions(text) == actions


@pytest.mark.parametrize(
    ("output", "rest"),
    [
        (f"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n{TEXT}", TEXT),
        (f"\n  COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n{TEXT}", TEXT),
        (f"MINI_SWE_AGENT_FINAL_OUTPUT\n{TEXT}", TEXT),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", ""),
        ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n", None),
        ("first\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n", None),
        ("", None),
    ],
)
def test_submission_is_the_first_line_of_the_output(output: str, rest: str | None) -> None:
    assert submission(output) == rest


@pytest.mark.parametrize("patch", [TEXT, DELETED, RENAMED, MODE, EMPTY_FILE, BINARY])
def test_every_kind_of_change_is_a_valid_patch(patch: str) -> None:
    assert is_valid_patch(patch)


@pytest.mark.parametrize("patch", ["", "\n", "diff --git a/x b/x\n", "--- a/x\n+++ b/x\n", "hello"])
def test_unchanged_tree_gives_no_patch(patch: str) -> None:
    assert not is_valid_patch(patch)


def test_patch_begins_at_its_header_and_ends_with_a_newline() -> None:
    assert clean_patch("warning: CRLF\n" + TEXT.rstrip("\n")) == TEXT
    assert clean_patch(TEXT) == TEXT
    assert clean_patch("nothing") == ""


def test_trailing_context_lines_survive() -> None:
    patch = TEXT.replace("@@ -1 +1 @@", "@@ -1,2 +1,2 @@") + " \n"
    assert clean_patch(patch) == patch


def test_binary_change_without_content_is_reported() -> None:
    assert is_opaque("diff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n")
    assert not is_opaque(BINARY)
