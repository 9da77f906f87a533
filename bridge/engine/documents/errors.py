"""
Errors of documents that cannot be read or written.

    DocumentError
    ├── BadStructuredReport   a DICOM SR file that is refused
    ├── BadImage              an image that is refused
    ├── QrTooLong             a URL that does not fit into a QR code of the width
    └── PdfUnavailable        the PDF writer is not installed

Messages name the error and limits, never a value of the file.
"""

from bridge.contract.errors import ErrorCode


class DocumentError(Exception):
    """A document that cannot be read or written."""


class BadStructuredReport(DocumentError):
    """A DICOM SR file that is refused; `code` is stable, `detail` is the message."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.detail = code.text
        super().__init__(self.detail)


class BadImage(DocumentError):
    """An image that is refused; `code` is stable, `detail` is the message."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.detail = code.text
        super().__init__(self.detail)


class QrTooLong(DocumentError):
    """The URL does not fit into a QR code of this width."""

    def __init__(self, length: int, width: int) -> None:
        self.length = length
        self.width = width
        super().__init__(f"{length} bytes do not fit into a QR code {width} pixels wide")


class PdfUnavailable(DocumentError):
    """This machine cannot write a PDF; `missing` is the package to install."""

    def __init__(self, missing: str) -> None:
        self.missing = missing
        super().__init__(f"PDF export needs the package {missing}")
