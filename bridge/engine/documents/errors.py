"""
Errors of documents that cannot be read or written.

    DocumentError
    ├── BadStructuredReport   a DICOM SR file that is refused
    ├── BadImage              an image that is refused
    ├── QrTooLong             a URL that does not fit into a QR code of the width
    └── PdfUnavailable        the PDF writer is not installed

Messages name the error and limits, never a value of the file.
"""

from enum import StrEnum


class DocumentError(Exception):
    """A document that cannot be read or written."""


class SrFault(StrEnum):
    """The error in a DICOM SR file."""

    TOO_LARGE = "sr-too-large"
    NOT_DICOM = "sr-not-dicom"
    NOT_STRUCTURED_REPORT = "sr-not-structured-report"
    MALFORMED = "sr-malformed"
    TOO_DEEP = "sr-too-deep"
    TOO_MANY_ITEMS = "sr-too-many-items"
    TOO_COSTLY = "sr-too-costly"


SR_DETAILS = {
    SrFault.TOO_LARGE: "the file is larger than this service reads",
    SrFault.NOT_DICOM: "the file is not DICOM",
    SrFault.NOT_STRUCTURED_REPORT: "the file is DICOM, but not a structured report",
    SrFault.MALFORMED: "the structured report is damaged or incomplete",
    SrFault.TOO_DEEP: "the content tree is nested too deeply",
    SrFault.TOO_MANY_ITEMS: "the content tree has too many items",
    SrFault.TOO_COSTLY: "the file takes too long to read",
}


class BadStructuredReport(DocumentError):
    """A DICOM SR file that is refused; `code` is stable, `detail` is the message."""

    def __init__(self, code: SrFault) -> None:
        self.code = code
        self.detail = SR_DETAILS[code]
        super().__init__(self.detail)


class ImageFault(StrEnum):
    EMPTY = "image-empty"
    TOO_LARGE = "image-too-large"
    UNSUPPORTED_TYPE = "image-type-unsupported"
    NOT_AN_IMAGE = "image-not-recognized"
    TOO_MANY_PIXELS = "image-too-many-pixels"
    MALFORMED = "image-malformed"
    TOO_COSTLY = "image-too-costly"


IMAGE_DETAILS = {
    ImageFault.EMPTY: "the image is empty",
    ImageFault.TOO_LARGE: "the image is larger than this service accepts",
    ImageFault.UNSUPPORTED_TYPE: "the media type is not one of image/png, jpeg, gif, webp",
    ImageFault.NOT_AN_IMAGE: "the data is not a PNG, JPEG, GIF or WebP image",
    ImageFault.TOO_MANY_PIXELS: "the image has more pixels than this service accepts",
    ImageFault.MALFORMED: "the image is damaged or incomplete",
    ImageFault.TOO_COSTLY: "the image takes too long to read",
}


class BadImage(DocumentError):
    """An image that is refused; `code` is stable, `detail` is the message."""

    def __init__(self, code: ImageFault) -> None:
        self.code = code
        self.detail = IMAGE_DETAILS[code]
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
