r"""
Conversion of documents to plain text, and of outlines to documents.

In an outline, a line that ends with a colon is a heading, `- ` and `1. ` start list items, and an
indented list item starts a sublist. A bracket is a field: `[size]` requests a value, and
`[lungs := Clear.]` has the default text `Clear.`; `[:= Clear.]` needs no label. Only `:=` declares
a default. A backslash before a bracket, and in a field before `:=`, makes it ordinary text; before
these, `\\` is one backslash.

In a report, each bracket in the text is a request, whatever it says in which language: only a field
of a template has default text (`document.BracketField`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final
from unicodedata import category, east_asian_width

from bridge.engine.rules.text.document import (
    INDENT,
    MAX_LIST_DEPTH,
    Block,
    BracketField,
    Document,
    Heading,
    Inline,
    ListBlock,
    Paragraph,
    Table,
    TableCell,
    Text,
    from_text,
    inline_text,
    item_parts,
)

MAX_PADDED_WIDTH = 40
"""Table columns are padded at most to this width."""
GAP = "  "


def plain_text(document: Document) -> str:
    """
    Return the text of a document: one line for each block, list items with `- ` or `1. `.

    The columns of a table are aligned by spaces.
    """
    return "\n".join("\n".join(_block_text(block)) for block in document.content)


def _block_text(block: Block) -> Iterator[str]:
    match block:
        case Heading(title):
            yield title
        case Paragraph(content):
            yield inline_text(content)
        case ListBlock():
            yield from _list_text(block)
        case Table():
            yield from _table_text(block)


def _list_text(block: ListBlock) -> Iterator[str]:
    for number, item in enumerate(block.items, 1):
        text, sublists = item_parts(item)
        yield (f"{number}. " if block.ordered else "- ") + inline_text(text)
        for sublist in sublists:
            yield from (INDENT + line for line in _list_text(sublist))


def _table_text(table: Table) -> Iterator[str]:
    rows = [[_cell_text(cell) for cell in row] for row in table.grid()]
    columns = [[line for cell in column for line in cell] for column in zip(*rows, strict=True)]
    widths = [max((_width(line) for line in lines), default=0) for lines in columns]
    padded = [min(width, MAX_PADDED_WIDTH) for width in widths]
    for row in rows:
        for lines in zip_longest(*row, fillvalue="") if any(row) else [[""]]:
            cells = (
                line + " " * (width - _width(line))
                for line, width in zip(lines, padded, strict=False)
            )
            yield GAP.join(cells).rstrip()


def _cell_text(cell: TableCell) -> list[str]:
    lines = [line for block in cell.content for line in _block_text(block)]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


_HEADING = re.compile(r"([^\[\]:]{1,80}):\s*")
_BULLET = re.compile(r"( *)[-•*] +(.*)")
_NUMBER = re.compile(r"( *)\d{1,3}[.)] +(.*)")
_FIELD_LENGTH: Final = 4000
_MARK = re.compile(r"(?<!\\)(\\*)([\[\]]|:=)")
"""A bracket or `:=`, with the backslashes before it."""


def from_outline(text: str) -> Document:
    r"""Parse an outline; line ends are `\n` or `\r\n`."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    blocks: list[Block | _OpenList] = []
    levels: list[_OpenList] = []  # the open lists, the outermost first
    for line in lines:
        found = _list_item(line)
        if found is None or found[0] > len(levels):
            blocks.append(_block(line))
            levels = []
            continue
        level, new = found
        if level < len(levels) and levels[level].ordered is new.ordered:
            levels[level].items += new.items
            del levels[level + 1 :]
            continue
        del levels[level:]
        if levels:
            levels[-1].items[-1].append(new)
        else:
            blocks.append(new)
        levels.append(new)
    return Document(
        tuple(block.closed() if isinstance(block, _OpenList) else block for block in blocks)
    )


@dataclass(slots=True)
class _OpenList:
    """A list under construction; each item has its text, then its sublists."""

    ordered: bool
    items: list[list["Inline | _OpenList"]]

    def closed(self) -> ListBlock:
        """Return the finished list."""
        return ListBlock(
            tuple(
                tuple(part.closed() if isinstance(part, _OpenList) else part for part in item)
                for item in self.items
            ),
            self.ordered,
        )


def _list_item(line: str) -> tuple[int, _OpenList] | None:
    """Return the level of a list item, 0 for the outermost, and a list with only this item."""
    for pattern in (_BULLET, _NUMBER):
        if found := pattern.fullmatch(line):
            level, odd = divmod(len(found[1]), len(INDENT))
            block = _OpenList(pattern is _NUMBER, [list(_inlines(found[2]))])
            return None if odd or level >= MAX_LIST_DEPTH else (level, block)
    return None


def outline(document: Document) -> str:
    """Return a document as the text that `from_outline` parses."""
    return plain_text(Document(tuple(map(_outline_block, document.content))))


def _outline_block(block: Block) -> Block:
    match block:
        case Heading(title):
            return Paragraph((Text(f"{title.rstrip(':')}:"),))
        case Paragraph(content):
            return Paragraph(_written(content))
        case ListBlock():
            return _outline_list(block)
        case Table(rows):
            return Table(tuple(tuple(map(_outline_cell, row)) for row in rows))


def _outline_list(block: ListBlock) -> ListBlock:
    items = []
    for item in block.items:
        text, sublists = item_parts(item)
        items.append((*_written(text), *map(_outline_list, sublists)))
    return ListBlock(tuple(items), block.ordered)


def _outline_cell(cell: TableCell) -> TableCell:
    blocks = (
        Paragraph(_written(block.content)) if isinstance(block, Paragraph) else _outline_list(block)
        for block in cell.content
    )
    return TableCell(tuple(blocks), cell.header)


def from_lines(text: str) -> Document:
    """Return a document with one paragraph for each line; brackets are fields, as in an outline."""
    paragraphs = from_text(text).content
    return Document(
        tuple(
            Paragraph(tuple(_inlines(inline_text(block.content))))
            for block in paragraphs
            if isinstance(block, Paragraph)
        )
    )


def _block(line: str) -> Block:
    heading = _HEADING.fullmatch(line)
    if heading and (title := heading[1].strip()):
        return Heading(title)
    return Paragraph(tuple(_inlines(line)))


def _inlines(line: str) -> Iterator[Inline]:
    text, at = "", 0
    while found := _MARK.search(line, at):
        backslashes, mark = found.groups()
        text += line[at : found.start()]
        at = found.end()
        if mark == ":=":
            text += found[0]
            continue
        text += backslashes[: len(backslashes) // 2]
        field = None if len(backslashes) % 2 or mark == "]" else _field(line, at)
        if field is None:
            text += mark
            continue
        if text:
            yield Text(text)
        yield field[0]
        text, at = "", field[1]
    if text := text + line[at:]:
        yield Text(text)


def _field(line: str, start: int) -> tuple[BracketField, int] | None:
    """Return the field whose bracket is before `start`, and its end; None without an end."""
    parts, text, at = list[str](), "", start
    while (found := _MARK.search(line, at)) and found.end() - start <= _FIELD_LENGTH:
        backslashes, mark = found.groups()
        text += line[at : found.start()] + backslashes[: len(backslashes) // 2]
        at = found.end()
        if len(backslashes) % 2 or (mark == ":=" and parts):
            text += mark
        elif mark == "[":
            return None
        else:
            parts.append(text.strip())
            text = ""
            if mark == "]":
                label, default = parts[0], parts[1] if len(parts) > 1 else ""
                return BracketField(label or default, default, default), at
    return None


def _escaped(text: str, *, before_mark: bool = False) -> str:
    """Return text whose brackets and `:=` are ordinary in a field, or before one."""
    written = _MARK.sub(lambda found: found[1] * 2 + "\\" + found[2], text)
    bare = written.rstrip("\\")
    return written + written[len(bare) :] if before_mark else written


def _written(content: tuple[Inline, ...]) -> tuple[Inline, ...]:
    line, text = "", ""
    for inline in content:
        if isinstance(inline, Text):
            text += inline.text
            continue
        line += _written_text(text, before_field=True) + _written_field(inline)
        text = ""
    return (Text(line + _written_text(text)),)


def _written_text(text: str, *, before_field: bool = False) -> str:
    written = _MARK.sub(
        lambda found: found[0] if found[2] == ":=" else found[1] * 2 + "\\" + found[2], text
    )
    bare = written.rstrip("\\")
    return written + written[len(bare) :] if before_field else written


def _written_field(field: BracketField) -> str:
    default = field.default or field.value
    if not default:
        return f"[{_escaped(field.label, before_mark=True)}]"
    label = "" if field.label == default else f"{_escaped(field.label)} "
    return f"[{label}:= {_escaped(default, before_mark=True)}]"


BRACKET = re.compile("[\\[\uff3b][^\\[\\]\uff3b\uff3d]*(?:[\\]\uff3d]|$)")
"""A bracket in a line of a report, also a full-width one, and one without an end."""


def open_brackets(text: str) -> int:
    """Return the number of brackets in a plain text; each is a request that was not answered."""
    if "[" not in text and "\uff3b" not in text:
        return 0
    return sum(len(BRACKET.findall(line)) for line in text.split("\n"))
