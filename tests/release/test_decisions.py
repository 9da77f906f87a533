"""The records in docs/adr have the required form, and the index lists each of them."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
PARTS = ("Status:", "Context.", "Decision.", "Consequences.")
LONGEST = 400
"""Words of a record: half a page to a page."""


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_title_status_context_decision_and_consequences(path: Path) -> None:
    """A record has these parts in this order, and is short."""
    text = path.read_text("utf-8")
    places = [text.find(f"\n**{part}**") for part in PARTS]
    assert text.startswith("# ")
    assert -1 not in places
    assert places == sorted(places)
    assert len(text.split()) <= LONGEST


def test_the_index_names_each_record_once_by_number_and_title() -> None:
    listed = re.findall(
        r"^\* \[(\d{4})\]\(([^)]+)\) (.+)$", (FOLDER / "index.md").read_text(), re.MULTILINE
    )
    titles = [path.read_text("utf-8").splitlines()[0].removeprefix("# ") for path in RECORDS]
    assert [name for _, name, _ in listed] == [path.name for path in RECORDS]
    assert [number for number, _, _ in listed] == [path.name[:4] for path in RECORDS]
    assert [title for _, _, title in listed] == titles


def test_a_number_belongs_to_one_record() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(numbers) == len(set(numbers))
