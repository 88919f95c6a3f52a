"""The consoles that ask who their visitor is, in a browser: the login page, and users that a proxy names."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from .accessibility import violations
from .conftest import ATTACK, folder_of_screenshots, watched
from .reviewed import reviewed_console

NEXTS = (
    "//evil.example/x",
    "https://evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "/\r\nX-Owned: yes",
    "javascript:alert(1)",
    f"/run\"'>{ATTACK}",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the console asks for tokens."""
    with reviewed_console(tmp_path_factory.mktemp("token"), "kubernetes") as found:
        yield found


@pytest.fixture(scope="module")
def behind_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the console reads a proxy's headers."""
    with reviewed_console(tmp_path_factory.mktemp("header"), "header") as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of a visitor who has not logged in."""
    with watched(browser, address) as opened:
        yield opened


def log_in(page: Page, token: str) -> None:
    """Type the token and press Enter."""
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(token)
    page.keyboard.press("Enter")


def test_visitor_logs_in_once_and_comes_to_the_page_that_was_asked_for(page: Page) -> None:
    page.goto("/episodes?run=eval")
    log_in(page, "guess")
    expect(page.get_by_role("alert")).to_contain_text("opens nothing here")
    expect(page.get_by_label("Token")).to_have_value("")
    log_in(page, "viewer-token")
    page.wait_for_url("**/episodes?run=eval")
    page.goto("/")
    expect(page.get_by_role("link", name="eval", exact=True)).to_be_visible()
    assert page.evaluate("document.cookie") == "", "no script reads the token"
    assert "viewer-token" not in page.content()


def test_visitor_without_the_right_sees_which_one(page: Page) -> None:
    page.goto("/login")
    log_in(page, "stranger-token")
    expect(page.get_by_role("alert")).to_contain_text("a user who may get swerljobs in the namespace")
    page.goto("/run?run=eval")
    assert urlsplit(page.url).path == "/login"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("refused", [False, True])
def test_login_page_is_accessible(page: Page, scheme: str, refused: bool) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto("/login")
    if refused:
        log_in(page, "guess")
        expect(page.get_by_role("alert")).to_be_visible()
    if folder := folder_of_screenshots():
        page.screenshot(path=folder / f"login{'-refused' if refused else ''}-{scheme}.png", full_page=True)
    assert not violations(page)


def test_login_page_fits_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/login")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("following", NEXTS)
def test_login_leads_to_no_other_site_and_runs_nothing(page: Page, address: str, following: str) -> None:
    page.goto(f"/login?next={quote(following)}")
    assert page.title() == "Log in · swerl"
    assert page.locator("main img, main script").count() == 0
    log_in(page, f"</p><script>document.title='owned'</script>{ATTACK[:20]}")
    expect(page.get_by_role("alert")).to_be_visible()
    assert "owned" not in page.title()
    entered = page.request.post("/login", form={"token": "viewer-token", "next": following}, max_redirects=0)
    assert entered.status == 303
    assert urlsplit(urljoin(address, entered.headers["location"]))[:2] == urlsplit(address)[:2]


@pytest.mark.parametrize("user", ["viewer", "someone"])
def test_user_of_a_group_with_the_right_comes_through_the_proxy(browser: Browser, behind_proxy: str, user: str) -> None:
    headers = {"X-Forwarded-User": user, "X-Forwarded-Groups": "team:editors"}
    with watched(browser, behind_proxy, headers) as page:
        page.goto("/")
        expect(page.get_by_role("link", name="eval", exact=True)).to_be_visible()
        assert not violations(page)


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-User": "stranger"}, {"X-Forwarded-User": "system:admin"}])
def test_others_see_nothing_behind_the_proxy(browser: Browser, behind_proxy: str, headers: dict[str, str]) -> None:
    with watched(browser, behind_proxy, headers) as page:
        answer = page.goto("/refused")
        assert answer and answer.status == 403
        assert page.inner_text("body").strip() == "The proxy names no user who may get swerljobs in the namespace."
