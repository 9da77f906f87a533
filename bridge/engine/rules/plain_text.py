"""The plain text of a document: a line for each block, tables in aligned columns."""

from collections.abc import Iterator
from itertools import zip_longest
from unicodedata import combining, east_asian_width

from bridge.engine.rules.document import (
    INDENT,
    Block,
    Document,
    ListBlock,
    Paragraph,
    Section,
    Table,
    TableCell,
    inline_text,
    item_parts,
)

WIDEST_PADDED = 40
"""Columns of a table cell; a longer one is not padded."""
GAP = "  "


def plain_text(document: Document) -> str:
    """
    Return the text alone: blocks on lines of their own, list items behind `- ` or `1. `.

    The columns of a table are aligned by spaces, two cells of a row at least two spaces apart.
    """
    return "\n".join("\n".join(_block_text(block)) for block in document.content)


def _block_text(block: Block) -> Iterator[str]:
    match block:
        case Section(title):
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
    padded = [min(width, WIDEST_PADDED) for width in widths]
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
    """Return how many columns of a terminal a text fills."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )
