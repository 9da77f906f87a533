"""
The input of all export formats: a report with its site, orders, signers and addenda.

The services of the engine fill it after they have checked the access. It contains no labels and no
layout.
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
    """An image of a site or user, after `images.accept`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ExportedUser:
    """A user: the value of `signedBy`, `prelimBy` and `reviewedBy`."""

    name: str
    email: str
    signature: ExportedImage | None = None
    text: str = ""  # after the name: a title, a registration number


@dataclass(frozen=True, slots=True)
class ExportedSite:
    """The site of a report; `time_zone` is an IANA name or empty."""

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
    signed_by: ExportedUser


@dataclass(frozen=True, slots=True)
class PrelimEntry:
    """One preliminary read, and its review if there was one."""

    tag_name: str
    tag_group: str
    at: datetime
    by: ExportedUser
    reviewed_at: datetime | None = None
    reviewed_by: ExportedUser | None = None


@dataclass(frozen=True, slots=True)
class ExportedReport:
    """
    One report: the anchor order first, signed addenda and preliminary reads oldest first.

    All times are timezone-aware. `signed_at` and `signed_by` are None while the report is unsigned.
    `images_left_out` counts the key images that are too many or too large to print.
    """

    site: ExportedSite
    orders: tuple[Mapping[str, str], ...]
    status: str
    body: Document
    signed_at: datetime | None = None
    signed_by: ExportedUser | None = None
    addenda: tuple[ExportedAddendum, ...] = ()
    prelims: tuple[PrelimEntry, ...] = ()
    language: str = "en-US"
    key_images: tuple[EncodedImage, ...] = ()
    images_left_out: int = 0
