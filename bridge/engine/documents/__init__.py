"""Documents: exports in every format, structured reports and images read, QR codes drawn."""

from bridge.engine.documents.errors import (
    BadImage,
    BadStructuredReport,
    DocumentError,
    ImageFault,
    PdfUnavailable,
    QrTooLong,
    SrFault,
)
from bridge.engine.documents.model import (
    Exported,
    ExportedAddendum,
    Image,
    Person,
    PrelimRead,
    Site,
)

__all__ = [
    "BadImage",
    "BadStructuredReport",
    "DocumentError",
    "Exported",
    "ExportedAddendum",
    "Image",
    "ImageFault",
    "PdfUnavailable",
    "Person",
    "PrelimRead",
    "QrTooLong",
    "Site",
    "SrFault",
]
