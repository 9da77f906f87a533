"""Pages that fail a test if one of their scripts fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright

from tests.eventually import PATIENCE
from tests.programs import HEADLESS_SHELL

BROWSER_PATIENCE = 1000 * PATIENCE
"""Milliseconds that a test waits for a page."""


PROCESS_PER_SITE = "--process-per-site"


@contextmanager
def launched(driver: Playwright, *arguments: str) -> Iterator[Browser]:
    """A browser for pages that need no device, and no setting of the browser."""
    browser = driver.chromium.launch(
        executable_path=HEADLESS_SHELL.require(), args=["--no-sandbox", *arguments]
    )
    yield browser
    browser.close()


@contextmanager
def checked_page(profile: BrowserContext) -> Iterator[Page]:
    """A page; errors in its scripts and violations of its policy raise at the end."""
    page = profile.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    # The browser logs requests that fail because a test cut the network or the session.
    expected = ("Failed to load resource", "net::ERR_")
    assert [item for item in errors if not any(word in item for word in expected)] == []


@contextmanager
def window(chromium: Browser, **options: Any) -> Iterator[Page]:
    """A page of 1280 x 720 without stored data; errors in its scripts raise at the end."""
    use = chromium, str(options)
    profile = _IDLE.pop(use, None) or chromium.new_context(
        viewport={"width": 1280, "height": 720}, **options
    )
    profile.set_default_timeout(BROWSER_PATIENCE)
    profile.set_storage_state({"cookies": [], "origins": []})
    profile.clear_permissions()
    page = profile.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    if _leave_one_page(profile):
        _IDLE[use] = profile
    else:
        profile.close()
    assert errors == [], errors


_IDLE: dict[tuple[Browser, str], BrowserContext] = {}
"""
Profiles that no test uses, by browser and options.

With `PROCESS_PER_SITE` a profile keeps the process of its pages for the next test. The start of a
process, which then compiles the scripts, takes longer than most tests.
"""


def _leave_one_page(profile: BrowserContext) -> bool:
    """Close all pages but one without scripts, which keeps the process; False if there is none."""
    first, *others = profile.pages or [profile.new_page()]
    if not first.url.endswith(_WITHOUT_SCRIPTS):
        try:
            profile.new_page().goto(urljoin(first.url, _WITHOUT_SCRIPTS))
        except Error:  # the service has stopped
            return False
        others.append(first)
    for page in others:
        page.close()
    return True


_WITHOUT_SCRIPTS = "/readyz"
