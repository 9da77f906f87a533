"""
Conversion of documents to plain text, and of outlines to documents; default text in brackets.

In an outline, a line that ends with a colon is a heading, `- ` and `1. ` start list items, and
`[label]` is an open field. An indented list item starts a sublist.

`[Unremarkable.]` becomes report text unless the reader replaces it. A bracket holds default text
when it reads as a finished statement: it ends with a full stop or an exclamation mark, or it is a
common phrase for a normal finding. Signing removes its brackets. Any other bracket requests a value
(`[size]`, `[one / two]`, `[Describe the nodule.]`): it stays open, and the checks before signing
report it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final
from unicodedata import combining, east_asian_width

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
    """Return the width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


_HEADING = re.compile(r"([^\[\]:]{1,80}):\s*")
_BULLET = re.compile(r"( *)[-•*] +(.*)")
_NUMBER = re.compile(r"( *)\d{1,3}[.)] +(.*)")
_FIELD = re.compile(r"\[([^\[\]\n]{0,200})\]")


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
        tuple(each.closed() if isinstance(each, _OpenList) else each for each in blocks)
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
                tuple(each.closed() if isinstance(each, _OpenList) else each for each in item)
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
    lines = (
        Paragraph((Text(f"{block.title.rstrip(':')}:"),)) if isinstance(block, Heading) else block
        for block in document.content
    )
    return plain_text(Document(tuple(lines)))


def _block(line: str) -> Block:
    heading = _HEADING.fullmatch(line)
    if heading and (title := heading[1].strip()):
        return Heading(title)
    return Paragraph(tuple(_inlines(line)))


def _inlines(line: str) -> Iterator[Inline]:
    at = 0
    for found in _FIELD.finditer(line):
        if found.start() > at:
            yield Text(line[at : found.start()])
        yield BracketField(found[1].strip())
        at = found.end()
    if at < len(line):
        yield Text(line[at:])


BRACKET = re.compile(r"\[([^\[\]]*)\]")

_MAX_LENGTH: Final = 500
_CHOICE = re.compile(r"\s/\s|\|")
_WORD = re.compile(r"\w{3}")
_REQUEST = re.compile(
    r"(?:please|describe|enter|insert|specify|select|choose|state|dictate|type|add|give|list|fill|"
    r"complete|indicate|bitte|beschreib\w*|eingeben|angeben|décri\w*|saisi\w*|describ\w*|indi[cq]\w*)\b"
    r"|.*(?:eingeben|angeben|beschreiben|auswählen)[.!]?$",
    re.IGNORECASE,
)
_NORMAL = re.compile(
    r"(?:normal\w?|within normal limits|unremarkable|clear|intact|negative|unchanged|none|"
    r"unauffällig|regelrecht|keine?|sin alteraciones|sem alterações|正常|未见异常|"
    r"異常なし|이상 없음)|no (?!of\b)\w[^?:]*\w",
    re.IGNORECASE,
)


def is_default(label: str) -> bool:
    """Tell whether the text of a bracket is default text, not a request for a value."""
    text = label.strip()
    if not 0 < len(text) <= _MAX_LENGTH or _CHOICE.search(text) or _REQUEST.match(text):
        return False
    return _is_sentence(text) or _NORMAL.fullmatch(text) is not None


def _is_sentence(text: str) -> bool:
    if text.endswith(("\u3002", "\uff01", "\uff61")):
        return len(text) > 1
    return text[-1] in ".!" and text[-2:-1] not in (".", "…") and _WORD.search(text) is not None


def has_defaults(text: str) -> bool:
    """Tell whether a plain text contains a bracket with default text."""
    return "[" in text and any(is_default(match[1]) for match in BRACKET.finditer(text))


def accept_defaults(document: Any) -> Any:
    """Return the JSON of a document with each default text accepted."""
    if isinstance(document, list):
        return [accept_defaults(each) for each in document]
    if not isinstance(document, dict):
        return document
    if document.get("type") == "text":
        return document | {"text": BRACKET.sub(_unbracketed, document["text"])}
    if document.get("type") == "field":
        label = document["label"]
        accepts = not document.get("value") and is_default(label)
        return document | ({"value": label.strip()} if accepts else {})
    return {name: accept_defaults(value) for name, value in document.items()}


def _unbracketed(match: re.Match[str]) -> str:
    return match[1].strip() if is_default(match[1]) else match[0]
