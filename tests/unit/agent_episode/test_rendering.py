"""Templates that fail, and templates that would never end."""

from __future__ import annotations

import time
from typing import Any

import jinja2
import pytest
from swerl_agent.episode.rendering import MAX_LENGTH, TooMuch, failure, render


def fault(template: str, **variables: Any) -> str:
    """What is said of the template's failure."""
    with pytest.raises(Exception) as caught:
        render(template, **variables)
    return failure(caught.value, template)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("a\nb {{ output.no }}\n", "UndefinedError: 'str object' has no attribute 'no', in line 2: b {{ output.no }}"),
        ("{{ 1 // output|length }}", "by zero, in line 1: {{ 1 // output|length }}"),
        ("a\n\n{% if %}\n", "got 'end of statement block', in line 3: {% if %}"),
        (
            "{% macro f() %}\n{{ no }}\n{% endmacro %}\n{{ f() }}",
            "'no' is undefined, in line 2: {{ no }}",
        ),
        ("\n{{ output() }}", "TypeError: 'str' object is not callable, in line 2: {{ output() }}"),
        ("{{ output.__class__.__mro__ }}", "is unsafe., in line 1"),
    ],
)
def test_the_line_that_fails_is_told(template: str, said: str) -> None:
    assert said in fault(template, output="")


def test_a_long_line_is_quoted_in_part() -> None:
    assert len(fault("{{ nope }}" + "x" * 9_999)) < 300


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=9) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{{ output * 999999999 }}",
        "{{ [0] * 999999999 }}",
        "{{ 9 ** 99999 }}",
        "{% for i in range(99999) %}{{ output }}{{ output }}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    ],
)
def test_work_without_end_is_stopped_soon(template: str) -> None:
    began = time.monotonic()
    assert "TooMuch: " in (said := fault(template, output="abc" * 10)) and said.endswith(f"in line 1: {template[:160]}")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "template", ["{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% for i in range(10**9) %}{% endfor %}"]
)
def test_other_ways_without_end_are_failures_too(template: str) -> None:
    assert "in line 1" in fault(template)


def test_each_rendering_begins_to_count_anew() -> None:
    text = "{% for c in output %}{{ loop.index }}{% if not loop.last %},{% endif %}{% endfor %}"
    for _ in range(3):
        assert render(text, output="x" * 125_000).endswith(",125000")
    with pytest.raises(TooMuch):
        render(text, output="x" * 250_001)


def test_what_honest_templates_do_is_as_ever() -> None:
    assert render("{{ 'a' * 3 ~ (1 + 1) ~ ([1] + [2]) }} {{ 2 ** 10 }}") == "aaa2[1, 2] 1024"
    items = "{% for k, v in d.items() if v %}{{ loop.length }}{{ k }}{% else %}none{% endfor %}"
    assert (render(items, d={"a": 1, "b": 0}), render(items, d={})) == ("1a", "none")
    tree = "{% for node in tree recursive %}{{ node.n }}{{ loop(node.sub) if node.sub }}{% endfor %}"
    assert render(tree, tree=[{"n": 1, "sub": [{"n": 2, "sub": []}]}]) == "12"
    assert render("{{ output }}", output="x" * MAX_LENGTH)
    with pytest.raises(jinja2.UndefinedError):
        render("{{ nothing }}")
