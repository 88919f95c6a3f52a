"""Release notes are the changelog's section of the version."""

from __future__ import annotations

import pytest

from images.catalogue import ROOT
from release.notes import release_notes

CHANGELOG = """# Changelog

## [Unreleased]

- next

## [0.2.0] - 2026-05-01

### Added

- this

## [0.1.0]

- before
"""


def test_notes_have_the_section_of_the_version_and_the_images() -> None:
    notes = release_notes(CHANGELOG, "0.2.0", ["swe-rl/operator:0.2.0"])
    assert notes.startswith("# swe-rl 0.2.0\n\n### Added\n\n- this\n")
    assert "before" not in notes and "next" not in notes
    assert "- `swe-rl/operator:0.2.0`" in notes


def test_version_without_a_section_has_what_is_unreleased() -> None:
    notes = release_notes(CHANGELOG, "0.3.0", [])
    assert "0.3.0 (not released yet)" in notes and "- next" in notes and "- this" not in notes


def test_changelog_without_either_is_refused() -> None:
    with pytest.raises(ValueError, match=r"neither a section \[0\.3\.0\]"):
        release_notes("# Changelog\n", "0.3.0", [])


def test_notes_of_this_checkout_are_not_empty() -> None:
    assert "### Added" in release_notes((ROOT / "CHANGELOG.md").read_text(), "0.1.0", [])
