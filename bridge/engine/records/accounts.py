"""
Tables of sites, accounts and tokens, and of access: links, sessions, windows, the audit trail.

Secrets are not stored: tokens, handles and session secrets as their SHA-256, a password as its
Argon2 hash. The payload of a link is sealed. The row of a window is deleted with its stream.
"""

from typing import Any

from sqlalchemy import BigInteger, Index, SmallInteger, Text, UniqueConstraint
from sqlmodel import Field

from bridge.engine.records.columns import (
    Record,
    binary,
    binary_or_none,
    enum_type,
    foreign_key_to,
    json_list,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
)
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.engine.rules.text.billing import CodeSystem
from bridge.store.columns import BIG_KEY


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
    site_id: str = Field(foreign_key="engine_site.site_id")
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
