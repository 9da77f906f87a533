"""
The tables of open windows: which stand open, and which study each user's windows should follow.

Neither is history: a window's row goes with its stream, a user has one row of what to follow.
"""

from sqlalchemy import Index
from sqlmodel import Field

from bridge.engine.records.columns import Record, enum_type, foreign_key_to, moment
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.store.columns import BIG_KEY


class Window(Record, table=True):
    """An open report page; whoever serves its stream renews `seen_at`."""

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
    persistent: bool = False  # follows SyncLaunch
    stream: str  # the stream that keeps it; a newer one takes over
    seen_at: int = moment()


class SyncTarget(Record, table=True):
    """The newest launch with SyncLaunch of a user on a site, and what came of it."""

    __tablename__ = "engine_sync_target"

    site_id: str = Field(foreign_key="engine_site.site_id", primary_key=True)
    account_id: int = Field(foreign_key="engine_account.id", primary_key=True, sa_type=BIG_KEY)
    sequence: int = Field(sa_type=BIG_KEY)
    handle_hash: str  # the launch's link; its content is sealed there
    report_id: str | None = None  # None while the report is yet to be created
    accession: str
    launched_at: int = moment()
    answer: FollowAnswer = Field(sa_type=enum_type(FollowAnswer))
    reason: str = ""  # why it was refused
