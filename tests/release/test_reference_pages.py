"""The generated parts of the reference pages match models, commands and routes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.release.reference_pages import commands, routes, settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
WRITE = "REPORT_BRIDGE_WRITE_SNAPSHOTS"
FIRST, LAST = "<!-- generated -->\n", "<!-- end -->\n"


@pytest.mark.parametrize(
    ("name", "generate"),
    [("settings.md", settings), ("cli.md", commands), ("http-api.md", routes)],
)
def test_the_page_is_up_to_date(name: str, generate: Callable[[], str]) -> None:
    """`settings.md`, `cli.md` and the routes of `http-api.md` are up to date."""
    page = REFERENCE / name
    before, first, rest = page.read_text("utf-8").partition(FIRST)
    _, last, after = rest.partition(LAST)
    assert first
    assert last
    text = f"{before}{FIRST}{generate()}{LAST}{after}"
    if os.environ.get(WRITE):
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text, f"stale: run this test with {WRITE}=1"


def test_every_setting_has_a_meaning() -> None:
    """No setting lacks a description."""
    assert [line for line in settings().splitlines() if line.endswith("|  |")] == []
