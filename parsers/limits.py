"""
The limits of all documents from users, in one table.

`size` is in bytes, or in characters for readers of text. `depth` counts levels. `count` counts the
parts of a document: values, elements or rows. `seconds` is CPU time in a worker process. The memory
limit of worker processes is in `bridge.workers.pool`.

`DocumentRefused` is the error of all readers.
"""

from dataclasses import dataclass


class DocumentRefused(ValueError):
    """
    A document exceeds a limit or is malformed; no part of it was used.

    `reason` contains no value of the document. `line` and `column` count from 1; 0 is unknown.
    """

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        self.reason, self.line, self.column = reason, line, column
        super().__init__(reason)


MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    size: int
    depth: int
    count: int
    seconds: int = 2


JSON = Limits(64 * MEBIBYTE, depth=64, count=250_000)
"""A request body; routes have smaller sizes. `count`: members and entries."""

TOML = Limits(MEBIBYTE // 2, depth=16, count=20_000)
"""`bridge.toml`, `interface.toml`. `depth`: of brackets, and parts of a key; `count`: values."""

YAML = Limits(400_000, depth=40, count=20_000)
"""One file of a definition. `count`: nodes, with aliases written out."""

YAML_TOKENS = 30_000
"""Tokens of the YAML scanner in one file: keys, values, brackets, changes of indentation."""

DEFINITIONS = Limits(16 * MEBIBYTE, depth=1, count=300, seconds=3)
"""All files of a definition or of a draft together."""

TABLE = Limits(4 * MEBIBYTE, depth=64, count=50_000)
"""A code table as CSV. `depth`: columns; `count`: rows."""

PACKAGE = Limits(8 * MEBIBYTE, depth=3, count=300, seconds=3)
"""An interface package (ZIP). `size`: unpacked; `depth`: folders; `count`: entries."""

PROFILE = Limits(8 * MEBIBYTE, depth=32, count=100_000)
"""A conformance profile (XML). `count`: elements and attributes."""

CHANNELS = Limits(20 * MEBIBYTE, depth=100, count=300_000, seconds=10)
"""An export of Mirth Connect (XML). `count`: elements and attributes."""

TEMPLATE = Limits(1_000_000, depth=10_000, count=50_000)
"""A report template (MRRT, HTML). `depth`: open elements (end tags are optional); `count`: tags."""

STRUCTURED_REPORT = Limits(10 * MEBIBYTE, depth=64, count=50_000, seconds=3)
"""A DICOM SR file. `size`: inflated; `depth`: of the content tree; `count`: its own elements."""

STRUCTURED_REPORT_ITEMS = 20_000
"""Items of all sequences of a DICOM SR file."""

STRUCTURED_REPORT_ELEMENTS = 400_000
"""Elements of all content items of a DICOM SR file."""

STRUCTURED_REPORT_TEXT = 4 * MEBIBYTE
"""Characters of all texts of a DICOM SR file."""

META_INFORMATION = 2**16
"""Bytes of a DICOM file's group 0002."""

IMAGE = Limits(10 * MEBIBYTE, depth=1, count=40_000_000, seconds=6)
"""A picture. `count`: pixels."""

DOCUMENTS_OF_A_REQUEST = 12.0
"""Limit of the elapsed seconds that worker processes spend on all documents of one request."""
