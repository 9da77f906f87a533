"""
The document model of a report text: headings, paragraphs, lists, tables, fields.

    doc:       {"type": "doc", "content": [section | paragraph | list | table]}
    section:   {"type": "section", "title": …}
    paragraph: {"type": "paragraph", "content": [inline]}
    list:      {"type": "list", "ordered": bool, "items": [[inline, …, list, …]]}
    table:     {"type": "table", "content": [tableRow]}
    tableRow:  {"type": "tableRow", "content": [tableCell | tableHeader]}
    tableCell, tableHeader: {"type": …, "content": [paragraph | list]}
    inline:    {"type": "text", "text": …, "marks": […]} | field
    field:     {"type": "field", "label": …, "value": …, "default": …}

A field without a value is a request to the reader. `default` is the text that the template declares
as its default, absent for a request; a field whose value is its default is untouched default text.
A list item has its text and then its sublists. Tables do not nest and have no merged cells; a short
row is filled with empty cells. `bridge.engine.documents` writes HTML, RTF and other formats.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_NODES = 50_000
MAX_CHARACTERS = 4_000_000
MAX_LIST_DEPTH = 9  # levels; the limit of Word
MAX_COLUMNS = 63  # the limit of Word
INDENT = "  "


class BadDocument(ValueError):
    """Invalid document JSON; `place` is a JSON pointer, the message contains no content."""

    def __init__(self, place: str, what: str) -> None:
        self.place = place
        super().__init__(f"{place or '/'}: {what}")


class Mark(StrEnum):
    """A mark of a text; `suggested` marks text that no user has written or accepted."""

    BOLD = "bold"
    ITALIC = "italic"
    UNDERLINE = "underline"
    SUGGESTED = "suggested"


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text without line ends."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class BracketField:
    """
    A field of a template, shown as `[label]` until it has a value.

    `default` is the value that the template declares; without one, the field is a request.
    """

    label: str
    value: str = ""
    default: str = ""


Inline = Text | BracketField


@dataclass(frozen=True, slots=True)
class Heading:
    title: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; without content it is an empty line."""

    content: tuple[Inline, ...] = ()


@dataclass(frozen=True, slots=True)
class ListBlock:
    """A bulleted or numbered list; see `item_parts` for its items."""

    items: tuple["Item", ...]
    ordered: bool = False


Item = tuple[Inline | ListBlock, ...]


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell; `header` marks the name of a column or row."""

    content: tuple[Paragraph | ListBlock, ...] = ()
    header: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table, row by row."""

    rows: tuple[tuple[TableCell, ...], ...]

    def grid(self) -> tuple[tuple[TableCell, ...], ...]:
        """Return the rows filled to equal length; a table without cells gives no rows."""
        width = max(map(len, self.rows), default=0)
        if not width:
            return ()
        return tuple((*row, *((TableCell(),) * (width - len(row)))) for row in self.rows)


Block = Heading | Paragraph | ListBlock | Table


def item_parts(item: Item) -> tuple[tuple[Inline, ...], tuple[ListBlock, ...]]:
    text = tuple(part for part in item if not isinstance(part, ListBlock))
    return text, tuple(part for part in item if isinstance(part, ListBlock))


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a report or of an addendum."""

    content: tuple[Block, ...] = field(default=())


def inline_text(content: tuple[Inline, ...]) -> str:
    """Return the text of inlines; an open field gives its `[label]`."""
    return "".join(
        inline.text if isinstance(inline, Text) else inline.value or f"[{inline.label}]"
        for inline in content
    )


def from_text(text: str) -> Document:
    r"""
    Return a document with one paragraph for each line; `plain_text` is the inverse.

    Line ends become `\n`; empty text is the empty document.
    """
    if not text:
        return Document()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Document(tuple(Paragraph((Text(line),) if line else ()) for line in lines))


def to_json(document: Document) -> dict[str, Any]:
    return {"type": "doc", "content": [_block_json(block) for block in document.content]}


def _block_json(block: Block) -> dict[str, Any]:
    match block:
        case Heading(title):
            return {"type": "section", "title": title}
        case Paragraph(content):
            return {"type": "paragraph", "content": [_inline_json(inline) for inline in content]}
        case ListBlock(items, ordered):
            listed = [
                [
                    _block_json(part) if isinstance(part, ListBlock) else _inline_json(part)
                    for part in item
                ]
                for item in items
            ]
            return {"type": "list", "ordered": ordered, "items": listed}
        case Table(rows):
            table_rows = [
                {"type": "tableRow", "content": [_cell_json(cell) for cell in row]} for row in rows
            ]
            return {"type": "table", "content": table_rows}


def _cell_json(cell: TableCell) -> dict[str, Any]:
    kind = "tableHeader" if cell.header else "tableCell"
    return {"type": kind, "content": [_block_json(block) for block in cell.content]}


def _inline_json(inline: Inline) -> dict[str, Any]:
    if isinstance(inline, BracketField):
        shown = {"type": "field", "label": inline.label, "value": inline.value}
        return shown | ({"default": inline.default} if inline.default else {})
    plain: dict[str, Any] = {"type": "text", "text": inline.text}
    return plain | ({"marks": [mark.value for mark in inline.marks]} if inline.marks else {})


def with_defaults(template: Any) -> Any:
    """
    Return the JSON of a template in which each value of a field is its default.

    A template that was stored or sent without `default` declares a default by the field's value.
    """
    if isinstance(template, list):
        return [with_defaults(part) for part in template]
    if not isinstance(template, dict):
        return template
    if template.get("type") == "field":
        value = template.get("value") or template.get("default")
        return template | ({"value": value, "default": value} if value else {})
    return {name: with_defaults(value) for name, value in template.items()}


def parse(value: Any) -> Document:
    """Parse the JSON of a document; raise BadDocument with the place of the first error."""
    return _read(value, _DocumentParser())


def restore(stored: Any) -> Document:
    """
    Parse the JSON of a stored document, without limits.

    A stored document may exceed `MAX_NODES`: plain text has only a limit of characters, and each
    line becomes a paragraph.
    """
    return _read(stored, _DocumentParser(nodes=sys.maxsize, characters=sys.maxsize))


def _read(value: Any, reader: "_DocumentParser") -> Document:
    top = _object(value, "")
    if top.get("type") != "doc":
        raise BadDocument("/type", "expected doc")
    blocks = _list(top.get("content", []), "/content")
    return Document(
        tuple(reader.block(block, f"/content/{index}") for index, block in enumerate(blocks))
    )


class _DocumentParser:
    """Parses nodes and limits their number and depth."""

    def __init__(self, nodes: int = MAX_NODES, characters: int = MAX_CHARACTERS) -> None:
        self._max_nodes, self._max_characters = nodes, characters
        self._nodes = 0
        self._characters = 0
        self._cells = 0  # of all tables, with those that complete short rows

    def block(self, value: Any, place: str) -> Block:
        self._count(place)
        node = _object(value, place)
        match node.get("type"):
            case "section":
                return Heading(self._line(node.get("title"), f"{place}/title"))
            case "paragraph":
                return Paragraph(self._inlines(node.get("content", []), f"{place}/content"))
            case "list":
                return self._list_block(node, place, 1)
            case "table":
                return self._table(node, place)
        raise BadDocument(f"{place}/type", "expected section, paragraph, list or table")

    def _list_block(self, node: Mapping[str, Any], place: str, depth: int) -> ListBlock:
        if depth > MAX_LIST_DEPTH:
            raise BadDocument(place, f"more than {MAX_LIST_DEPTH} nested lists")
        ordered = node.get("ordered", False)
        if not isinstance(ordered, bool):
            raise BadDocument(f"{place}/ordered", "expected true or false")
        items = _list(node.get("items"), f"{place}/items")
        return ListBlock(
            tuple(self._item(item, f"{place}/items/{n}", depth) for n, item in enumerate(items)),
            ordered,
        )

    def _item(self, value: Any, place: str, depth: int) -> Item:
        parts: list[Inline | ListBlock] = []
        for index, part in enumerate(_list(value, place)):
            at = f"{place}/{index}"
            if isinstance(part, Mapping) and part.get("type") == "list":
                self._count(at)
                parts.append(self._list_block(part, at, depth + 1))
            elif parts and isinstance(parts[-1], ListBlock):
                raise BadDocument(at, "expected a list: the text of an item precedes its lists")
            else:
                parts.append(self._inline(part, at))
        return tuple(parts)

    def _table(self, node: Mapping[str, Any], place: str) -> Table:
        rows = _list(node.get("content"), f"{place}/content")
        table = Table(tuple(self._row(row, f"{place}/content/{n}") for n, row in enumerate(rows)))
        self._cells += len(rows) * max(map(len, table.rows), default=0)
        if self._cells > self._max_nodes:
            raise BadDocument(place, f"more than {self._max_nodes} cells")
        return table

    def _row(self, value: Any, place: str) -> tuple[TableCell, ...]:
        self._count(place)
        node = _object(value, place)
        if node.get("type") != "tableRow":
            raise BadDocument(f"{place}/type", "expected tableRow")
        cells = _list(node.get("content", []), f"{place}/content")
        if len(cells) > MAX_COLUMNS:
            raise BadDocument(f"{place}/content", f"more than {MAX_COLUMNS} cells in a row")
        return tuple(self._cell(cell, f"{place}/content/{n}") for n, cell in enumerate(cells))

    def _cell(self, value: Any, place: str) -> TableCell:
        self._count(place)
        node = _object(value, place)
        if node.get("type") not in ("tableCell", "tableHeader"):
            raise BadDocument(f"{place}/type", "expected tableCell or tableHeader")
        content = []
        for index, part in enumerate(_list(node.get("content", []), f"{place}/content")):
            at = f"{place}/content/{index}"
            block = self.block(part, at) if _is_text_block(part) else None
            if not isinstance(block, Paragraph | ListBlock):
                raise BadDocument(f"{at}/type", "expected paragraph or list")
            content.append(block)
        return TableCell(tuple(content), node["type"] == "tableHeader")

    def _inlines(self, value: Any, place: str) -> tuple[Inline, ...]:
        return tuple(
            self._inline(inline, f"{place}/{index}")
            for index, inline in enumerate(_list(value, place))
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
                value = self._line(node.get("value", ""), f"{place}/value")
                default = self._line(node.get("default", ""), f"{place}/default")
                return BracketField(label, value, default)
        raise BadDocument(f"{place}/type", "expected text or field")

    def _line(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise BadDocument(place, "expected a string")
        self._characters += len(value)
        if self._characters > self._max_characters:
            raise BadDocument(place, f"more than {MAX_CHARACTERS} characters")
        if "\x00" in value or any("\ud800" <= item <= "\udfff" for item in value):
            raise BadDocument(place, "contains a NUL character or an unpaired surrogate")
        return value.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")

    def _count(self, place: str) -> None:
        self._nodes += 1
        if self._nodes > self._max_nodes:
            raise BadDocument(place, f"more than {MAX_NODES} nodes")


def _is_text_block(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") in ("paragraph", "list")


def _marks(value: Any, place: str) -> tuple[Mark, ...]:
    known = {mark.value for mark in Mark}
    values = _list(value, place)
    if any(not isinstance(mark, str) or mark not in known for mark in values):
        raise BadDocument(place, "expected bold, italic, underline or suggested")
    return tuple(mark for mark in Mark if mark.value in values)


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadDocument(place, "expected an object")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadDocument(place, "expected a list")
    return value
