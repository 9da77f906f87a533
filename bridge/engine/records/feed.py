"""
Tables of the output: releases for delivery, and the change feed in commit order.

A release is written in the transaction that causes it, a change in the transaction that makes it.
"""

from typing import Any

from sqlalchemy import BigInteger, Index, UniqueConstraint
from sqlmodel import Field

from bridge.engine.records.columns import (
    Record,
    enum_type,
    foreign_key_to,
    json_object,
    key,
    moment,
    moment_or_none,
)
from bridge.engine.rules.status import ReleaseKind
from bridge.store.columns import BIG_KEY


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
