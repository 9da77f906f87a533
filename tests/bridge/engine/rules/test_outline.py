"""Templates written by hand as text: headings, lists, fields, and the same text back."""

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


def test_headings_lists_and_fields_are_seen() -> None:
    """Each by its look, list items of a kind together."""
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


def test_the_same_text_comes_back() -> None:
    """What was written by hand can be edited by hand again."""
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
def test_nothing_is_the_empty_document(text: str) -> None:
    """Blank text has no paragraphs."""
    assert from_outline(text) == Document()


@given(st.text(alphabet="ab:[]-1. \n*", max_size=60))
@example(" :")
def test_any_text_is_a_document_that_can_be_stored(text: str) -> None:
    """Whatever is typed can be read back from JSON, and settles after one round."""
    document = from_outline(text)
    assert parse(to_json(document)) == document
    assert from_outline(outline(document)) == document


def test_a_long_list() -> None:
    """Lines of a kind are one list, however many; it is made in one step."""
    document = from_outline("- a\n" * 150_000 + "1. b\n2. c\n- d")
    assert [len(each.items) for each in document.content if isinstance(each, ListBlock)] == [
        *(150_000, 2, 1)
    ]
