"""A newcomer's first job on a prepared cluster takes at most five commands, which the real parser reads."""

from __future__ import annotations

from swerl_agent.cli import parse

from .pages import ROOT, blocks_of

PAGE = "docs/jobs.md"


def commands() -> list[list[str]]:
    """Those of the page's first shell block; tests/control_plane/jobs/test_first_job.py runs them."""
    block = next(block for block in blocks_of(PAGE, (ROOT / PAGE).read_text()) if block.language == "sh")
    return block.commands()


def test_first_job_takes_at_most_five_commands() -> None:
    found = commands()
    assert [words[:2] for words in found] == [["swerl", verb] for verb in ("init", "validate", "submit", "watch")]
    assert len(found) <= 5


def test_commands_name_one_file_and_one_job() -> None:
    written, validated, submitted, watched = (parse(words[1:]) for words in commands())
    assert written.file == validated.file == submitted.file
    assert written.model.rpartition("/")[2].lower() == watched.name, "init names the job after its model"
