"""The sources of the site: pages of the repository at their own paths, and a page for each other file that they link.

Guarantee: a link that works in the repository works on the site. A link to a folder leads to a list of its files. A
link to a program or an object leads to a page that shows it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md", "tiny_model/README.md")
FENCE_OR_TARGET = re.compile(r"^ *```.*?^ *```|(?<=\]\()[^)\s#:]+(?=[)#])", re.MULTILINE | re.DOTALL)
PICTURES = {".svg", ".png"}
LANGUAGES = {".yaml": "yaml", ".py": "python", ".sh": "bash", ".env": "bash"}


def collect(folder: Path, *, generated: Mapping[str, str]) -> None:
    """Write all sources to `folder`; `generated` pages are texts by path."""
    for path, text in generated.items():
        _write(folder / path, text)
    todo = [ROOT / page for page in PAGES] + sorted(ROOT.glob("docs/**/*.md"))
    done = set[Path]()
    while todo:
        source = todo.pop()
        if source not in done:
            done.add(source)
            todo += _add(source, folder)


def _add(source: Path, folder: Path) -> list[Path]:
    """Write one file as a page or a picture; returns the files that it links."""
    target = folder / site_path(source)
    if source.suffix in PICTURES:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        return []
    text, linked = rewrite(page_text(source), source if source.is_dir() else source.parent)
    _write(target, text)
    return linked


def site_path(source: Path) -> str:
    """Path of a file's page below the site's sources."""
    path = source.relative_to(ROOT).as_posix()
    if source.is_dir():
        return f"{path}/index.md"
    return path if source.suffix in {".md", *PICTURES} else f"{path}.md"


def page_text(source: Path) -> str:
    """A page as it is; any other file or folder as a page that shows it."""
    if source.is_dir():
        return _folder_page(source)
    text = source.read_text()
    if source.suffix == ".md":
        return text
    if source.suffix == ".ipynb":
        return notebook_page(text)
    return f"# {source.relative_to(ROOT)}\n\n````{LANGUAGES.get(source.suffix, 'text')}\n{text}\n````\n"


def _folder_page(folder: Path) -> str:
    entries = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._" and path.name != "invalid"]
    lines = [f"* [{_title(path)}]({path.name}{'/' * path.is_dir()})" for path in entries]
    return f"# {folder.relative_to(ROOT)}/\n\n" + "\n".join(lines) + "\n"


def _title(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# ") if path.suffix == ".md" else path.name


def notebook_page(notebook: str) -> str:
    """The cells of a notebook as a page, without outputs."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells) + "\n"


def rewrite(text: str, base: Path) -> tuple[str, list[Path]]:
    """The text with links to pages of the site, and the files that it links. Raises SystemExit for a missing file."""
    linked: list[Path] = []

    def page_of(found: re.Match[str]) -> str:
        link = found[0]
        if link.lstrip().startswith("```"):
            return link
        target = (base / link).resolve()
        if not target.exists():
            raise SystemExit(f"{base.relative_to(ROOT)}: a link names {link}, which does not exist")
        linked.append(target)
        return f"{link.rstrip('/')}{site_path(target).removeprefix(target.relative_to(ROOT).as_posix())}"

    return FENCE_OR_TARGET.sub(page_of, text), linked


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
