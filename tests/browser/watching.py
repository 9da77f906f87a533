"""Pages whose scripts may not fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.eventually import PATIENCE

BROWSER_PATIENCE = 1000 * PATIENCE
"""Milliseconds for what is expected of a page: machines may be slow."""


@contextmanager
def watched(profile: BrowserContext) -> Iterator[Page]:
    """A page; errors in its scripts, and whatever the policy stopped, fail at its end."""
    page = profile.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    # What a test took away (the network, the session) the browser says by itself.
    expected = ("Failed to load resource", "net::ERR_")
    assert [each for each in errors if not any(word in each for word in expected)] == []


@contextmanager
def window(chromium: Browser, **options: Any) -> Iterator[Page]:
    """A page of 1280 x 720 in a fresh profile; errors in its scripts fail at its end."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, **options)
    context.set_default_timeout(BROWSER_PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []
