"""Templates written as text: headings, lists and fields, and the conversion back to text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.engine.rules.text.document import (
    BracketField,
    Document,
    Heading,
    ListBlock,
    Paragraph,
    Text,
    parse,
    to_json,
)
from bridge.engine.rules.text.plain_text import from_outline, outline

CHEST = """Technique:
CT of the chest, [contrast].

Findings:
- Lungs: [lungs]
- Heart normal.
1. First
2. Second
Impression:
[impression]"""


def test_headings_lists_and_fields_are_recognized() -> None:
    """Consecutive list items of one kind form one list."""
    assert from_outline(CHEST).content == (
        Heading("Technique"),
        Paragraph((Text("CT of the chest, "), BracketField("contrast"), Text("."))),
        Paragraph(),
        Heading("Findings"),
        ListBlock(((Text("Lungs: "), BracketField("lungs")), (Text("Heart normal."),))),
        ListBlock(((Text("First"),), (Text("Second"),)), ordered=True),
        Heading("Impression"),
        Paragraph((BracketField("impression"),)),
    )


def test_the_outline_of_a_document_is_the_written_text() -> None:
    """A template can be edited as text again."""
    assert outline(from_outline(CHEST)) == CHEST


def test_indented_items_are_sublists() -> None:
    """Two spaces are one level; an indented line without a list above it is a paragraph."""
    text = "  - alone\n- Lungs\n  - right\n    1. apex\n    2. base\n  - left\n- Heart"
    apex = ListBlock(((Text("apex"),), (Text("base"),)), ordered=True)
    sides = ListBlock(((Text("right"), apex), (Text("left"),)))

    document = from_outline(text)

    assert document.content == (
        Paragraph((Text("  - alone"),)),
        ListBlock(((Text("Lungs"), sides), (Text("Heart"),))),
    )
    assert outline(document) == text


@pytest.mark.parametrize("text", ["", "  \n "])
def test_blank_text_is_the_empty_document(text: str) -> None:
    assert from_outline(text) == Document()


@given(st.text(alphabet="ab:[]-1. \n*", max_size=60))
@example(" :")
def test_any_text_is_a_document_that_can_be_stored(text: str) -> None:
    """It can be read back from JSON, and a second conversion changes nothing."""
    document = from_outline(text)
    assert parse(to_json(document)) == document
    assert from_outline(outline(document)) == document


def test_a_long_list() -> None:
    """Consecutive lines of one kind are one list of any length."""
    document = from_outline("- a\n" * 150_000 + "1. b\n2. c\n- d")
    assert [len(each.items) for each in document.content if isinstance(each, ListBlock)] == [
        *(150_000, 2, 1)
    ]
