"""The accessibility of a page, by axe."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def violations(page: Page) -> str:
    """Axe's report of the rules of WCAG 2.1 AA that the page breaks; empty without one."""
    found = Axe().run(page, options={"runOnly": RULES})
    return str(found.generate_report()) if found.violations_count else ""
