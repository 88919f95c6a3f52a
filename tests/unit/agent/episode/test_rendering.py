"""Templates that fail, and templates that would never end."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from swerl_agent.episode.rendering import MAX_LENGTH, failure, render


def error_of(template: str, **variables: Any) -> str:
    """The error message of the template's failure."""
    with pytest.raises(Exception) as caught:
        render(template, **variables)
    return failure(caught.value, template)


@pytest.mark.parametrize(
    ("template", "message"),
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
def test_failing_line_is_reported(template: str, message: str) -> None:
    assert message in error_of(template, output="")


def test_long_line_is_quoted_in_part() -> None:
    assert len(error_of("{{ nope }}" + "x" * 9_999)) < 300


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for i in range(99999) %}{{ output }}{{ output }}{% endfor %}", "TooLong: more than 4000000 characters"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{% for i in range(10**9) %}{% endfor %}", "OverflowError: Range too big"),
    ],
)
def test_work_without_end_is_stopped(template: str, message: str) -> None:
    assert (found := error_of(template, output="abc" * 10)).startswith(message) and found.endswith(
        f"in line 1: {template}"
    )


def test_ordinary_templates_render() -> None:
    assert render("{{ 'a' * 3 ~ (1 + 1) ~ ([1] + [2]) }} {{ 2 ** 10 }}") == "aaa2[1, 2] 1024"
    items = "{% for k, v in d.items() if v %}{{ loop.length }}{{ k }}{% else %}none{% endfor %}"
    assert (render(items, d={"a": 1, "b": 0}), render(items, d={})) == ("1a", "none")
    tree = "{% for node in tree recursive %}{{ node.n }}{{ loop(node.sub) if node.sub }}{% endfor %}"
    assert render(tree, tree=[{"n": 1, "sub": [{"n": 2, "sub": []}]}]) == "12"
    assert render("{{ output }}", output="x" * MAX_LENGTH)
    with pytest.raises(jinja2.UndefinedError):
        render("{{ nothing }}")
