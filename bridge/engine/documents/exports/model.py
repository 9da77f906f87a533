"""
What an export is made of: a report as it is to be shown, with its site and its people.

Filled by the engine's services, read by every format. Holds facts only: no words of any
language, no layout, and no report whose access has not been checked before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bridge.engine.documents.uploads.images import KeyImage
from bridge.engine.rules.text.document import Document


class PageSize(StrEnum):
    """The paper of a printed report, in the spelling of the site's setting."""

    A4 = "A4"
    LETTER = "Letter"


@dataclass(frozen=True, slots=True)
class Image:
    """An image as the site or user uploaded it, after `images.accept`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Person:
    """A user, as `signedBy`, `prelimBy` and `reviewedBy` show one."""

    name: str
    email: str
    signature: Image | None = None
    text: str = ""  # what stands behind the name: a title, a registration number


@dataclass(frozen=True, slots=True)
class Site:
    """The site's part of an export; `time_zone` is an IANA name or ''."""

    name: str
    header_image: Image | None = None
    footer_image: Image | None = None
    time_zone: str = ""
    page_size: PageSize = PageSize.A4


@dataclass(frozen=True, slots=True)
class ExportedAddendum:
    """One signed addendum."""

    body: Document
    signed_at: datetime
    signed_by: Person


@dataclass(frozen=True, slots=True)
class PrelimRead:
    """One preliminary read; reviewed when another user went on from it."""

    tag_name: str
    tag_group: str
    at: datetime
    by: Person
    reviewed_at: datetime | None = None
    reviewed_by: Person | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """
    One report: orders anchor first, signed addenda and prelim reads oldest first.

    All times are aware. `signed_at` and `signed_by` are None while the report is unsigned.
    `images_left_out` counts the key images that are too many or too large to print.
    """

    site: Site
    orders: tuple[Mapping[str, str], ...]
    status: str
    body: Document
    signed_at: datetime | None = None
    signed_by: Person | None = None
    addenda: tuple[ExportedAddendum, ...] = ()
    prelims: tuple[PrelimRead, ...] = ()
    language: str = "en-US"
    key_images: tuple[KeyImage, ...] = ()
    images_left_out: int = 0
