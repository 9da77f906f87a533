"""Billing codes: which phrases of a code map occur in a report, and the cost of the search."""

import pytest

from bridge.engine.rules.text.billing import CodeRow, CodeSystem, derive_codes
from tests.calls import counted


def phrase(match: str, code: str) -> CodeRow:
    """Return a row of a code map for a phrase of the report."""
    return CodeRow(CodeSystem.ICD10, match, code, "")


def codes(rows: list[CodeRow], content: str) -> list[str]:
    """Return the ICD-10 codes of a report."""
    return [
        each["Code"] for each in derive_codes(rows, [{"ReasonForExam": "Cough"}], content)["icd10"]
    ]


@pytest.mark.parametrize(
    ("match", "content", "found"),
    [
        ("lung mass", "A LUNG MASS of 8 mm.", True),
        ("cough", "Clear.", True),
        ("lung", "Lungs are clear.", False),
        ("mass", "A lung mass", True),
        ("lung mass", "lung  mass", True),
        ("lung mass", "lung mass-like", True),
        ("lung mass", "No lung mass.", False),
        ("(old) scar", "an (old) scar", True),
        ("(old) scar", "an x(old) scar", False),
        ("C++", "C++ and", True),
        ("C++", "C++x", False),
        ("straße", "STRASSE", True),
        ("\u80ba", "\u80ba\u708e", True),
    ],
)
def test_a_phrase_occurs_as_whole_words(match: str, content: str, *, found: bool) -> None:
    """Case and spaces are ignored; a negated phrase does not count; CJK text has no word breaks."""
    assert codes([phrase(match, "X1")], content) == ["X1"] * found


def test_the_cost_does_not_grow_with_rows_times_text() -> None:
    """2,000 phrases and a long report: the number of calls grows with their sum."""
    rows = [phrase(f"opacity {each}", f"R{each}") for each in range(2000)]
    content = "opacity of the lung. " * 2000 + "opacity 77"
    found, calls = counted(lambda: codes(rows, content))
    assert found == ["R77"]
    assert calls < 1_000_000
