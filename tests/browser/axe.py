"""axe-core on a page: what hinders people who use a keyboard or a screen reader."""

import time
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SETTLES_WITHIN = 20.0  # seconds in which a page loads its data and draws it


def complaints(page: Page) -> list[str]:
    """Return what axe finds on a page: the rule and the place. A page that loads is asked again."""
    page.evaluate(AXE.read_text("utf-8"))
    until = time.monotonic() + SETTLES_WITHIN
    while (found := _ask(page)) and time.monotonic() < until:
        page.wait_for_timeout(200)
    return found


def _ask(page: Page) -> list[str]:
    found = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
