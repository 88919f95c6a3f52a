"""Pages, code and test names are plain English: no banned words, no long sentences in pages and docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import ROOT, name, pages, prose

# Words of literature, and what they mostly replaced (docs/decisions/names.md).
BANNED = re.compile(
    r"\b(told|tells?|wish(?:es|ed)?|in vain|nobody|somebody|whoever|whom|heeds?|heeded|anew|thereupon|lets? go|bears?|"
    r"is said|doubts?|doomed|condemned|objections?|testimony|last words|fate|made ahead|gone astray|"
    r"mend(?:s|ed|ing)?|everybody|anybody|is so, too|proof of effects?|long gone|by heart|works? off)\b",
    re.IGNORECASE,
)
CODE = "agent", "cluster", "crds", "demo", "images", "operator", "release", "tasks", "tiny_model", "trainer", "website"
EXCLUDED = {"packages", "test_english.py"}  # the tasks' own code; the banned words themselves
LONGEST = 25  # words
SPAN = re.compile(r"`[^`]*`")
END = re.compile(r"[.:;?!](?:\s|$)|\s[–—]\s")


def sentences(text: str) -> Iterator[str]:
    """Sentences of a page's paragraphs, list items and table cells; inline code is one word."""
    plain = SPAN.sub("code", re.sub(r"\]\([^)]*\)", "", prose(text))).replace("e.g. ", "").replace("**", "")
    for part in re.split(r"\n\s*\n|\n\s*[*-] |\n#+ |\n\||\|", plain):
        yield from (" ".join(sentence.split()) for sentence in END.split(part))


@pytest.mark.parametrize("page", pages(), ids=name)
def test_page_uses_plain_words(page: Path) -> None:
    for number, line in enumerate(SPAN.sub("", prose(page.read_text())).splitlines(), 1):
        found = BANNED.search(line)
        assert not found, f"{name(page)}: line {number} of the prose says {found[0]!r}: {line}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_sentences_are_short(page: Path) -> None:
    long = [sentence for sentence in sentences(page.read_text()) if len(sentence.split()) > LONGEST]
    assert long == []


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """Lines of a module's comments, docstrings and messages with their numbers; one-word strings are data."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(module.read_text()).readline):
        if token.type in kinds and " " in token.string:
            yield from enumerate(SPAN.sub("", token.string).splitlines(), token.start[0])


def modules(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*.py") if not EXCLUDED & set(path.parts)]


@pytest.mark.parametrize("folder", [*CODE, "tests"])
def test_code_uses_plain_words(folder: str) -> None:
    allowed = {"nobody"} if folder == "tests" else set()  # a user of Unix
    found = [
        f"{module.relative_to(ROOT)}:{number}: {line.strip()}"
        for module in modules(folder)
        for number, line in texts(module)
        if set(BANNED.findall(line)) - allowed
    ]
    assert modules(folder) and found == []


def names_of_tests(module: Path) -> Iterator[str]:
    """Names of a module's tests as sentences."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " ")


def test_test_names_use_plain_words() -> None:
    names = [(module, name) for module in modules("tests") for name in names_of_tests(module)]
    assert len(names) > 1000
    assert [(str(module), name) for module, name in names if BANNED.search(name)] == []


def docstrings(source: str) -> Iterator[str]:
    """Docstrings of a module without their examples, which are indented."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (ast.get_docstring(node) or "").splitlines()
            yield "\n".join(line for line in lines if not line.startswith("    "))


@pytest.mark.parametrize("folder", CODE)
def test_sentences_of_docstrings_are_short(folder: str) -> None:
    found = [
        f"{module.relative_to(ROOT)}: {sentence}"
        for module in modules(folder)
        for docstring in docstrings(module.read_text())
        for sentence in sentences(docstring)
        if len(sentence.split()) > LONGEST
    ]
    assert found == []
