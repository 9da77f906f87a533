"""
The tables of the engine, as SQLModel classes; a test compares them with the migrations.

Moments are integers, milliseconds since the Unix epoch, so that both databases compare them alike.
The type of JSON columns is `JSON`, not `JSONB`, because the order of a sender's Metadata keys is
kept.

Secrets are not stored: tokens, handles and session secrets as their SHA-256, a password as its
Argon2 hash. The payload of a link is sealed. The row of a window is deleted with its stream.

The orders of a report have positions in linking order: position 0 is the anchor. A release is
written in the transaction that causes it, a change in the transaction that makes it.
"""

from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    BigInteger,
    Enum,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel
from typing_extensions import override

from bridge.contract import ReportStatus
from bridge.engine.rules.lifecycle import AddendumState, FileKind, ReleaseKind, ReportOrigin
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.engine.rules.text.billing import CodeSystem
from bridge.store.columns import (
    BIG_KEY,
    binary,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Record(SQLModel):
    """The base of all tables of the engine. The bridge's tables have other metadata."""

    metadata = metadata

    @override
    def __repr__(self) -> str:
        """Show the class name only: a row may contain data that must not be logged."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__


def foreign_key_to(
    target: str,
    *,
    required: bool = True,
    index: bool = True,
    on_delete: Literal["CASCADE", "SET NULL"] | None = None,
) -> Any:
    """Return a reference to another table's key, such as `engine_report.pk`."""
    options: dict[str, Any] = {} if required else {"default": None}
    if on_delete:
        options["ondelete"] = on_delete
    return Field(**options, foreign_key=target, sa_type=BIG_KEY, index=index, nullable=not required)


def json_list() -> Any:
    """Return a JSON list, initially empty. Replace it: changes in place are not noticed."""
    return Field(default_factory=list, sa_type=JSON)


def binary_or_none() -> Any:
    """Return an optional column of bytes."""
    return Field(default=None, sa_type=LargeBinary)


def enum_type(kind: type[StrEnum]) -> Any:
    """Return the column type of an enumeration: stored as its value, read as its member."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=False,
        length=32,
        values_callable=lambda members: [member.value for member in members],
    )


class Site(Record, table=True):
    """An organization. Every report belongs to one."""

    __tablename__ = "engine_site"

    site_id: str = Field(primary_key=True)
    name: str = ""
    time_zone: str = "UTC"
    sign_delay: int = 0  # seconds; 0 switches the cooling period off
    locations: list[str] = json_list()
    host_origins: list[str] = json_list()
    settings: dict[str, Any] = json_object()
    header_img_type: str | None = None
    header_img: str | None = None  # base64 without a prefix
    footer_img: str | None = None  # a data URI
    created_at: int = moment()


class Account(Record, table=True):
    """
    A person, or a program with access tokens; identified by a canonical e-mail address.

    The secret of one-time codes (RFC 6238) is sealed with the key ring; `totp_step` is the newest
    time step whose code was accepted.
    """

    __tablename__ = "engine_account"

    id: int | None = key()
    email: str = Field(unique=True)
    password_hash: str | None = None
    second_factor_required: bool = False  # the account has a console role
    totp_key_id: str | None = None
    totp_sealed: bytes | None = binary_or_none()
    totp_step: int | None = Field(default=None, sa_type=BigInteger)
    created_at: int = moment()
    enrolled_at: int | None = moment_or_none()  # when the owner first set a password or signed in
    disabled_at: int | None = moment_or_none()


class Enrolment(Record, table=True):
    """A one-time link with which the owner of an account sets a password; stored as a hash."""

    __tablename__ = "engine_enrolment"

    pk: int | None = key()
    token_hash: str = Field(unique=True)  # SHA-256, hexadecimal
    account_id: int = foreign_key_to("engine_account.id")
    totp_key_id: str | None = None
    totp_sealed: bytes | None = binary_or_none()
    created_at: int = moment()
    expires_at: int = moment()
    used_at: int | None = moment_or_none()
    ended_at: int | None = moment_or_none()  # replaced by a newer link, or account disabled


class SignInBucket(Record, table=True):
    """
    The remaining sign-in attempts of a bucket: the moment at which it is full again (GCRA).

    Rows with a `full_at` of 0 are no buckets: they name undeclared proxies.
    """

    __tablename__ = "engine_sign_in_bucket"

    name: str = Field(primary_key=True)
    full_at: int = moment(index=True)  # milliseconds of the clock of service.accounts.sign_in_limit


class SiteMembership(Record, table=True):
    """
    An account on a site: its role there, and what the site knows about the person.

    It stays when the person leaves, so that their reports keep the author's name.
    """

    __tablename__ = "engine_membership"

    site_id: str = Field(primary_key=True, foreign_key="engine_site.site_id")
    account_id: int = Field(primary_key=True, foreign_key="engine_account.id", sa_type=BIG_KEY)
    role: SiteRole = Field(default=SiteRole.USER, sa_type=enum_type(SiteRole))
    name: str = ""
    signature: str | None = None  # a data URI
    settings: dict[str, Any] = json_object()
    created_at: int = moment()
    left_at: int | None = moment_or_none()


class AccessToken(Record, table=True):
    """
    An access token. A service token administers every site.

    A token that a site's administrator made is valid for that site only.
    """

    __tablename__ = "engine_access_token"

    id: int | None = key()
    token_hash: str = Field(unique=True)  # SHA-256, hexadecimal
    account_id: int | None = foreign_key_to("engine_account.id", required=False)
    site_id: str | None = None
    label: str = ""
    service: bool = False
    scopes: list[str] = json_list()
    created_at: int = moment()
    expires_at: int | None = moment_or_none()
    last_used_at: int | None = moment_or_none()
    revoked_at: int | None = moment_or_none()


class PrelimGroup(Record, table=True):
    """A site's group of preliminary readers; `configured` is false for one added on first use."""

    __tablename__ = "engine_prelim_group"
    __table_args__ = (UniqueConstraint("site_id", "name"),)

    id: int | None = key()
    site_id: str = Field(foreign_key="engine_site.site_id")
    name: str
    tags: list[str] = json_list()
    members: list[str] = json_list()  # e-mail addresses
    reviewers: list[str] | None = json_or_none()  # None: everybody who is in no group
    configured: bool = True


class CodeMap(Record, table=True):
    """One row of a site's billing code map, in the order in which it was supplied."""

    __tablename__ = "engine_code_map"

    id: int | None = key()
    site_id: str = Field(foreign_key="engine_site.site_id", index=True)
    system: CodeSystem = Field(sa_type=enum_type(CodeSystem))
    match: str
    code: str
    description: str = ""


class Template(Record, table=True):
    __tablename__ = "engine_template"
    __table_args__ = (UniqueConstraint("site_id", "number"),)

    id: int | None = key()
    site_id: str = Field(foreign_key="engine_site.site_id")
    number: int
    name: str
    document: dict[str, Any] = json_object()
    settings: dict[str, Any] = json_object()
    updated_at: int = moment()


class Macro(Record, table=True):
    """A text with a short trigger, of a site (no account) or of one user on that site."""

    __tablename__ = "engine_macro"
    __table_args__ = (UniqueConstraint("site_id", "account_id", "trigger"),)

    id: int | None = key()
    site_id: str = Field(foreign_key="engine_site.site_id")
    account_id: int | None = foreign_key_to("engine_account.id", required=False, index=False)
    trigger: str
    name: str = ""
    document: dict[str, Any] = json_object()
    updated_at: int = moment()


class IssuedLink(Record, table=True):
    """A link that was issued. The payload is sealed; `target` finds the links of one order."""

    __tablename__ = "engine_link"

    pk: int | None = key()
    handle_hash: str = Field(unique=True)
    purpose: str
    site_id: str = Field(foreign_key="engine_site.site_id")
    key_id: str
    sealed: bytes = binary()
    target: str | None = Field(default=None, index=True)  # keyed hash of site, patient, accession
    account_id: int | None = foreign_key_to("engine_account.id", required=False)
    token_id: int | None = foreign_key_to("engine_access_token.id", required=False)
    authority_token_id: int | None = Field(default=None, sa_type=BIG_KEY, index=True)
    framed: bool = False
    created_at: int = moment()
    expires_at: int = moment(index=True)
    opened_at: int | None = moment_or_none()
    revoked_at: int | None = moment_or_none()


class BrowserSessionRow(Record, table=True):
    """A browser session; the browser has the secret, the table its hash."""

    __tablename__ = "engine_browser_session"

    pk: int | None = key()
    secret_hash: str = Field(unique=True)
    site_id: str | None = Field(default=None, foreign_key="engine_site.site_id")
    account_id: int = foreign_key_to("engine_account.id")
    link_pk: int | None = foreign_key_to("engine_link.pk", required=False)
    identity_link_pk: int | None = Field(default=None, sa_type=BIG_KEY, index=True)
    framed: bool = False
    details: dict[str, Any] = json_object()
    created_at: int = moment()
    last_seen_at: int = moment()
    expires_at: int = moment(index=True)
    ended_at: int | None = moment_or_none()


class AuditEventRow(Record, table=True):
    """
    One audit event (`bridge.audit`); each row's hash includes the row before it.

    It has no foreign keys to accounts and tokens, because it outlives them.
    """

    __tablename__ = "engine_audit_event"
    __table_args__ = (
        Index("ix_engine_audit_event_site", "site_id", "sequence"),
        {"sqlite_autoincrement": True},
    )

    sequence: int | None = key()
    at: int = moment()
    site_id: str | None = None
    action: str
    outcome: str
    account_id: int | None = Field(default=None, sa_type=BIG_KEY)
    token_id: int | None = Field(default=None, sa_type=BIG_KEY)
    report_id: str | None = Field(default=None, index=True)
    details: dict[str, Any] = json_object()
    previous_hash: str
    hash: str
    version: int = Field(default=1, sa_type=SmallInteger, sa_column_kwargs={"server_default": "1"})
    actor: str | None = None
    origin: str | None = Field(default=None, index=True)
    source: str | None = None
    node: str | None = None
    target_type: str | None = None
    target_id: str | None = None
    before: dict[str, Any] | None = json_or_none()
    after: dict[str, Any] | None = json_or_none()
    event_id: str | None = Field(default=None, unique=True)


class AnonymousRefusals(Record, table=True):
    """
    Refusals of unauthenticated callers, counted per minute, outside of the hash chain.

    `minute` is its start in milliseconds; `source` is an address, an IPv6 network, or `others`.
    """

    __tablename__ = "engine_audit_anonymous"

    minute: int = Field(primary_key=True, sa_type=BigInteger)
    action: str = Field(primary_key=True)
    code: str = Field(primary_key=True)
    source: str = Field(primary_key=True)
    count: int = Field(sa_type=BigInteger)


class IndexKey(Record, table=True):
    """The fingerprint of the key with which identifiers are hashed; one row."""

    __tablename__ = "engine_index_key"

    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    fingerprint: str = Field(sa_type=Text)


class Idempotency(Record, table=True):
    """The response to a request with an Idempotency-Key, which a repeated request gets."""

    __tablename__ = "engine_idempotency"

    key: str = Field(primary_key=True)
    token_id: int = Field(primary_key=True)
    route: str = Field(primary_key=True)
    request_hash: str
    status: int
    response: dict[str, Any] | None = json_or_none()
    at: int = moment(index=True)


class Window(Record, table=True):
    """An open report page; the process that serves its stream renews `seen_at`."""

    __tablename__ = "engine_window"
    __table_args__ = (Index("ix_engine_window_user", "account_id", "site_id"),)

    session_pk: int = Field(
        foreign_key="engine_browser_session.pk",
        primary_key=True,
        sa_type=BIG_KEY,
        ondelete="CASCADE",
        sa_column_kwargs={"autoincrement": False},
    )
    site_id: str = Field(foreign_key="engine_site.site_id")
    account_id: int = foreign_key_to("engine_account.id", index=False)
    report_id: str = Field(index=True)
    persistent: bool = False  # whether it follows launches (SyncLaunch)
    stream: str  # the stream that renews the row; a newer stream replaces it
    seen_at: int = moment()


class SyncTarget(Record, table=True):
    """The newest launch with SyncLaunch of a user on a site, and its outcome."""

    __tablename__ = "engine_sync_target"

    site_id: str = Field(foreign_key="engine_site.site_id", primary_key=True)
    account_id: int = Field(foreign_key="engine_account.id", primary_key=True, sa_type=BIG_KEY)
    sequence: int = Field(sa_type=BIG_KEY)
    handle_hash: str  # the hash of the launch's link
    report_id: str | None = None  # None until the report is created
    accession: str
    launched_at: int = moment()
    answer: FollowAnswer = Field(sa_type=enum_type(FollowAnswer))
    reason: str = ""  # why the window did not follow


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
    status: ReportStatus = Field(sa_type=enum_type(ReportStatus))
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


class ReportOrder(Record, table=True):
    """An order, identified by site, patient and accession; it belongs to exactly one report."""

    __tablename__ = "engine_report_order"
    __table_args__ = (
        UniqueConstraint("site_id", "mrn", "accession"),  # also serves look-ups by patient
        Index("ix_engine_report_order_group", "report_pk", "position"),
        Index("ix_engine_report_order_accession", "site_id", "accession"),
        # the orders that are reported elsewhere
        Index(
            "ix_engine_report_order_elsewhere",
            "report_pk",
            sqlite_where=text("elsewhere_since IS NOT NULL"),
            postgresql_where=text("elsewhere_since IS NOT NULL"),
        ),
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
    elsewhere_since: int | None = moment_or_none()  # reported elsewhere, and not put back
    elsewhere: dict[str, Any] | None = json_or_none()  # the last such message {at, sender, status}
    merged_from: list[Any] | None = json_or_none()  # [{mrn, tags}]: the numbers that it left, and
    # the patient's tags that it had with each
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
    """One signing of a report, also if it was unsigned: the text as it was signed."""

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
    cleared: list[dict[str, Any]] = json_list()  # the addenda that unsigning cleared


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


class OutsideReport(Record, table=True):
    """
    A report that was not made here. `document_hash` identifies it at its sender.

    `mrn` is the number in its messages, also after a merge; empty if they have none.
    """

    __tablename__ = "engine_outside_report"
    __table_args__ = (
        UniqueConstraint("site_id", "sender", "document_hash"),
        Index("ix_engine_outside_report_mrn", "site_id", "mrn"),
        Index("ix_engine_outside_report_accession", "site_id", "accession"),
    )

    pk: int | None = key()
    outside_id: str = Field(unique=True)
    site_id: str = Field(foreign_key="engine_site.site_id")
    sender: str
    document_hash: str
    mrn: str
    accession: str
    created_at: int = moment()
    updated_at: int = moment()


class OutsideVersion(Record, table=True):
    """A version of an outside report as it was sent; it never changes."""

    __tablename__ = "engine_outside_version"
    __table_args__ = (UniqueConstraint("outside_pk", "digest"),)

    pk: int | None = key()
    outside_pk: int = Field(
        foreign_key="engine_outside_report.pk", sa_type=BIG_KEY, ondelete="CASCADE"
    )
    digest: str  # of the content: a retransmission is no version
    number: str
    number_hash: str = Field(index=True)
    parent_hash: str = Field(index=True)
    status: str = Field(max_length=32)
    code: str  # the status as sent
    at: int | None = moment_or_none()
    sent_at: int | None = moment_or_none()
    received_at: int = moment()
    title: str
    author: str
    tags: dict[str, Any] = json_object()
    content_text: str = Field(default="", sa_type=Text)
    omitted: list[str] = json_list()  # the types of the parts that are not shown
    pdfs: int = 0  # its files


class OutsideFile(Record, table=True):
    """A PDF file of a version of an outside report; positions begin at 1."""

    __tablename__ = "engine_outside_file"
    __table_args__ = (UniqueConstraint("version_pk", "position"),)

    pk: int | None = key()
    version_pk: int = Field(
        foreign_key="engine_outside_version.pk", sa_type=BIG_KEY, ondelete="CASCADE"
    )
    position: int
    content: bytes = binary()


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
