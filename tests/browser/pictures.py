"""
Pictures of the console for README and guides: `python -m tests.browser.pictures FOLDER`.

The hospital of the tests with a week of statistics. `--keep` leaves the service running and prints
its address.
"""

import argparse
import io
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.checked_pages import window
from tests.browser.console.addresses import addresses, settle, watch_requests
from tests.browser.console.hospital import ANALYST, Hospital, add_week, opened
from tests.browser.console_client import enter
from tests.browser.signing_in import PASSWORD
from tests.programs import CHROMIUM

SIZES = {"wide": (1440, 900), "phone": (390, 844)}


def numbered(listed: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Return a name and the path of each picture: the page, and a number for its further states."""
    for name, paths in listed.items():
        for number, path in enumerate(paths, 1):
            yield (name if number == 1 else f"{name}-{number}"), path


def take(
    browser: Browser, hospital: Hospital, folder: Path, listed: Mapping[str, Sequence[str]]
) -> None:
    """Write a picture of each page, at both sizes, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    for size, (width, height) in SIZES.items():
        with window(browser, reduced_motion="reduce") as page:
            page.set_viewport_size({"width": width, "height": height})
            watch_requests(page)
            enter(page, hospital, ANALYST, "jobs")
            for name, path in numbered(listed):
                page.goto(f"{hospital.house.url}/console/{path}")
                settle(page)
                if page.locator("nav.navigation").count():  # a drawer on a phone
                    page.locator("nav .badge.red").first.wait_for(state="attached")
                for theme in ("light", "dark"):
                    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
                    _write(page, folder / f"{name}-{size}-{theme}.png")


def _write(page: Page, file: Path) -> None:
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        shot.convert("RGB").save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the service running")
    parser.add_argument("--pages", nargs="*", help="names of pages in routes.ts; none: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with opened(options.folder) as hospital, sync_playwright() as driver:
        listed = addresses(hospital, hospital.prepare_change())
        wanted = options.pages or list(listed)
        add_week(hospital.house)
        browser = driver.chromium.launch(executable_path=CHROMIUM.path, args=["--no-sandbox"])
        chosen = {name: listed[name] for name in wanted}
        take(browser, hospital, options.folder / "pictures", chosen)
        if options.keep:
            sys.stdout.write(f"{hospital.house.url}/console  {ANALYST}  {PASSWORD}\n")
            sys.stdout.flush()
            signal.pause()


if __name__ == "__main__":
    main()
