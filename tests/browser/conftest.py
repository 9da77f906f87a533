"""A reading room with one site, and the machine's own Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from tests.browser.reading_room import ReadingRoom

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ReadingRoom]:
    """An engine that listens; its site cools signatures for a minute."""
    room = ReadingRoom(tmp_path)
    room.prepare(sign_delay=60)
    room.start()
    yield room
    room.stop()


@pytest.fixture(scope="module")
def driver() -> Iterator[Playwright]:
    """
    What drives browsers: there can be one in a process.

    Not for longer than a module: its event loop stays in the thread, and no other starts there.
    """
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
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
    yield context
    context.close()


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A page; errors in its scripts, and whatever the policy stopped, fail the test."""
    page = profile.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    # What a test took away (the network, the session) the browser says by itself.
    expected = ("Failed to load resource", "net::ERR_")
    assert [each for each in errors if not any(word in each for word in expected)] == []
