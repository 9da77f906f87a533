"""
What goes to the report service and what comes back, as values.

The interface document's records with Python's names. Knows no HTTP; JSON is read in `replies`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.contract import ReportStatus

SIGNED = frozenset({ReportStatus.FINAL, ReportStatus.ADDENDUM})


@dataclass(frozen=True, slots=True)
class OrderKey:
    """The triple that identifies an order and its report."""

    site: str
    mrn: str
    accession: str

    def tags(self) -> dict[str, str]:
        """Give the triple under the interface document's names."""
        return {"SiteID": self.site, "PatientMRN": self.mrn, "Accession": self.accession}


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """
    The report status record.

    `orders` holds the anchor first, then linked orders in linking order; times are
    milliseconds since the epoch. `has_content` and `addendum_unsign_until` are our
    engine's additions: None where a service does not say.
    """

    report_id: str
    status: ReportStatus
    user_email: str
    unsign_until: int | None
    orders: tuple[OrderKey, ...]
    has_content: bool | None = None
    addendum_unsign_until: int | None = None


@dataclass(frozen=True, slots=True)
class QRCode:
    """How a QR code shall look: `size` standard | mini, `mode` light | dark."""

    size: str = "standard"
    mode: str = "light"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """For whom a report is launched; `auth` is a site administrator's token."""

    email: str
    name: str
    auth: str = ""
    force_ownership_transfer: bool = False


@dataclass(frozen=True, slots=True)
class KeyImage:
    """An image to attach, base64."""

    image_data: str
    content_type: str
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch request; `register_order` is our addition (DESIGN chapter 6)."""

    clinical_info: Mapping[str, Any]
    reporting_app: Mapping[str, Any] = field(default_factory=dict)
    response_type: str = "link"
    qr_code: QRCode | None = None
    user: UserInfo | None = None
    lazy: bool = False
    register_order: bool = False
    link_group: str = ""
    """Orders of one batch with the same name share one report where they are new; our addition."""
    force_update_patient_name: bool = False
    dicom_sr: tuple[str, ...] = ()
    key_images: tuple[KeyImage, ...] = ()

    @property
    def site(self) -> str:
        """The site whose token must be used."""
        return str(self.clinical_info.get("SiteID", ""))


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What a launch answers; `report_id` and `report_status` are our engine's additions."""

    status: str
    owner_name: str
    owner_email: str
    link: str
    qr_code: str
    report_id: str = ""
    report_status: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionLink:
    """A pre-warm link and the ISO 8601 time until which it can be loaded."""

    link: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class ExportedPerson:
    """Who signed, preliminaried or reviewed; `signature` is an image or None."""

    name: str = ""
    email: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ExportedText:
    """The report's text or an addendum's, with ISO 8601 time and person; unsigned: None."""

    content: str
    signed_at: str | None
    signed_by: ExportedPerson | None


@dataclass(frozen=True, slots=True)
class ExportedPrelim:
    """One preliminary read."""

    name: str
    group: str
    at: str | None
    by: ExportedPerson | None
    reviewed_at: str | None
    reviewed_by: ExportedPerson | None


@dataclass(frozen=True, slots=True)
class ReportExport:
    """The JSON export record."""

    site_info: Mapping[str, Any]
    orders: tuple[Mapping[str, Any], ...]
    report: ExportedText
    addenda: tuple[ExportedText, ...]
    prelims: tuple[ExportedPrelim, ...]


@dataclass(frozen=True, slots=True)
class PrelimMatch:
    """The longest-waiting preliminary read of a group and tag; `report_id` '' when none."""

    report_id: str
    user_email: str
    orders: tuple[OrderKey, ...]


@dataclass(frozen=True, slots=True)
class FeedRelease:
    """What left the cooling period: kind final | addendum | retraction, counted per kind."""

    kind: str
    sequence: int


@dataclass(frozen=True, slots=True)
class ReportChange:
    """
    One entry of the change feed (DESIGN chapter 6); `at` in milliseconds.

    `addenda` is the place of a released addendum among those of the export, from 1, or the one
    that a withdrawn addendum had. Its number may be higher: numbers of addenda that a recall
    cleared are not used again.
    `cancelled`: the order of a report that was deleted does not come back.
    """

    cursor: int
    at: int
    event: str
    record: StatusRecord
    orders: tuple[Mapping[str, Any], ...]
    release: FeedRelease | None
    addenda: int | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in commit order, and the cursor to go on from."""

    changes: tuple[ReportChange, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class PatientUpdate:
    """Demographics that changed, under the interface document's tag names."""

    site: str
    mrn: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorklistPage:
    """Rows of the worklist, and the cursor of the next page ('' at the end)."""

    items: tuple[Mapping[str, Any], ...]
    next: str


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """An account; `enrolled`: its owner has set a password once, or came in by the provider."""

    account_id: str
    email: str
    disabled: bool
    enrolled: bool
    sites: frozenset[str] = frozenset()
    second_factor: bool = False
    password: bool = False


@dataclass(frozen=True, slots=True)
class EnrolmentLink:
    """A one-time link for the owner; None where a provider signs people in. Time in ms."""

    link: str | None
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """
    A signed-in person, their session, and how they like their pages.

    `site` is the one site that the session is good for; None: all of the account's.
    `authenticated_at`, in ms, is when the person last proved who they are. `second_factor`: they
    did so with a one-time code or at an identity provider.
    """

    account_id: str
    email: str
    name: str
    theme: str
    site: str | None
    authenticated_at: int
    second_factor: bool
