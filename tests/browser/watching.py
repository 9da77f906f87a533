"""Pages whose scripts may not fail."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, Page


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
