"""Pages that fail a test if one of their scripts fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.eventually import PATIENCE

BROWSER_PATIENCE = 1000 * PATIENCE
"""Milliseconds that a test waits for a page."""


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
    """A page of 1280 x 720 in a fresh profile; errors in its scripts raise at the end."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, **options)
    context.set_default_timeout(BROWSER_PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == [], errors
