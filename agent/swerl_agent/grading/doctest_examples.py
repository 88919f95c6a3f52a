"""Alterations of doctests: another answer in the place of one that an example has, or one more example that fails.

Guarantees: a file is edited as text, and nothing of it is run. An answer that may vary keeps its text: one with `...`,
of an example with a comment or an option, and a traceback.
"""

from __future__ import annotations

import ast
import doctest
import random
import re
from collections.abc import Iterator

from .alterations import Edit, Names, TestSource

_WORD = re.compile(r"[A-Za-z_]\w+")
_DEFINITION = re.compile(r"[ +-]\s*(?:async\s+)?(?:def|class)\s")
_OPENING = re.compile(r"[A-Za-z]*('''|\"\"\")")


def doctest_change(text: str, source: TestSource | None, names: Names, fix: str, rng: random.Random) -> str:
    """The name of a change of the doctest of `names`: `value:<number>:<seed>` of an answer, else `example`.

    Examples that share a word with the reference fix come before others. A doctest ends at its first failure, so that
    one run shows the effect of one change.
    """
    answers = _answers(text, source, names)
    known = _changed_words(fix)
    near = [number for number, (example, _) in enumerate(answers) if known.intersection(_WORD.findall(example))]
    numbers = near or list(range(len(answers)))
    return f"value:{rng.choice(numbers)}:{rng.getrandbits(24)}" if numbers else "example"


def _changed_words(fix: str) -> set[str]:
    """Words of the lines that a diff changes, and of the definitions that they are in."""
    known: set[str] = set()
    definition = ""
    for line in fix.split("\n"):
        if line.startswith("@@") or _DEFINITION.match(line):
            definition = line
        if line[:1] in ("+", "-") and line[:3] not in ("+++", "---"):
            known.update(_WORD.findall(definition + line))
    return known


def doctest_edit(text: str, source: TestSource | None, names: Names, change: str, rng: random.Random) -> Edit | None:
    """The edit that such a name means; None where it is impossible."""
    if change == "example":
        return _failing_example(text, source, names, rng)
    if not change.startswith("value:"):
        return None
    number, seed = map(int, change.split(":")[1:])
    answers = _answers(text, source, names)
    if number >= len(answers):
        return None
    at, chance = answers[number][1], random.Random(seed)
    return Edit(at, at, str(chance.randrange(3, 8)) if text[at - 1].isdigit() else f"{chance.getrandbits(16):04x}")


def _answers(text: str, source: TestSource | None, names: Names) -> list[tuple[str, int]]:
    """Each example whose answer cannot vary, with the index of the answer's end."""
    place = _docstring(text, source, names)
    return list(_fixed_answers(text, *place)) if place else []


def _fixed_answers(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    try:
        examples = doctest.DocTestParser().get_examples(text[start:end])
    except ValueError:  # its prompts are indented in different ways
        return
    lines = text[start:end].split("\n")
    for each in examples:
        if not each.want.strip() or "..." in each.want or "#" in each.source or each.exc_msg or each.options:
            continue
        last = each.lineno + each.source.count("\n") + each.want.count("\n") - 1
        if lines[last].strip() == each.want.split("\n")[-2].strip():
            yield each.source, start + sum(len(line) + 1 for line in lines[:last]) + len(lines[last].rstrip())


def _docstring(text: str, source: TestSource | None, names: Names) -> tuple[int, int] | None:
    """Where the examples are: all of a text, or the docstring of the object `names` without its quotes."""
    if not names.function:
        return 0, len(text)
    first = source.functions[names][1].body[0] if source and names in source.functions else None
    if not (source and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return None
    start = source.index(first.lineno, first.col_offset)
    end = source.index(first.end_lineno or first.lineno, first.end_col_offset or 0)
    opening = _OPENING.match(text, start)
    if not isinstance(first.value.value, str) or not opening or not text.endswith(opening[1], start, end):
        return None
    return opening.end(), end - 3


def _failing_example(text: str, source: TestSource | None, names: Names, rng: random.Random) -> Edit | None:
    """An example with a wrong answer, at the end."""
    place = _docstring(text, source, names)
    if place is None:
        return None
    one, other = rng.randrange(11, 99), rng.randrange(11, 99)
    indentation = source.indentation(source.functions[names][1].body[0]) if source and names.function else ""
    lines = [f">>> {one} * {other}", str(one * other + 1)]
    return Edit(place[1], place[1], "\n" + "".join(f"\n{indentation}{line}" for line in lines) + f"\n{indentation}")
