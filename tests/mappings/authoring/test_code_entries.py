"""Entries of code tables: one line changes, the others stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.authoring.code_entries import entry_edit
from mappings.authoring.text_edits import EditRefused, apply_edits
from mappings.language.code_tables import read_table
from mappings.language.diagnostics import Diagnostics


def changed(text: str, code: str, value: str | None) -> str:
    return apply_edits(text, entry_edit(text, code, value))


@pytest.mark.parametrize(
    ("before", "code", "value", "after"),
    [
        ("code,value\nCT,CT\n", "24", "CT", "code,value\nCT,CT\n24,CT\n"),
        ("code,value\nCT,CT", "24", "CT", "code,value\nCT,CT\n24,CT\n"),
        ("code,value\r\nct,CT\r\nMR,MR\r\n", "CT", "XA", "code,value\r\nct,XA\r\nMR,MR\r\n"),
        ("value,note,code\nCT,scan,24\n", "24", "MR", "value,note,code\nMR,scan,24\n"),
        ("value,note,code\nCT,scan,24\n", "9", "MR", "value,note,code\nCT,scan,24\nMR,,9\n"),
        ("code,value\n24\n", "24", "MR", "code,value\n24,MR\n"),
        (
            'code,value\n"a ""x"", b",1\nc,2\n',
            "c",
            "2, 3",
            'code,value\n"a ""x"", b",1\nc,"2, 3"\n',
        ),
        ('code,value\na,"two\nlines"\nc,2\n', "a", "1", "code,value\na,1\nc,2\n"),
        ("code,value\nCT,CT\nMR,MR\n", "ct", None, "code,value\nMR,MR\n"),
        ("code,value\nCT,CT", "CT", None, "code,value\n"),
        ("", "CT", "CT", "code,value\nCT,CT\n"),
        ("code,value\n", "CT", "", "code,value\nCT,\n"),
    ],
)
def test_an_entry(before: str, code: str, value: str | None, after: str) -> None:
    assert changed(before, code, value) == after


@pytest.mark.parametrize(
    ("text", "code", "value", "why"),
    [
        ("a,b\n1,2\n", "CT", "CT", "does not begin"),
        ("code,value\n", "CT", None, "no entry"),
        ("code,value\n", "C\nT", "x", "one line"),
        ('code,value\n"x', "CT", "x", "not CSV"),
    ],
)
def test_an_entry_that_is_refused(text: str, code: str, value: str | None, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        changed(text, code, value)


CELLS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), max_size=6).map(
    str.strip
)


@given(
    rows=st.dictionaries(CELLS.filter(bool).map(str.upper), CELLS, max_size=5),
    code=CELLS.filter(bool),
    value=CELLS,
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_only_the_entry_changes(rows: dict[str, str], code: str, value: str, line_end: str) -> None:
    """The table has the new entry, and all others as before."""
    text = f"code,value{line_end}"
    for one, other in rows.items():
        text = changed(text, one, other)
    found = changed(text, code, value)
    table = read_table({"codes/t.csv": found}, "t", Diagnostics())
    assert table.forward == {**rows, code.upper(): value}
    lines = [line for line in text.splitlines(True) if line in set(found.splitlines(True))]
    assert len(text.splitlines()) - len(lines) <= 1
    assert changed(found, code, None).count(line_end) == found.count(line_end) - 1
