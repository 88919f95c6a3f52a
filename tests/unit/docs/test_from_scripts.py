"""Every field that the page on launch scripts names is a field of SweRLJob."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from swerl_api import SweRLJobSpec

from .pages import ROOT

PAGE = ROOT / "docs/from-scripts.md"
FIELD = re.compile(r"`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*)(?:: [a-z0-9]+)?`")


def fields(text: str) -> Iterator[str]:
    """Fields in the right columns of the page's table of flags."""
    rows = text.partition("## Flags")[2].partition("## Resume")[0].splitlines()
    for row in rows:
        cells = row.split(" | ")
        if len(cells) == 2:
            yield from (found for found in FIELD.findall(cells[1]) if "." in found or found in ("colocate", "retries"))


def has_field(model: Any, path: str) -> bool:
    """Whether `model` has the camelCase field at `path`."""
    name, _, rest = path.partition(".")
    field = next((each for each in model.model_fields.values() if each.alias == name), None)
    if field is None or not rest:
        return field is not None
    inner = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
    return any(issubclass(each, BaseModel) and has_field(each, rest) for each in inner)


def test_page_names_many_fields() -> None:
    assert len(set(fields(PAGE.read_text()))) > 60


@pytest.mark.parametrize("path", sorted(set(fields(PAGE.read_text()))))
def test_named_field_exists(path: str) -> None:
    assert has_field(SweRLJobSpec, path)


def test_unknown_field_is_found() -> None:
    assert list(fields("## Flags\n| `--x` | `trainer.tensors: 2` |\n")) == ["trainer.tensors"]
    assert not has_field(SweRLJobSpec, "trainer.tensors")
    assert not has_field(SweRLJobSpec, "judge.view.words")


def test_every_example_job_is_named() -> None:
    jobs = {path.name for path in ROOT.glob("examples/swerljob-*.yaml")} - {"swerljob-mini-swe-agent.yaml"}
    assert {name for name in jobs if f"](../examples/{name})" not in PAGE.read_text()} == set()
