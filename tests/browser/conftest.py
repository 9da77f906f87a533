"""A reading room with one site, and the machine's own Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.bridge.engine.http.conftest import quick_passwords
from tests.browser.reading_room import ReadingRoom, opened
from tests.browser.screens import furnish
from tests.browser.watching import BROWSER_PATIENCE, watched

__all__ = ["quick_passwords"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ReadingRoom]:
    """An engine that listens, of the test's own."""
    with opened(tmp_path) as room:
        yield room


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadingRoom]:
    """An engine of the module's, its site with something on every screen."""
    with opened(tmp_path_factory.mktemp("furnished")) as room:
        furnish(room)
        yield room


@pytest.fixture(scope="module")
def driver() -> Iterator[Playwright]:
    """
    What drives browsers: there can be one in a process.

    Not for longer than a module: its event loop stays in the thread, and no other starts there.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    expect.set_options(timeout=BROWSER_PATIENCE)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(driver: Playwright) -> Iterator[Browser]:
    """One browser for a module's tests; each has a profile of its own."""
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh profile."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(BROWSER_PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A page; errors in its scripts, and whatever the policy stopped, fail the test."""
    with watched(profile) as page:
        yield page
