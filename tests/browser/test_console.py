"""The console in a browser: flows with mouse and keyboard, accessibility by axe, hostile content."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from .accessibility import violations
from .conftest import MISSING, folder_of_screenshots

PAGES = ("runs", "run", "episodes", "episode", "rollouts", "tokens", "compare", "live", "error", "grading")


def open_page(page: Page, name: str) -> None:
    """Go to a page as a person does, from the first one."""
    page.goto("/")
    if name == "runs":
        return
    if name in ("episodes", "compare"):
        page.goto("/episodes" if name == "episodes" else "/compare?a=before&b=after")
        return
    if name == "error":
        page.goto(MISSING)
        expect(page.get_by_role("heading", name="404")).to_be_visible()
        return
    if name == "grading":
        page.goto("/episodes?run=hostile")
        page.locator("[data-item] a").first.click()
        page.get_by_text("Tests and log of the grading").click()
        expect(page.get_by_role("region", name="Tests of the grading")).to_be_visible()
        return
    page.get_by_role("link", name="demo", exact=True).click()
    if name == "run":
        return
    if name == "live":
        page.locator("a[href^='/live']").first.click()
        expect(page.get_by_role("status").get_by_text("running")).to_be_visible()
        return
    page.goto("/episodes?run=demo")
    page.locator("[data-item] a").first.click()
    if name == "rollouts":
        page.keyboard.press("g")
        page.wait_for_url("**/rollouts?*")
    elif name == "tokens":
        page.locator("a[href^='/tokens']").first.click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible(page: Page, name: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    open_page(page, name)
    if folder := folder_of_screenshots():
        page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
    assert not violations(page)


def test_episode_is_found_by_filter_and_search(page: Page) -> None:
    page.goto("/episodes?run=demo&verdict=unresolved")
    unresolved = page.locator("[data-item]").count()
    page.keyboard.press("/")
    page.keyboard.type("store-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=store-1*")
    assert 0 < page.locator("[data-item]").count() < unresolved
    assert "verdict=unresolved" in page.url


def test_keys_move_open_and_go_back(page: Page) -> None:
    page.goto("/episodes?run=demo")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator("[data-item].selected").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/episode?*")
    first = page.url
    page.keyboard.press("]")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("[")
    page.wait_for_url(first)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_theme_is_kept(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Theme").click()
    page.goto("/episodes")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_first_tab_skips_to_the_content(page: Page) -> None:
    page.goto("/episodes")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_narrow_screen_does_not_scroll_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("runs", "episodes", "episode"):
        open_page(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_name_of_a_task_is_on_one_line_of_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    open_page(page, "episodes")
    name = page.locator("[data-item] td a").first
    assert len(name.inner_text()) > 12 and name.evaluate("link => link.getClientRects().length") == 1


def test_hostile_content_runs_nothing(page: Page) -> None:
    open_page(page, "grading")
    page.keyboard.press("e")
    assert "owned" not in page.title()
    assert "<script>document.title='owned'</script>" in page.inner_text("main")
    assert "<script>document.title='owned'</script>" in page.inner_text("#grading")
    assert page.locator("main img, main iframe").count() == 0
