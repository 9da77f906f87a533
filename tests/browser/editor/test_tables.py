"""Tables of a report in Chromium: toolbar, menu, keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.editor.report_page import opened, phase
from tests.browser.engine_server import EngineServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def cells(page: Page) -> list[list[str]]:
    """Return the text of each cell, row by row."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#text table tr')].map(row =>"
        " [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return found


def change(page: Page, name: str) -> None:
    """Choose a change of the table from its menu."""
    page.click("#table-menu > summary")
    page.click(f"#table-menu [data-change={name}]")


def test_a_table_is_inserted_and_changed(engine: EngineServer, page: Page, tmp_path: Path) -> None:
    """The user inserts, fills and changes a table by menu and keyboard; the page saves it."""
    opened(page, engine.launch())
    page.click("#text")
    page.click("#table-menu > summary")
    for name in ("row_below", "table_delete"):
        expect(page.locator(f"[data-change={name}]")).to_be_disabled()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+End")
    page.click("#table-insert")
    for word in ("Lesion", "Size", "Site", "1", "12 mm", "RUL", "2", "8 mm", "LLL", "3"):
        page.keyboard.type(word)
        page.keyboard.press("Tab")
    filled = [["Lesion", "Size", "Site"], ["1", "12 mm", "RUL"], ["2", "8 mm", "LLL"]]
    assert cells(page) == [*filled, ["3", "", ""]]
    change(page, "row_delete")
    assert cells(page) == filled
    page.click("#text table tr:nth-child(2) > :nth-child(3)")
    change(page, "column_after")
    assert [len(row) for row in cells(page)] == [4, 4, 4]
    page.click("#table-menu > summary")
    page.screenshot(path=str(tmp_path / "table.png"))
    page.keyboard.press("Escape")
    expect(page.locator("#table-menu")).not_to_have_attribute("open", "")
    page.focus("#table-menu > summary")
    page.keyboard.press("Enter")
    expect(page.locator("[data-change=column_delete]")).to_be_enabled()
    page.focus("#table-menu [data-change=column_delete]")
    page.keyboard.press("Enter")
    expect(page.locator("#table-menu")).not_to_have_attribute("open", "")
    assert cells(page) == [[*row[:2], ""] for row in filled]
    page.keyboard.type("new")  # the caret is in the text again
    phase(page, "saved")
    saved = cells(page)
    assert saved[1] == ["1", "12 mm", "new"]
    page.reload()
    page.wait_for_selector("#sign:visible")
    assert cells(page) == saved
