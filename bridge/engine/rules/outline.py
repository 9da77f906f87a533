r"""
A document written as plain text by hand: headings, lists and bracket fields by their look.

A line of words that ends with a colon is a heading, `- ` and `1. ` begin list items,
`[label]` is an open field. A list item that is indented below another begins a sublist.
`outline` writes the same text back.
"""

import re
from collections.abc import Iterator

from bridge.engine.rules.document import (
    INDENT,
    MAX_LIST_DEPTH,
    Block,
    Document,
    Field,
    Inline,
    ListBlock,
    Paragraph,
    Section,
    Text,
    item_parts,
    plain_text,
)

_HEADING = re.compile(r"([^\[\]:]{1,80}):\s*")
_BULLET = re.compile(r"( *)[-•*] +(.*)")
_NUMBER = re.compile(r"( *)\d{1,3}[.)] +(.*)")
_FIELD = re.compile(r"\[([^\[\]\n]{0,200})\]")


def from_outline(text: str) -> Document:
    r"""Make a document of text; line ends are `\n` or `\r\n`."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    blocks: list[Block] = []
    for line in lines:
        last = blocks[-1] if blocks else None
        found = _listed(line)
        level = found[0] if found else 0
        if found and level and isinstance(last, ListBlock) and level <= _depth(last):
            blocks[-1] = _added(last, found[1], level)
        elif found and not level and isinstance(last, ListBlock):
            blocks[-1:] = _joined(last, found[1])
        elif found and not level:
            blocks.append(found[1])
        else:
            blocks.append(_block(line))
    return Document(tuple(blocks))


def _listed(line: str) -> tuple[int, ListBlock] | None:
    """Return the level of a list item, 0 for the outermost, and a list of it alone."""
    for pattern in (_BULLET, _NUMBER):
        if found := pattern.fullmatch(line):
            level, odd = divmod(len(found[1]), len(INDENT))
            block = ListBlock((tuple(_inlines(found[2])),), ordered=pattern is _NUMBER)
            return None if odd or level >= MAX_LIST_DEPTH else (level, block)
    return None


def _depth(block: ListBlock) -> int:
    """Return how many levels the last item of a list goes down."""
    sublists = item_parts(block.items[-1])[1]
    return 1 + (_depth(sublists[-1]) if sublists else 0)


def _added(block: ListBlock, new: ListBlock, level: int) -> ListBlock:
    """Return a list with another item so many levels below its last one."""
    *before, last = block.items
    text, sublists = item_parts(last)
    if level > 1:
        inner = [*sublists[:-1], _added(sublists[-1], new, level - 1)]
    elif sublists:
        inner = [*sublists[:-1], *_joined(sublists[-1], new)]
    else:
        inner = [new]
    return ListBlock((*before, (*text, *inner)), block.ordered)


def _joined(last: ListBlock, new: ListBlock) -> list[ListBlock]:
    """Return two lists, or the one that they are together."""
    if last.ordered is not new.ordered:
        return [last, new]
    return [ListBlock((*last.items, *new.items), new.ordered)]


def outline(document: Document) -> str:
    """Write a document as the text that `from_outline` reads."""
    lines = (
        Paragraph((Text(f"{block.title.rstrip(':')}:"),)) if isinstance(block, Section) else block
        for block in document.content
    )
    return plain_text(Document(tuple(lines)))


def _block(line: str) -> Block:
    heading = _HEADING.fullmatch(line)
    if heading and (title := heading[1].strip()):
        return Section(title)
    return Paragraph(tuple(_inlines(line)))


def _inlines(line: str) -> Iterator[Inline]:
    at = 0
    for found in _FIELD.finditer(line):
        if found.start() > at:
            yield Text(line[at : found.start()])
        yield Field(found[1].strip())
        at = found.end()
    if at < len(line):
        yield Text(line[at:])
