"""
What an export is made of: a report as it is to be shown, with its site and its people.

Filled by the engine's services, read by every format. Holds facts only: no words of any
language, no layout, and no report whose access has not been checked before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import Document


class PageSize(StrEnum):
    """The paper of a printed report, in the spelling of the site's setting."""

    A4 = "A4"
    LETTER = "Letter"


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image as the site or user uploaded it, after `images.accept`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ExportedPerson:
    """A user, as `signedBy`, `prelimBy` and `reviewedBy` show one."""

    name: str
    email: str
    signature: ExportedImage | None = None
    text: str = ""  # what stands behind the name: a title, a registration number


@dataclass(frozen=True, slots=True)
class ExportedSite:
    """The site's part of an export; `time_zone` is an IANA name or ''."""

    name: str
    header_image: ExportedImage | None = None
    footer_image: ExportedImage | None = None
    time_zone: str = ""
    page_size: PageSize = PageSize.A4


@dataclass(frozen=True, slots=True)
class ExportedAddendum:
    """One signed addendum."""

    body: Document
    signed_at: datetime
    signed_by: ExportedPerson


@dataclass(frozen=True, slots=True)
class PrelimEntry:
    """One preliminary read; reviewed when another user went on from it."""

    tag_name: str
    tag_group: str
    at: datetime
    by: ExportedPerson
    reviewed_at: datetime | None = None
    reviewed_by: ExportedPerson | None = None


@dataclass(frozen=True, slots=True)
class ExportedReport:
    """
    One report: orders anchor first, signed addenda and prelim reads oldest first.

    All times are aware. `signed_at` and `signed_by` are None while the report is unsigned.
    `images_left_out` counts the key images that are too many or too large to print.
    """

    site: ExportedSite
    orders: tuple[Mapping[str, str], ...]
    status: str
    body: Document
    signed_at: datetime | None = None
    signed_by: ExportedPerson | None = None
    addenda: tuple[ExportedAddendum, ...] = ()
    prelims: tuple[PrelimEntry, ...] = ()
    language: str = "en-US"
    key_images: tuple[EncodedImage, ...] = ()
    images_left_out: int = 0
