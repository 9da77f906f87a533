"""
Tables of reports: orders, addenda, reads, signatures, files, releases, and the change feed.

The orders of a report have positions in linking order: position 0 is the anchor. A release is
written in the transaction that causes it, a change in the transaction that makes it.
"""

from typing import Any

from sqlalchemy import BigInteger, Index, Text, UniqueConstraint, text
from sqlmodel import Field
from typing_extensions import override

from bridge.engine.records.columns import (
    Record,
    binary,
    enum_type,
    foreign_key_to,
    json_list,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
)
from bridge.engine.rules.lifecycle import AddendumState, FileKind, ReleaseKind, ReportOrigin, Status
from bridge.store.columns import BIG_KEY

DETACHED = "_alone"
"""Marks a report that no ORM session tracks, so that setting its attributes bypasses the ORM."""


class Report(Record, table=True):
    """One report: one status, one owner and one content for all its orders."""

    __tablename__ = "engine_report"
    __table_args__ = (
        # the worklist: one site, newest change first, with or without a status
        Index("ix_engine_report_worklist", "site_id", "updated_at", "pk"),
        # the same, by the moment of creation
        Index("ix_engine_report_created", "site_id", "created_at", "pk"),
        # the few orders that a page has opened and in which nothing is written yet
        Index(
            "ix_engine_report_untouched",
            "untouched_since",
            sqlite_where=text("untouched_since IS NOT NULL"),
            postgresql_where=text("untouched_since IS NOT NULL"),
        ),
    )

    pk: int | None = key()
    report_id: str = Field(unique=True)  # random, so that nobody can guess it
    site_id: str = Field(foreign_key="engine_site.site_id")
    status: Status = Field(sa_type=enum_type(Status))
    origin: ReportOrigin = Field(sa_type=enum_type(ReportOrigin))
    owner_id: int | None = foreign_key_to("engine_account.id", required=False)
    document: dict[str, Any] | None = json_or_none()
    content_text: str = Field(default="", sa_type=Text)
    key_findings: str = Field(default="", sa_type=Text)
    template_number: int | None = None  # the template that was applied
    reporting: dict[str, Any] = json_object()  # the launch's reportingApp
    signed_at: int | None = moment_or_none()
    signed_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    signed_by: dict[str, Any] | None = json_or_none()  # {name, email, signature} at the signing
    signed_zone: str | None = None  # IANA name, if the signing named one
    content_hash: str | None = None
    cooling_until: int | None = moment_or_none()  # None once released
    lease_holder: str | None = None  # the session that writes
    lease_until: int | None = moment_or_none()
    untouched_since: int | None = moment_or_none()  # a page opened it; nothing is written yet
    version: int = 1
    created_at: int = moment()
    updated_at: int = moment()

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self)
        if DETACHED in own:
            own[name] = value
        else:
            super().__setattr__(name, value)


class ReportOrder(Record, table=True):
    """An order, identified by site, patient and accession; it belongs to exactly one report."""

    __tablename__ = "engine_report_order"
    __table_args__ = (
        UniqueConstraint("site_id", "mrn", "accession"),  # also serves look-ups by patient
        Index("ix_engine_report_order_group", "report_pk", "position"),
        Index("ix_engine_report_order_accession", "site_id", "accession"),
    )

    pk: int | None = key()
    report_pk: int = Field(foreign_key="engine_report.pk", sa_type=BIG_KEY)
    position: int = 0
    site_id: str
    mrn: str
    accession: str
    location: str = ""
    tags: dict[str, Any] = json_object()  # the clinicalInfo tags that have a value
    order_metadata: dict[str, Any] = json_object()
    search: str = Field(default="", sa_type=Text)  # the text that the worklist's `q` searches
    created_at: int = moment()
    updated_at: int = moment()


class Addendum(Record, table=True):
    """Text added to a signed report; `number` counts within the report and is never reused."""

    __tablename__ = "engine_addendum"
    __table_args__ = (UniqueConstraint("report_pk", "number"),)

    pk: int | None = key()
    report_pk: int = Field(foreign_key="engine_report.pk", sa_type=BIG_KEY, ondelete="CASCADE")
    number: int
    state: AddendumState = Field(default=AddendumState.DRAFT, sa_type=enum_type(AddendumState))
    document: dict[str, Any] | None = json_or_none()
    content_text: str = Field(default="", sa_type=Text)
    created_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    created_at: int = moment()
    signed_at: int | None = moment_or_none()
    signed_by: dict[str, Any] | None = json_or_none()
    content_hash: str | None = None
    cooling_until: int | None = moment_or_none()
    released_at: int | None = moment_or_none()
    version: int = 1


class PrelimRead(Record, table=True):
    """A preliminary read: who read it, when, for which group and tag, and the text at that time."""

    __tablename__ = "engine_prelim_read"
    __table_args__ = (Index("ix_engine_prelim_read_queue", "group_name", "tag_name", "read_at"),)

    pk: int | None = key()
    report_pk: int = foreign_key_to("engine_report.pk", on_delete="CASCADE")
    group_name: str
    tag_name: str
    read_at: int = moment()
    read_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    read_by: dict[str, Any] = json_object()
    document: dict[str, Any] | None = json_or_none()
    content_text: str = Field(default="", sa_type=Text)
    reviewed_at: int | None = moment_or_none()
    reviewed_by: dict[str, Any] | None = json_or_none()
    withdrawn_at: int | None = moment_or_none()


class Signature(Record, table=True):
    """One signing of a report, also if it was recalled: the text as it was signed."""

    __tablename__ = "engine_signature"

    pk: int | None = key()
    report_pk: int = foreign_key_to("engine_report.pk", on_delete="CASCADE")
    signed_at: int = moment()
    signed_by: dict[str, Any] = json_object()
    acted_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    document: dict[str, Any] | None = json_or_none()
    content_text: str = Field(default="", sa_type=Text)
    content_hash: str
    withdrawn_at: int | None = moment_or_none()
    cleared: list[dict[str, Any]] = json_list()  # the addenda that the recall cleared


class ReportFile(Record, table=True):
    """A DICOM structured report or a key image of a report."""

    __tablename__ = "engine_report_file"
    __table_args__ = (UniqueConstraint("report_pk", "kind", "sha256"),)

    pk: int | None = key()
    report_pk: int = Field(foreign_key="engine_report.pk", sa_type=BIG_KEY, ondelete="CASCADE")
    kind: FileKind = Field(sa_type=enum_type(FileKind))
    sha256: str
    sop_instance_uid: str | None = None
    media_type: str = ""
    name: str = ""
    data: bytes = binary()
    details: dict[str, Any] = json_object()
    orders: list[int] = json_list()  # keys of the orders that it was sent for
    created_at: int = moment()


class Share(Record, table=True):
    """A read-only link to a report that a user created; only the hash of the handle is stored."""

    __tablename__ = "engine_share"

    pk: int | None = key()
    report_pk: int = foreign_key_to("engine_report.pk", on_delete="CASCADE")
    handle_hash: str = Field(unique=True)
    created_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    created_at: int = moment()
    expires_at: int | None = moment_or_none()
    revoked_at: int | None = moment_or_none()


class Billing(Record, table=True):
    """Billing codes generated for a report."""

    __tablename__ = "engine_billing"

    pk: int | None = key()
    report_pk: int = foreign_key_to("engine_report.pk", on_delete="CASCADE")
    codes: dict[str, Any] = json_object()  # {cpt: {Code, Description} | None, icd10: […]}
    created_at: int = moment()


class DraftKey(Record, table=True):
    """The key with which a user's page encrypts unsaved text on the user's computer."""

    __tablename__ = "engine_journal_key"

    report_pk: int = Field(
        primary_key=True, foreign_key="engine_report.pk", sa_type=BIG_KEY, ondelete="CASCADE"
    )
    account_id: int = Field(primary_key=True, foreign_key="engine_account.id", sa_type=BIG_KEY)
    secret: bytes = binary()
    created_at: int = moment()


class DeletedReport(Record, table=True):
    """A deleted report: its id and when it was deleted."""

    __tablename__ = "engine_tombstone"

    report_id: str = Field(primary_key=True)
    site_id: str = Field(foreign_key="engine_site.site_id", index=True)
    deleted_at: int = moment()
    deleted_by_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)


class PatientPointer(Record, table=True):
    """A merged patient identifier, and the current one (never a chain)."""

    __tablename__ = "engine_patient_pointer"
    __table_args__ = (Index("ix_engine_patient_pointer_mrn", "site_id", "mrn"),)

    site_id: str = Field(primary_key=True, foreign_key="engine_site.site_id")
    prior_mrn: str = Field(primary_key=True)
    mrn: str
    merged_at: int = moment()
    merged_into: str | None = None
    """The identifier that the merge named; it may have been merged later."""


class ReportRelease(Record, table=True):
    """A report or addendum to be delivered, at once or at the end of a cooling period."""

    __tablename__ = "engine_release"
    __table_args__ = (
        UniqueConstraint("report_pk", "kind", "sequence"),
        # the release scheduler: pending releases by due time
        Index("ix_engine_release_due", "released_at", "due_at"),
    )

    pk: int | None = key()
    report_pk: int = Field(foreign_key="engine_report.pk", sa_type=BIG_KEY, ondelete="CASCADE")
    addendum_pk: int | None = foreign_key_to(
        "engine_addendum.pk", required=False, on_delete="SET NULL"
    )
    kind: ReleaseKind = Field(sa_type=enum_type(ReleaseKind))
    sequence: int
    due_at: int = moment()
    released_at: int | None = moment_or_none()


class FeedChange(Record, table=True):
    """One change of one report; cursors increase in commit order."""

    __tablename__ = "engine_change"
    __table_args__ = (
        Index("ix_engine_change_site", "site_id", "cursor"),
        {"sqlite_autoincrement": True},  # the cursor of a pruned change is never reused
    )

    cursor: int | None = key()
    site_id: str = Field(foreign_key="engine_site.site_id")
    report_id: str = Field(index=True)
    at: int = moment()
    event: str
    body: dict[str, Any] = json_object()
    session_pk: int | None = Field(default=None, sa_type=BigInteger)  # the page that made it
