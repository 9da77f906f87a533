"""Actions on the page of a report: open, type, wait for a save."""

from playwright.sync_api import Page, expect


def opened(page: Page, link: str) -> None:
    page.goto(link)
    page.wait_for_selector("#sign:visible")


def typed(page: Page, words: str) -> None:
    page.click("#text")
    page.keyboard.press("Control+End")
    page.keyboard.type(words)


def phase(page: Page, wanted: str) -> None:
    """Wait until saving is in a phase."""
    expect(page.locator("#saving")).to_have_attribute("data-phase", wanted)
