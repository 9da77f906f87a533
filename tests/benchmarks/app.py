"""
`python -m tests.benchmarks.app`: the latency of opening and typing in the app, in Chromium.

It prints medians of 20 fresh profiles in a frame of another site, beside the limits of the app.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.table import Table

from tests.browser.embedding.conftest import viewing
from tests.browser.embedding.origins import Reports, Viewer, hosting, origin_of, reports
from tests.programs import CHROMIUM

ROUNDS = 20
WORDS = 20_000
KEYS = 100
BOUNDS = {
    "cold launch to report_ready, ms": 1500.0,
    "pre-warmed launch to report_ready, ms": 300.0,
    "initial script, kB compressed": 250.0,
    f"a key in a report of {WORDS} words, ms": 16.0,
}
OPEN = """link => new Promise(done => {
    const began = performance.now();
    addEventListener('message', function hear(event) {
        if (event.data?.type !== 'report_ready') return;
        removeEventListener('message', hear);
        done(performance.now() - began);
    });
    document.querySelector('#stage iframe').src = link;
})"""
SCRIPTS = """() => performance.getEntriesByType('resource')
    .filter(each => each.name.endsWith('.js'))
    .reduce((sum, each) => sum + each.encodedBodySize, 0) / 1000"""
LISTEN = """() => {
    window.took = [];
    let began = 0;
    addEventListener('keydown', event => { began = event.timeStamp; }, true);
    addEventListener('input', () => setTimeout(() => {
        document.body.offsetHeight;
        window.took.push(performance.now() - began);
    }));
}"""


def link(engine: Reports, accession: str, **tags: str) -> str:
    launched = engine.launch(clinicalInfo={**engine.identity(accession), **tags})
    return str(launched["reportLink"])


def opening(at: Viewer, accession: str) -> float:
    """Open a report in the frame; return the milliseconds until report_ready."""
    took: float = at.page.evaluate(OPEN, link(at.reports, accession))
    return took


def script_size(at: Viewer) -> float:
    """Return the transferred size of the frame's scripts in kB."""
    size: float = at.page.frames[-1].evaluate(SCRIPTS)
    return size


def typing(at: Viewer) -> list[float]:
    """Type in the middle of a long report; return the duration of each key, including layout."""
    lines = [" ".join(["lung"] * 20)] * (WORDS // 20)
    at.page.evaluate(OPEN, link(at.reports, "LONG", KeyFindings="\n".join(lines)[:100_000]))
    at.page.frames[-1].evaluate(LISTEN)
    at.frame.locator("#text p").nth(WORDS // 40).click()
    for key in "nodule of the left lobe, " * (KEYS // 25):
        at.page.keyboard.press("Space" if key == " " else key)
    at.page.wait_for_timeout(200)
    took: list[float] = at.page.frames[-1].evaluate("took")
    return took


def measure(browser: Browser, engine: Reports, host: str) -> dict[str, list[float]]:
    cold, warm, size, keys = (list[float]() for _ in BOUNDS)
    for turn in range(ROUNDS):
        with viewing(browser, engine, host) as at:
            cold.append(opening(at, f"COLD-{turn}"))
            size.append(script_size(at))
        with viewing(browser, engine, host) as at:
            at.page.click("#prewarm")
            at.frame.locator("main h1").wait_for()
            at.page.wait_for_timeout(500)
            warm.append(opening(at, f"WARM-{turn}"))
    with viewing(browser, engine, host) as at:
        keys += typing(at)
    return dict(zip(BOUNDS, (cold, warm, size, keys), strict=True))


def table(found: dict[str, list[float]]) -> Table:
    shown = Table("", "median", "worst", "bound")
    for name, values in found.items():
        middle, worst = statistics.median(values), max(values)
        shown.add_row(name, f"{middle:.1f}", f"{worst:.1f}", f"{BOUNDS[name]:.0f}")
    return shown


def main() -> int:
    """Measure, print, and return 1 if a median exceeds its limit."""
    with (
        tempfile.TemporaryDirectory() as folder,
        hosting() as host,
        reports(Path(folder), [origin_of(host)]) as engine,
        sync_playwright() as driver,
    ):
        host.app = engine.url
        options: dict[str, Any] = {"executable_path": CHROMIUM.path, "args": ["--no-sandbox"]}
        browser = driver.chromium.launch(**options)
        found = measure(browser, engine, origin_of(host))
        browser.close()
    Console().print(table(found))
    late = [name for name, values in found.items() if statistics.median(values) > BOUNDS[name]]
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
