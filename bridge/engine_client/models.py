"""
Values that the report service receives and returns, with Python names.

`responses` reads them from JSON.
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
        """Return the triple with the names of the interface reference."""
        return {"SiteID": self.site, "PatientMRN": self.mrn, "Accession": self.accession}


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """
    The report status record.

    `orders` starts with the anchor, followed by the linked orders in linking order. Times are
    milliseconds since the epoch. `has_content` and `addendum_unsign_until` are additions of our
    engine, and None for other services.
    """

    report_id: str
    status: ReportStatus
    user_email: str
    unsign_until: int | None
    orders: tuple[OrderKey, ...]
    has_content: bool | None = None
    addendum_unsign_until: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch request; `register_order` and `link_group` are additions of our engine."""

    clinical_info: Mapping[str, Any]
    reporting_app: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False
    register_order: bool = False
    link_group: str = ""
    """New orders of one batch with the same name share one report."""
    force_update_patient_name: bool = False

    @property
    def site(self) -> str:
        """The site that determines the access token."""
        return str(self.clinical_info.get("SiteID", ""))


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """The response to a launch; `report_id` and `report_status` are additions of our engine."""

    status: str
    report_id: str = ""
    report_status: str = ""


@dataclass(frozen=True, slots=True)
class ExportedPerson:
    """A person who signed a report; `signature` is an image or None."""

    name: str = ""
    email: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ExportedText:
    """The text of a report or addendum; time (ISO 8601) and person are None while unsigned."""

    content: str
    signed_at: str | None
    signed_by: ExportedPerson | None


@dataclass(frozen=True, slots=True)
class ReportExport:
    """The JSON export record; mappings have the member names of the interface reference."""

    site_info: Mapping[str, Any]
    orders: tuple[Mapping[str, Any], ...]
    report: ExportedText
    addenda: tuple[ExportedText, ...]
    prelims: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class FeedRelease:
    """A release: `kind` final | addendum | retraction; `sequence` is its number within the kind."""

    kind: str
    sequence: int


@dataclass(frozen=True, slots=True)
class ReportChange:
    """
    One entry of the change feed; `at` in milliseconds.

    `addenda` is the position of a released addendum in the export, counted from 1; for a
    retraction, the position before it. The sequence number may be higher, because numbers of
    recalled addenda are not used again. `cancelled`: the order of a deleted report is cancelled.
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
    """Changes in commit order, and the cursor of the next page."""

    changes: tuple[ReportChange, ...]
    cursor: int


@dataclass(frozen=True, slots=True)
class PatientUpdate:
    """Changed demographics, with the tag names of the interface reference."""

    site: str
    mrn: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorklistPage:
    """Rows of the worklist, and the cursor of the next page ('' if it is the last one)."""

    items: tuple[Mapping[str, Any], ...]
    next: str


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """An account; `enrolled`: its owner has set a password or signed in by a provider."""

    account_id: str
    email: str
    disabled: bool
    enrolled: bool
    sites: frozenset[str] = frozenset()
    second_factor: bool = False
    password: bool = False


@dataclass(frozen=True, slots=True)
class EnrolmentLink:
    """The enrolment link of an account; None if a provider signs its users in. Time in ms."""

    link: str | None
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """
    The signed-in user of a browser session.

    `site` is the only site of the session; None means all sites of the account.
    `authenticated_at` (ms) is the time of the last authentication. `second_factor`: it used a
    one-time code or an identity provider.
    """

    account_id: str
    email: str
    name: str
    theme: str
    site: str | None
    authenticated_at: int
    second_factor: bool
