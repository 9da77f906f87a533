"""An engine with one site, and the installed Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser.checked_pages import BROWSER_PATIENCE, checked_page, launched
from tests.browser.engine_server import EngineServer, opened
from tests.browser.screens import add_sample_data
from tests.programs import CHROMIUM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a browser, so that it is skipped before its engine starts."""
    for item in items:
        if "driver" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs(CHROMIUM))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineServer]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture(scope="module")
def sample_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with opened(tmp_path_factory.mktemp("sample_engine")) as engine:
        add_sample_data(engine)
        yield engine


@pytest.fixture(scope="module")
def driver() -> Iterator[Playwright]:
    """
    The Playwright driver, one per process.

    It ends with the module: its event loop occupies the thread.
    """
    expect.set_options(timeout=BROWSER_PATIENCE)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(driver: Playwright) -> Iterator[Browser]:
    """One browser for a module; each test has its own profile."""
    with launched(driver) as browser:
        yield browser


@pytest.fixture
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(BROWSER_PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A page; errors in its scripts and violations of its policy fail the test."""
    with checked_page(profile) as page:
        yield page
