"""axe-core finds accessibility violations on a page."""

import time
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SETTLES_WITHIN = 20.0  # seconds in which a page loads its data and draws it


def violations(page: Page) -> list[str]:
    """Return axe's violations: rule and element. Repeat while the page may still load."""
    page.evaluate(AXE.read_text("utf-8"))
    until = time.monotonic() + SETTLES_WITHIN
    while (found := _run(page)) and time.monotonic() < until:
        page.wait_for_timeout(200)
    return found


def _run(page: Page) -> list[str]:
    found = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
