"""The content model: text and JSON forth and back, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.engine.rules.document import (
    BadDocument,
    Document,
    Field,
    ListBlock,
    Mark,
    Paragraph,
    Section,
    Text,
    from_text,
    parse,
    plain_text,
    to_json,
)

LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r\n"), max_size=20)
INLINE = st.one_of(
    st.builds(
        Text, LINE, st.sets(st.sampled_from(Mark)).map(lambda s: tuple(m for m in Mark if m in s))
    ),
    st.builds(Field, LINE, LINE),
)
INLINES = st.lists(INLINE, max_size=4).map(tuple)
DOCUMENT = st.builds(
    Document,
    st.lists(
        st.one_of(
            st.builds(Section, LINE),
            st.builds(Paragraph, INLINES),
            st.builds(ListBlock, st.lists(INLINES, max_size=4).map(tuple), st.booleans()),
        ),
        max_size=5,
    ).map(tuple),
)


@given(DOCUMENT)
def test_json_forth_and_back(document: Document) -> None:
    """A document read from its own JSON is the same document."""
    assert parse(to_json(document)) == document


@given(st.lists(LINE, max_size=6).map("\n".join))
def test_text_forth_and_back(text: str) -> None:
    """Text made a document gives the same text, through JSON too."""
    assert plain_text(parse(to_json(from_text(text)))) == text


def test_plain_text() -> None:
    """Blocks stand on lines of their own; open fields show their label, filled ones their value."""
    document = Document(
        (
            Section("FINDINGS"),
            Paragraph((Text("Liver "), Field("size", "15 cm"), Field("side"))),
            ListBlock(((Text("one"),), (Text("two"),)), ordered=True),
            ListBlock(((Text("dot"),),)),
        )
    )

    assert plain_text(document) == "FINDINGS\nLiver 15 cm[side]\n1. one\n2. two\n- dot"


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
        (
            {"type": "doc", "content": [{"type": "section", "title": "a\x00"}]},
            "/content/0/title",
        ),
        (
            {"type": "doc", "content": [{"type": "section", "title": "\ud800"}]},
            "/content/0/title",
        ),
        ({"type": "doc", "content": [{"type": "list", "items": [1]}]}, "/content/0/items/0"),
    ],
)
def test_refusals_name_the_place(value: Any, place: str) -> None:
    """What is no document is refused with the place of the first mistake, not its text."""
    with pytest.raises(BadDocument) as refused:
        parse(value)

    assert str(refused.value).startswith(f"{place}: ")


def test_too_many_nodes() -> None:
    """Size is bounded."""
    many = {"type": "doc", "content": [{"type": "paragraph"}] * 50_001}

    with pytest.raises(BadDocument, match="more than 50000 nodes"):
        parse(many)
