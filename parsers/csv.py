"""CSV tables from users, read row by row within limits."""

import csv
from collections.abc import Iterator
from io import StringIO

from parsers.errors import DocumentRefused
from parsers.limits import Limits


def read_rows(text: str, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    """
    Yield line numbers (from 1) and rows of a table; an empty line is an empty row.

    Raises DocumentRefused for malformed CSV, and beyond the limits of characters (`size`), columns
    (`depth`) and rows (`count`).
    """
    if len(text) > limits.size:
        raise DocumentRefused(f"more than {limits.size:,} characters")
    reader = csv.reader(StringIO(text), strict=True)
    try:
        for number, row in enumerate(reader):
            if number > limits.count:  # the header is not counted
                raise DocumentRefused(f"more than {limits.count:,} rows", reader.line_num, 1)
            if len(row) > limits.depth:
                raise DocumentRefused(f"more than {limits.depth} columns", reader.line_num, 1)
            yield reader.line_num, row
    except csv.Error:
        raise DocumentRefused("this line is not CSV", reader.line_num, 1) from None
