"""
Tables of open windows, and of the launch that each user's windows should follow.

Neither is history: the row of a window is deleted with its stream, and each user has one row of the
launch to follow.
"""

from sqlalchemy import Index
from sqlmodel import Field

from bridge.engine.records.columns import Record, enum_type, foreign_key_to, moment
from bridge.engine.rules.sync_launch import FollowAnswer
from bridge.store.columns import BIG_KEY


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
    persistent: bool = False  # follows SyncLaunch
    stream: str  # the stream that renews it; a newer stream replaces it
    seen_at: int = moment()


class SyncTarget(Record, table=True):
    """The newest launch with SyncLaunch of a user on a site, and its outcome."""

    __tablename__ = "engine_sync_target"

    site_id: str = Field(foreign_key="engine_site.site_id", primary_key=True)
    account_id: int = Field(foreign_key="engine_account.id", primary_key=True, sa_type=BIG_KEY)
    sequence: int = Field(sa_type=BIG_KEY)
    handle_hash: str  # of the launch's link, which has the sealed payload
    report_id: str | None = None  # None until the report is created
    accession: str
    launched_at: int = moment()
    answer: FollowAnswer = Field(sa_type=enum_type(FollowAnswer))
    reason: str = ""  # why it was refused
