"""
The structured document that a report's content is: sections, paragraphs, lists, emphasis, fields.

    {"type": "doc", "content": [{"type": "section", "title": …} | {"type": "paragraph", "content":
     [inline]} | {"type": "list", "ordered": bool, "items": [[inline]]}]}
    inline: {"type": "text", "text": …, "marks": […]} | {"type": "field", "label": …, "value": …}

Pure data and its JSON form; HTML, RTF and the rest are made by `bridge.engine.documents`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_NODES = 50_000
MAX_CHARACTERS = 4_000_000


class BadDocument(ValueError):  # noqa: N818  # named for what it is
    """JSON that is no document of ours; `place` is a JSON pointer, the text holds no content."""

    def __init__(self, place: str, what: str) -> None:
        self.place = place
        super().__init__(f"{place or '/'}: {what}")


class Mark(StrEnum):
    """Emphasis of a stretch of text; `suggested` is what no person has written or accepted yet."""

    BOLD = "bold"
    ITALIC = "italic"
    UNDERLINE = "underline"
    SUGGESTED = "suggested"


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of text without line ends."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A bracket field: `[label]` while it is open, its value once it is filled."""

    label: str
    value: str = ""


Inline = Text | Field


@dataclass(frozen=True, slots=True)
class Section:
    """A heading."""

    title: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One line or paragraph; without content it is an empty line."""

    content: tuple[Inline, ...] = ()


@dataclass(frozen=True, slots=True)
class ListBlock:
    """A bulleted or numbered list."""

    items: tuple[tuple[Inline, ...], ...]
    ordered: bool = False


Block = Section | Paragraph | ListBlock


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report text, or a whole addendum."""

    content: tuple[Block, ...] = field(default=())


def plain_text(document: Document) -> str:
    """Return the text alone: blocks on lines of their own, list items behind `- ` or `1. `."""
    return "\n".join(_block_text(block) for block in document.content)


def _block_text(block: Block) -> str:
    match block:
        case Section(title):
            return title
        case Paragraph(content):
            return inline_text(content)
        case ListBlock(items, ordered):
            marker = "{}. " if ordered else "- "
            return "\n".join(
                marker.format(number) + inline_text(item) for number, item in enumerate(items, 1)
            )


def inline_text(content: tuple[Inline, ...]) -> str:
    """Return the text of a stretch of inlines; an open field reads as its `[label]`."""
    return "".join(
        each.text if isinstance(each, Text) else each.value or f"[{each.label}]" for each in content
    )


def from_text(text: str) -> Document:
    r"""
    Make a document of plain text, a paragraph a line; `plain_text` gives the same text back.

    Line ends become `\n`; empty text is the empty document.
    """
    if not text:
        return Document()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Document(tuple(Paragraph((Text(line),) if line else ()) for line in lines))


def to_json(document: Document) -> dict[str, Any]:
    """Return the JSON form."""
    return {"type": "doc", "content": [_block_json(block) for block in document.content]}


def _block_json(block: Block) -> dict[str, Any]:
    match block:
        case Section(title):
            return {"type": "section", "title": title}
        case Paragraph(content):
            return {"type": "paragraph", "content": [_inline_json(each) for each in content]}
        case ListBlock(items, ordered):
            rows = [[_inline_json(each) for each in item] for item in items]
            return {"type": "list", "ordered": ordered, "items": rows}


def _inline_json(inline: Inline) -> dict[str, Any]:
    if isinstance(inline, Field):
        return {"type": "field", "label": inline.label, "value": inline.value}
    plain: dict[str, Any] = {"type": "text", "text": inline.text}
    return plain | ({"marks": [mark.value for mark in inline.marks]} if inline.marks else {})


def parse(value: Any) -> Document:
    """Read the JSON form; raise BadDocument with the place of the first thing that is wrong."""
    return _read(value, _Reader())


def restore(stored: Any) -> Document:
    """
    Read the JSON form of a document that we stored: no limit applies.

    A text without markup has its own limit, and may become more nodes than a client may send.
    """
    return _read(stored, _Reader(nodes=sys.maxsize, characters=sys.maxsize))


def _read(value: Any, reader: "_Reader") -> Document:
    top = _object(value, "")
    if top.get("type") != "doc":
        raise BadDocument("/type", "expected doc")
    blocks = _list(top.get("content", []), "/content")
    return Document(
        tuple(reader.block(each, f"/content/{index}") for index, each in enumerate(blocks))
    )


class _Reader:
    """Reads nodes, and counts them: the depth is fixed, so only the size needs a limit."""

    def __init__(self, nodes: int = MAX_NODES, characters: int = MAX_CHARACTERS) -> None:
        self._most_nodes, self._most_characters = nodes, characters
        self._nodes = 0
        self._characters = 0

    def block(self, value: Any, place: str) -> Block:
        self._count(place)
        node = _object(value, place)
        match node.get("type"):
            case "section":
                return Section(self._line(node.get("title"), f"{place}/title"))
            case "paragraph":
                return Paragraph(self._inlines(node.get("content", []), f"{place}/content"))
            case "list":
                return self._list_block(node, place)
        raise BadDocument(f"{place}/type", "expected section, paragraph or list")

    def _list_block(self, node: Mapping[str, Any], place: str) -> ListBlock:
        ordered = node.get("ordered", False)
        if not isinstance(ordered, bool):
            raise BadDocument(f"{place}/ordered", "expected true or false")
        items = _list(node.get("items"), f"{place}/items")
        return ListBlock(
            tuple(self._inlines(item, f"{place}/items/{n}") for n, item in enumerate(items)),
            ordered,
        )

    def _inlines(self, value: Any, place: str) -> tuple[Inline, ...]:
        return tuple(
            self._inline(each, f"{place}/{index}") for index, each in enumerate(_list(value, place))
        )

    def _inline(self, value: Any, place: str) -> Inline:
        self._count(place)
        node = _object(value, place)
        match node.get("type"):
            case "text":
                text = self._line(node.get("text"), f"{place}/text")
                return Text(text, _marks(node.get("marks", []), f"{place}/marks"))
            case "field":
                label = self._line(node.get("label"), f"{place}/label")
                return Field(label, self._line(node.get("value", ""), f"{place}/value"))
        raise BadDocument(f"{place}/type", "expected text or field")

    def _line(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise BadDocument(place, "expected a string")
        self._characters += len(value)
        if self._characters > self._most_characters:
            raise BadDocument(place, f"more than {MAX_CHARACTERS} characters")
        if "\x00" in value or any("\ud800" <= each <= "\udfff" for each in value):
            raise BadDocument(place, "holds a NUL character or an unpaired surrogate")
        return value.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")

    def _count(self, place: str) -> None:
        self._nodes += 1
        if self._nodes > self._most_nodes:
            raise BadDocument(place, f"more than {MAX_NODES} nodes")


def _marks(value: Any, place: str) -> tuple[Mark, ...]:
    known = {mark.value for mark in Mark}
    given = _list(value, place)
    if any(not isinstance(each, str) or each not in known for each in given):
        raise BadDocument(place, "expected bold, italic, underline or suggested")
    return tuple(mark for mark in Mark if mark.value in given)


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadDocument(place, "expected an object")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadDocument(place, "expected a list")
    return value
