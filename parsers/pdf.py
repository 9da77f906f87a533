"""PDF files inside messages and reports: they are recognized and stored, and not read."""

from typing import Final

MAX_PDF_BYTES: Final = 16 * 2**20

_MARK: Final = b"%PDF-"
_END: Final = b"%%EOF"
_MARK_WITHIN: Final = 1024  # bytes, of which some programs write a few before the mark


def is_pdf(data: bytes) -> bool:
    """True if data begins as a PDF does."""
    return _MARK in data[:_MARK_WITHIN]


def is_complete(end: bytes) -> bool:
    """True if the last bytes of a PDF have its end (ISO 32000-1 §7.5.5)."""
    return _END in end[-_MARK_WITHIN:]
