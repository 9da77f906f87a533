r"""
A document written as plain text by hand: headings, lists and bracket fields by their look.

A line of words that ends with a colon is a heading, `- ` and `1. ` begin list items,
`[label]` is an open field. `outline` writes the same text back.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from bridge.engine.rules.document import (
    Block,
    Document,
    Field,
    Inline,
    ListBlock,
    Paragraph,
    Section,
    Text,
    plain_text,
)

_HEADING = re.compile(r"([^\[\]:]{1,80}):\s*")
_BULLET = re.compile(r"[-•*] +(.*)")
_NUMBER = re.compile(r"\d{1,3}[.)] +(.*)")
_FIELD = re.compile(r"\[([^\[\]\n]{0,200})\]")


def from_outline(text: str) -> Document:
    r"""Make a document of text; line ends are `\n` or `\r\n`."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return Document(
        tuple(
            each
            for kind, group in groupby(map(_block, lines), key=_kind)
            for each in ([_joined(group, kind)] if isinstance(kind, bool) else group)
        )
    )


def _kind(block: Block) -> bool | None:
    """Tell whether a list is ordered; None for another block."""
    return block.ordered if isinstance(block, ListBlock) else None


def _joined(blocks: Iterable[Block], ordered: bool) -> ListBlock:
    """Return the one list that lists of a kind are together."""
    lists = (each for each in blocks if isinstance(each, ListBlock))
    return ListBlock(tuple(item for each in lists for item in each.items), ordered)


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
    if item := _BULLET.fullmatch(line):
        return ListBlock((tuple(_inlines(item[1])),))
    if item := _NUMBER.fullmatch(line):
        return ListBlock((tuple(_inlines(item[1])),), ordered=True)
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
