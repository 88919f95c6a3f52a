"""Every value of the chart is explained: in values.yaml by a comment, in the schema by a description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest
import yaml

from .queries import CHART

TEXT = (CHART / "values.yaml").read_text()
LINES = TEXT.splitlines()
FREE = {"resources", "nodeSelector", "affinity", "podAnnotations", "podLabels", "labels"}  # Kubernetes' own objects
Place = tuple[str, tuple[int, ...]]  # dotted name; lines of its parents and itself, from 0


def places(node: yaml.Node, names: Sequence[str] = (), lines: Sequence[int] = ()) -> Iterator[Place]:
    """Every value."""
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        path, found = (*names, key.value), (*lines, key.start_mark.line)
        yield ".".join(path), found
        if isinstance(value, yaml.MappingNode) and key.value not in FREE:
            yield from places(value, path, found)


PLACES = dict(places(yaml.compose(TEXT)))


def comment(line: int) -> str:
    """The comment at the end of a line, and those directly above it."""
    _, _, found = LINES[line].partition(" # ")
    while line and (above := LINES[line - 1].strip()).startswith("#"):
        found, line = f"{above} {found}", line - 1
    return found


@pytest.mark.parametrize("name", PLACES)
def test_value_has_a_comment(name: str) -> None:
    """Its own, or one of a parent that names it."""
    *parents, own = PLACES[name]
    word = re.compile(rf"\b{name.rpartition('.')[2]}\b")
    assert comment(own) or any(word.search(comment(line)) for line in parents)


@pytest.mark.parametrize("name", PLACES)
def test_value_has_a_description_in_the_schema(name: str) -> None:
    found = json.loads((CHART / "values.schema.json").read_text())
    for part in name.split("."):
        found = found["properties"][part]
    assert found["description"].strip()
