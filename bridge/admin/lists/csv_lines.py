"""Lines of CSV files that people open with a spreadsheet."""

import csv
import io
from collections.abc import Sequence
from typing import Final

MARK: Final = "\ufeff"
"""The beginning of a file: spreadsheets then read it as UTF-8."""
_FORMULA: Final = frozenset("=+-@\t\r")


def csv_line(cells: Sequence[str]) -> str:
    """Return a line. A spreadsheet must not take a value for a formula."""
    line = io.StringIO()
    csv.writer(line).writerow(f"'{cell}" if cell[:1] in _FORMULA else cell for cell in cells)
    return line.getvalue()
