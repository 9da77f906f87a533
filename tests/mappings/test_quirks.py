"""The list of quirks is one file: its samples are tests, and the page shows it."""

import csv
from pathlib import Path

import pytest

from tests.mappings.test_samples import files

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_messages"
DOCUMENT = (ROOT / "docs" / "reference" / "hl7-conformance.md").read_text("utf-8")
PAGE = DOCUMENT.partition("\n## Quirks of senders\n")[2].partition("\n## ")[0]
with (SAMPLES / "quirks.csv").open(encoding="utf-8", newline="") as source:
    ROWS = list(csv.DictReader(source))
FOLDERS = ("orders", "quirks", "invalid", "acks")
TESTED = {path.values[0] for path in files(*FOLDERS, ending=".hl7")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["quirk"][:40])
def test_each_quirk_has_a_test(row: dict[str, str]) -> None:
    """Each row has a sample of `test_samples` or a test, and a row of the page."""
    proofs = row["proof"].split()
    assert proofs
    for proof in proofs:
        held = (ROOT / proof).is_file() if proof.startswith("tests/") else SAMPLES / proof in TESTED
        assert held, proof
    shown = ", ".join(f"`{proof}`" for proof in proofs)
    assert f"| {row['quirk']} | {row['handled']} | {shown} |\n" in PAGE.replace("\\|", "|")


def test_no_sample_is_forgotten() -> None:
    named = {SAMPLES / proof for row in ROWS for proof in row["proof"].split()}
    assert {path.values[0] for path in files("quirks", ending=".hl7")} <= named


def test_the_page_shows_nothing_else() -> None:
    """Each row of the page is in the file."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(lines) == len(ROWS) + 1
