"""Which package may know which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "swerl_api": "crds",
    "swerl_kube": "crds",
    "swerl_plan": "crds",
    "swerl_operator": "operator",
    "swerl_agent": "agent",
    "swerl_trainer": "trainer",
}
ALLOWED_IMPORTS = {
    "swerl_api": set[str](),
    "swerl_kube": {"swerl_api"},
    "swerl_plan": {"swerl_api"},
    "swerl_operator": {"swerl_api", "swerl_kube", "swerl_plan"},
    "swerl_agent": {"swerl_api", "swerl_kube", "swerl_plan"},
    "swerl_trainer": {"swerl_api", "swerl_kube", "swerl_plan", "swerl_agent"},
}
OF_THE_CHECKOUT = {"cluster", "demo", "images", "release", "tests", "tiny_model"}  # none of it is in an image


def imported(path: Path) -> Iterator[str]:
    """Top-level names of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_lower_ones(package: str) -> None:
    files = list((ROOT / PACKAGES[package] / package).rglob("*.py"))
    assert files
    forbidden = (set(PACKAGES) | OF_THE_CHECKOUT) - ALLOWED_IMPORTS[package] - {package}
    violations = {str(path.relative_to(ROOT)): names for path in files if (names := set(imported(path)) & forbidden)}
    assert not violations
