"""axe-core finds accessibility violations on a page."""

import time
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SETTLES_WITHIN = 20.0  # seconds in which a page loads its data and draws it


def violations(page: Page) -> list[str]:
    """Return axe's violations: rule and element. Repeat while the page may still load."""
    _load(page)
    until = time.monotonic() + SETTLES_WITHIN
    while (found := _run(page, RULES)) and time.monotonic() < until:
        page.wait_for_timeout(200)
    return found


def violations_in_themes(page: Page, *themes: str) -> list[str]:
    """Return the violations of a page that has its data: in the first theme all, then by colour."""
    _load(page)
    found = []
    for number, theme in enumerate(themes):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        rules = ["color-contrast", "link-in-text-block"] if number else RULES
        found += [f"{theme}: {violation}" for violation in _run(page, rules)]
    return found


def _load(page: Page) -> None:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))


def _run(page: Page, rules: list[str]) -> list[str]:
    found = page.evaluate("rules => axe.run({runOnly: rules, resultTypes: ['violations']})", rules)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
