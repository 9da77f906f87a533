"""
Tables of access: links, browser sessions and their windows, the audit trail, stored responses.

Handles and session secrets are stored as hashes only; the payload of a link is sealed. The row of a
window is deleted with its stream, and each user has one row of the launch to follow.
"""

from typing import Any

from sqlalchemy import BigInteger, Index, SmallInteger, Text
from sqlmodel import Field

from bridge.engine.records.columns import (
    Record,
    binary,
    enum_type,
    foreign_key_to,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
)
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.store.columns import BIG_KEY


class IssuedLink(Record, table=True):
    """A link that was given out. The payload is sealed; `target` finds the links of one order."""

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
    count: int = moment()


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
