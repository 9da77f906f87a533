"""The generated reference pages are what the models, the commands and the routes say."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.release.reference_pages import commands, routes, settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
WRITE = "REPORT_BRIDGE_WRITE_SNAPSHOTS"
FIRST, LAST = "<!-- routes: generated -->\n", "<!-- end -->\n"


@pytest.mark.parametrize(("name", "generate"), [("settings.md", settings), ("cli.md", commands)])
def test_the_page_is_generated(name: str, generate: Callable[[], str]) -> None:
    """`docs/reference/settings.md` and `cli.md` are up to date; else write them anew."""
    page = REFERENCE / name
    if os.environ.get(WRITE):
        page.write_text(generate(), "utf-8")
    assert page.read_text("utf-8") == generate(), f"stale: run this test with {WRITE}=1"


def test_the_table_of_routes_is_generated() -> None:
    """`docs/reference/http-api.md` lists every route for integrators."""
    page = REFERENCE / "http-api.md"
    before, _, rest = page.read_text("utf-8").partition(FIRST)
    _, _, after = rest.partition(LAST)
    assert before
    assert after
    text = f"{before}{FIRST}{routes()}{LAST}{after}"
    if os.environ.get(WRITE):
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text, f"stale: run this test with {WRITE}=1"
