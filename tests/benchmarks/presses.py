"""
How soon a press shows in the console: from the press to the first changed frame, in Chromium.

The answers of the server are held back, so that a control that waits for one is found. The controls
are those of `tests.browser.console.presses`; the longest of all presses of a control counts.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.tables import Options, show
from tests.browser.checked_pages import window
from tests.browser.console.hospital import ANALYST, Hospital, opened
from tests.browser.console.presses import PRESSES, Press, answers_held
from tests.browser.console_client import enter
from tests.programs import CHROMIUM

LIMIT_MS: Final = 50

# The frame after the first change is presented when a task runs behind its animation callback.
_WATCH: Final = """() => {
  window.shown = new Promise(resolve => {
    let began = null;
    const press = event => { began ??= event.timeStamp; };
    for (const name of ["pointerdown", "keydown"])
      addEventListener(name, press, {capture: true, once: true});
    new MutationObserver((_, observer) => {
      if (began === null) return;
      observer.disconnect();
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => resolve(performance.now() - began);
        channel.port2.postMessage(null);
      });
    }).observe(document, {
      subtree: true, childList: true, attributes: true, characterData: true,
    });
  });
}"""


def main(folder: Path, options: Options) -> None:
    """Press each kind of control in a fresh profile, once a round."""
    with opened(folder) as hospital, _chromium() as chromium:
        rows = []
        for name, press in PRESSES.items():
            taken = [_taken(chromium, hospital, press) for _ in range(options.rounds)]
            longest = max(taken)
            verdict = "" if longest <= LIMIT_MS else "too late"
            rows.append((name, f"{statistics.median(taken):.0f}", f"{longest:.0f}", verdict))
    title = f"presses, {options.rounds} rounds, no answer of the server; limit {LIMIT_MS} ms"
    show(title, ("control", "median ms", "longest ms", ""), rows)


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM.path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _taken(chromium: Browser, hospital: Hospital, press: Press) -> float:
    """Return the milliseconds until a press was shown."""
    with window(chromium) as page:
        enter(page, hospital, ANALYST, press.path)
        press.ready(page)
        with answers_held(page):
            return _measured(page, press)


def _measured(page: Page, press: Press) -> float:
    if not press.key:
        press.target(page).hover()  # as a user does before a click
    page.evaluate("() => new Promise(requestIdleCallback)")
    page.evaluate(_WATCH)
    press.make(page)
    press.shows(page)
    return float(page.evaluate("window.shown"))
