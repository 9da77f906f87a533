"""
The tables of the engine's edge: links, browser sessions, the audit trail, repeated requests.

Handles and session secrets are stored as hashes only; a link's payload is sealed.
"""

from typing import Any

from sqlalchemy import Index
from sqlmodel import Field

from bridge.engine.records.columns import (
    Record,
    json_object,
    json_or_none,
    key,
    moment,
    moment_or_none,
    octets,
    refers,
)


class Link(Record, table=True):
    """A link that was given out: what it holds is sealed, `target` finds the links of one order."""

    __tablename__ = "engine_link"

    pk: int | None = key()
    handle_hash: str = Field(unique=True)
    purpose: str
    site_id: str = Field(foreign_key="engine_site.site_id")
    key_id: str
    sealed: bytes = octets()
    target: str | None = Field(default=None, index=True)  # keyed hash of site, patient, accession
    account_id: int | None = refers("engine_account.id", required=False)
    token_id: int | None = refers("engine_access_token.id", required=False)
    framed: bool = False
    created_at: int = moment()
    expires_at: int = moment(index=True)
    opened_at: int | None = moment_or_none()
    revoked_at: int | None = moment_or_none()


class BrowserSession(Record, table=True):
    """Somebody's signed-in browser; the secret is in the browser, its hash here."""

    __tablename__ = "engine_browser_session"

    pk: int | None = key()
    secret_hash: str = Field(unique=True)
    site_id: str = Field(foreign_key="engine_site.site_id")
    account_id: int = refers("engine_account.id")
    link_pk: int | None = refers("engine_link.pk", required=False)
    framed: bool = False
    details: dict[str, Any] = json_object()
    created_at: int = moment()
    last_seen_at: int = moment()
    expires_at: int = moment(index=True)
    ended_at: int | None = moment_or_none()


class AuditEvent(Record, table=True):
    """One audited deed; each row's hash covers the row before it."""

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
    account_id: int | None = refers("engine_account.id", required=False, index=False)
    token_id: int | None = refers("engine_access_token.id", required=False, index=False)
    report_id: str | None = Field(default=None, index=True)
    details: dict[str, Any] = json_object()
    previous_hash: str
    hash: str


class Idempotency(Record, table=True):
    """An answered request with an Idempotency-Key, so that its repeat gets the same answer."""

    __tablename__ = "engine_idempotency"

    key: str = Field(primary_key=True)
    token_id: int = Field(primary_key=True)
    route: str = Field(primary_key=True)
    request_hash: str
    status: int
    response: dict[str, Any] | None = json_or_none()
    at: int = moment(index=True)
