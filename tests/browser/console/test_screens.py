"""
Every page of the console with data, at both sizes and in both themes.

No violations, no overflow, nothing moves while a page loads, no error in a script or of a request,
and nothing on a page that only a program reads.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Response

from tests.browser.axe import violations_in_themes
from tests.browser.checked_pages import window
from tests.browser.console.addresses import addresses, page_names, settle, watch_requests
from tests.browser.console.hospital import ANALYST, Hospital, opened
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TEXTS = Path(__file__).resolve().parents[3] / "web" / "src" / "console" / "texts"
SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries())
    if (!entry.hadRecentInput && entry.value > 0.0001)
      window.shifts.push(...entry.sources.map(source => source.node?.outerHTML?.slice(0, 200)));
}).observe({type: "layout-shift", buffered: true});
"""
UNREADABLE = {
    "an id that is not shortened": re.compile(r"\b[0-9a-f]{32}\b"),
    "a time as a program writes it": re.compile(
        r"\d{1,2}/\d{1,2}/\d{4}, \d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d"
    ),
    "a value that is missing": re.compile(r"\b(?:undefined|NaN|\[object Object\])\b"),
    "a text that the catalogue lacks": re.compile(
        r"\b(?:{})\.[a-z_]+\b".format(
            "|".join(
                group
                for file in sorted(TEXTS.glob("*.json"))
                for group in json.loads(file.read_text("utf-8"))
            )
        )
    ),
}
MISSING = ("messages/999999", "listener/nobody", "mappings/nothing-such")
"""Addresses of what does not exist: the request for it fails, and the page says so."""


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with opened(tmp_path_factory.mktemp("screens")) as hospital:
        yield hospital


@pytest.fixture(scope="module")
def listed(hospital: Hospital) -> Mapping[str, Sequence[str]]:
    return addresses(hospital, hospital.prepare_change())


def test_every_page_has_an_address(listed: Mapping[str, Sequence[str]]) -> None:
    assert sorted(listed) == sorted(page_names())


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)], ids=["wide", "phone"])
def test_every_page(
    hospital: Hospital,
    listed: Mapping[str, Sequence[str]],
    chromium: Browser,
    size: tuple[int, int],
) -> None:
    findings: list[str] = []
    with window(chromium, reduced_motion="reduce") as page:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.add_init_script(SHIFTS)
        watch_requests(page)
        failures = watch(page)
        enter(page, hospital, ANALYST, "jobs")
        for path in (path for paths in listed.values() for path in paths):
            page.goto(f"{hospital.house.url}/console/{path}")
            settle(page)
            findings += [f"{path}: {found}" for found in examine(page)]
            is_missing = path.endswith(MISSING)
            findings += [f"{path}: {failure}" for failure in failures if not is_missing]
            failures.clear()
    assert not findings, "\n".join(findings)


def watch(page: Page) -> list[str]:
    """Return a list that the failed requests and the errors of the scripts go into."""
    failures: list[str] = []

    def hear(line: ConsoleMessage) -> None:
        if line.type == "error":
            failures.append(line.text)

    def answered(response: Response) -> None:
        if response.status >= 400:
            failures.append(f"{response.status} {response.url}")

    page.on("console", hear)
    page.on("response", answered)
    return failures


def examine(page: Page) -> Iterator[str]:
    """Return what is wrong with the page."""
    for node in page.evaluate("window.shifts"):
        yield f"moves: {node}"
    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
        yield "is wider than the window"
    text = page.locator("body").inner_text()
    for what, pattern in UNREADABLE.items():
        if found := pattern.search(text):
            yield f"{what}: {found[0]}"
    yield from violations_in_themes(page, "light", "dark")
