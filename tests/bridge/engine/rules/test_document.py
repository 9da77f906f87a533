"""The document model: conversion from and to text and JSON, and limits."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.engine.rules.text.document import (
    BadDocument,
    BracketField,
    Document,
    Heading,
    ListBlock,
    Mark,
    Paragraph,
    Table,
    TableCell,
    Text,
    from_text,
    parse,
    to_json,
)
from bridge.engine.rules.text.plain_text import from_outline, outline, plain_text

CASES = json.loads(
    (Path(__file__).parents[4] / "web" / "snapshots" / "plain_text.json").read_text("utf-8")
)
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r\n"), max_size=20)
INLINE = st.one_of(
    st.builds(
        Text, LINE, st.sets(st.sampled_from(Mark)).map(lambda s: tuple(m for m in Mark if m in s))
    ),
    st.builds(BracketField, LINE, LINE),
)
INLINES = st.lists(INLINE, max_size=4).map(tuple)
LISTS = st.recursive(
    st.builds(ListBlock, st.lists(INLINES, max_size=4).map(tuple), st.booleans()),
    lambda lists: st.builds(
        ListBlock,
        st.lists(
            st.tuples(INLINES, st.lists(lists, max_size=2)).map(lambda row: (*row[0], *row[1])),
            max_size=3,
        ).map(tuple),
        st.booleans(),
    ),
    max_leaves=4,
)
CELLS = st.builds(
    TableCell,
    st.lists(st.one_of(st.builds(Paragraph, INLINES), LISTS), max_size=2).map(tuple),
    st.booleans(),
)
TABLES = st.builds(Table, st.lists(st.lists(CELLS, max_size=3).map(tuple), max_size=3).map(tuple))
DOCUMENT = st.builds(
    Document,
    st.lists(
        st.one_of(st.builds(Heading, LINE), st.builds(Paragraph, INLINES), LISTS, TABLES),
        max_size=5,
    ).map(tuple),
)


@given(DOCUMENT)
def test_json_round_trip(document: Document) -> None:
    assert parse(to_json(document)) == document


@given(st.lists(LINE, max_size=6).map("\n".join))
def test_text_round_trip(text: str) -> None:
    """Text converted to a document, to JSON and back is unchanged."""
    assert plain_text(parse(to_json(from_text(text)))) == text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_plain_text(case: Any) -> None:
    """The plain text of the service is that of the page, which passes the same cases."""
    assert plain_text(parse(case["document"])) == case["text"]


def test_the_order_and_depth_of_nested_lists() -> None:
    """The text of an item precedes its sublists. At most nine lists are nested."""
    item: list[Any] = [{"type": "list", "items": []}, {"type": "text", "text": "late"}]
    with pytest.raises(BadDocument, match="/content/0/items/0/1: expected a list"):
        parse({"type": "doc", "content": [{"type": "list", "items": [item]}]})

    nested: dict[str, Any] = {"type": "list", "items": [[]]}
    for _ in range(9):
        nested = {"type": "list", "items": [[nested]]}
    with pytest.raises(BadDocument, match="more than 9 nested lists"):
        parse({"type": "doc", "content": [nested]})


def test_tables_are_bounded() -> None:
    """The limit includes the cells that fill up short rows."""
    row = {"type": "tableRow", "content": [{"type": "tableCell"}] * 63}
    table = {"type": "table", "content": [row, *[{"type": "tableRow"}] * 1000]}
    with pytest.raises(BadDocument, match="more than 50000 cells"):
        parse({"type": "doc", "content": [table]})


def test_the_cells_of_all_tables_are_bounded() -> None:
    """A PDF of each of many such tables takes a second and 300 MiB."""
    row = {"type": "tableRow", "content": [{"type": "tableCell"}] * 63}
    table = {"type": "table", "content": [row, *[{"type": "tableRow"}] * 500]}
    parse({"type": "doc", "content": [table]})
    with pytest.raises(BadDocument, match="/content/1: more than 50000 cells"):
        parse({"type": "doc", "content": [table] * 2})


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (None, "/"),
        ([], "/"),
        ({"type": "document"}, "/type"),
        ({"type": "doc", "content": {}}, "/content"),
        ({"type": "doc", "content": [{"type": "script"}]}, "/content/0/type"),
        ({"type": "doc", "content": [{"type": "section", "title": 1}]}, "/content/0/title"),
        (
            {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text"}]}]},
            "/content/0/content/0/text",
        ),
        (
            {
                "type": "doc",
                "content": [
                    {"type": "paragraph", "content": [{"type": "text", "text": "", "marks": ["x"]}]}
                ],
            },
            "/content/0/content/0/marks",
        ),
        ({"type": "doc", "content": [{"type": "section", "title": "a\x00"}]}, "/content/0/title"),
        ({"type": "doc", "content": [{"type": "section", "title": "\ud800"}]}, "/content/0/title"),
        ({"type": "doc", "content": [{"type": "list", "items": [1]}]}, "/content/0/items/0"),
        ({"type": "doc", "content": [{"type": "table"}]}, "/content/0/content"),
        (
            {"type": "doc", "content": [{"type": "table", "content": [{"type": "tableCell"}]}]},
            "/content/0/content/0/type",
        ),
        (
            {
                "type": "doc",
                "content": [
                    {
                        "type": "table",
                        "content": [
                            {
                                "type": "tableRow",
                                "content": [
                                    {
                                        "type": "tableHeader",
                                        "content": [{"type": "table", "content": []}],
                                    }
                                ],
                            }
                        ],
                    }
                ],
            },
            "/content/0/content/0/content/0/content/0/type",
        ),
    ],
)
def test_refusals_name_the_place(value: Any, place: str) -> None:
    """An invalid document is refused with the place of the first mistake, without its text."""
    with pytest.raises(BadDocument) as refused:
        parse(value)

    assert str(refused.value).startswith(f"{place}: ")


def test_too_many_nodes() -> None:
    many = {"type": "doc", "content": [{"type": "paragraph"}] * 50_001}

    with pytest.raises(BadDocument, match="more than 50000 nodes"):
        parse(many)


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
    assert [len(block.items) for block in document.content if isinstance(block, ListBlock)] == [
        *(150_000, 2, 1)
    ]
