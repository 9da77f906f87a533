r"""
A document written as plain text by hand: headings, lists and bracket fields by their look.

A line of words that ends with a colon is a heading, `- ` and `1. ` begin list items,
`[label]` is an open field. A list item that is indented below another begins a sublist.
`outline` writes the same text back.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
)
from bridge.engine.rules.plain_text import plain_text

_HEADING = re.compile(r"([^\[\]:]{1,80}):\s*")
_BULLET = re.compile(r"( *)[-•*] +(.*)")
_NUMBER = re.compile(r"( *)\d{1,3}[.)] +(.*)")
_FIELD = re.compile(r"\[([^\[\]\n]{0,200})\]")


def from_outline(text: str) -> Document:
    r"""Make a document of text; line ends are `\n` or `\r\n`."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    blocks: list[Block | _OpenList] = []
    levels: list[_OpenList] = []  # of the list that the last line belongs to, outermost first
    for line in lines:
        found = _listed(line)
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
    """A list to which lines are added; each item holds its text, then its sublists."""

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


def _listed(line: str) -> tuple[int, _OpenList] | None:
    """Return the level of a list item, 0 for the outermost, and a list of it alone."""
    for pattern in (_BULLET, _NUMBER):
        if found := pattern.fullmatch(line):
            level, odd = divmod(len(found[1]), len(INDENT))
            block = _OpenList(pattern is _NUMBER, [list(_inlines(found[2]))])
            return None if odd or level >= MAX_LIST_DEPTH else (level, block)
    return None


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
