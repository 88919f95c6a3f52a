"""The Markdown pages of the repository, as tests read them: blocks, commands, inline code, links, cited tests."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^ *```")
NEEDS = re.compile(r"<!-- needs: ([a-z, ]+) -->")
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block; `needs` is what the comment `<!-- needs: ... -->` above it names."""

    page: str
    line: int
    language: str
    text: str
    needs: frozenset[str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[list[str]]:
        """Words of every command of a shell block, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        words = [shlex.split(line, comments=True) for line in lines]
        return [found for found in words if found]


def pages() -> list[Path]:
    """Every page that a reader meets; bundled packages and issue texts are data."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]
    return sorted(found)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks() -> list[Block]:
    """All fenced blocks of all pages."""
    return [block for page in pages() for block in blocks_of(name(page), page.read_text())]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Fenced blocks of one page."""
    language, start, body, needs = "", 0, list[str](), frozenset[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line) and start:
            yield Block(page, start, language, "\n".join(body), needs)
            start, needs = 0, frozenset()
        elif FENCE.match(line):
            language, start, body = line.strip().removeprefix("```"), number, []
        elif start:
            body.append(line)
        elif found := NEEDS.search(line):
            needs = frozenset(found[1].split(", "))
        elif line.strip():
            needs = frozenset()


def commands_of(page: str, *beginning: str) -> list[list[str]]:
    """The words of each command of `page` that begins so, up to a redirection."""
    commands = [words for block in blocks_of(page, (ROOT / page).read_text()) for words in block.commands()]
    found = [words for words in commands if words[: len(beginning)] == [*beginning]]
    assert found, f"{page} has no command `{shlex.join(beginning)}`"
    return [words[: words.index(">")] if ">" in words else words for words in found]


def command_of(page: str, *beginning: str) -> list[str]:
    """The first of `commands_of`."""
    return commands_of(page, *beginning)[0]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def inline(page: Path) -> list[str]:
    """What stands between backquotes in the prose of a page."""
    return CODE.findall(prose(page.read_text()))


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names of the tests in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, kinds)}
    return frozenset(name for name in found if name.startswith("test_"))
