"""
Options of the window that opens a report: frame, host, languages, and whether it follows launches.

They are stored in the session's details. `link_opening` decides whether the report may be opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import func, select

from bridge.engine.launch_request import ReportingOptions
from bridge.engine.records.tables import FeedChange, metadata
from bridge.engine.rules.sync_launch import FollowAnswer, is_persistent
from bridge.engine.service.accounts.sessions import BrowserSession, idle_seconds
from bridge.engine.service.launch import links
from bridge.engine.service.live import sync_launch
from bridge.engine.service.sites.preferences import preferences_of, read_preferences
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes

CHANGES = metadata.tables[str(FeedChange.__tablename__)]
KEPT_DETAILS = ("in_frame", "host", "persistent", "sync_sequence", "prewarmed", "chosen_language")
"""Session details that are kept when the page is reloaded."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The link, and the options of the window, with which a report is opened."""

    framed: bool  # whether it may be shown in a frame
    link_pk: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def languages(self) -> Mapping[str, str]:
        """The languages that the window was pre-warmed with."""
        return dict(self.details.get("prewarmed", {}))

    @property
    def chosen_language(self) -> str:
        """The language that the user chose on a reloaded page; else empty."""
        return str(self.details.get("chosen_language", ""))

    def with_prewarmed_languages(
        self, session: BrowserSession | None, site_id: str, account_id: int
    ) -> "WindowOptions":
        """Add the languages of a session that was pre-warmed for this user and site."""
        same = session is not None and (session.site_id, session.account_id) == (
            site_id,
            account_id,
        )
        if session is None or not same or not session.languages:
            return self
        return replace(self, details={**self.details, "prewarmed": session.languages})


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """Facts about its window that the page needs: start of the live feed, expiry of the session."""

    cursor: int
    idle_seconds: int
    expires_at: int
    persistent: bool
    web_view_objects: bool
    any_host: bool

    def as_json(self) -> dict[str, Any]:
        """Return the boot's member `window` (web/src/report/boot.ts)."""
        return {
            "cursor": self.cursor,
            "idleSeconds": self.idle_seconds,
            "expiresAt": self.expires_at,
            "persistent": self.persistent,
            "webViewObjects": self.web_view_objects,
            "anyHost": self.any_host,
        }


def options_for_link(
    work: Work,
    link: links.FoundLink,
    app: ReportingOptions,
    account_id: int,
    *,
    in_frame: bool,
    host: str,
) -> WindowOptions:
    """Return the options of a window that opens a link."""
    site = preferences_of(work.connection, link.site_id)
    persistent = is_persistent(
        requested=app.sync_launch, in_frame=in_frame, frames_follow=site.syncLaunchInFrame
    )
    details: dict[str, Any] = {"in_frame": in_frame, "host": host, "persistent": persistent}
    if persistent:
        details["sync_sequence"] = _sequence(work, link, account_id)
    return WindowOptions(link.framed, link.pk, details)


def _sequence(work: Work, link: links.FoundLink, account_id: int) -> int:
    """
    Return the newest launch that the window has seen.

    The first window of a link follows launches that came later; a window that opens the link again
    stays at this report.
    """
    target = sync_launch.current_target(work.connection, link.site_id, account_id)
    if target is None:
        return 0
    own = int(link.payload.get("sync_sequence", 0))
    if own == target.sequence:
        owner = (link.site_id, account_id)
        sync_launch.answer(work.connection, owner, own, FollowAnswer.FOLLOWED)
    return target.sequence if link.opened or not own else own


def options_for_reload(work: Work, session: BrowserSession) -> WindowOptions:
    """Return the options of a window whose page is reloaded."""
    details = {name: session.details[name] for name in KEPT_DETAILS if name in session.details}
    return WindowOptions(
        session.framed, session.link_pk, details
    )  # so that the session ends with the link's token


def window_facts(
    work: Work, report_id: str, window: WindowOptions, site: Any, life: AccessLifetimes
) -> WindowFacts:
    """Return the window facts; `site` is its row, and the report must be locked."""
    newest = select(func.max(CHANGES.c.cursor)).where(CHANGES.c.report_id == report_id)
    return WindowFacts(
        cursor=work.connection.execute(newest).scalar_one() or 0,
        idle_seconds=idle_seconds(site.settings, life),
        expires_at=work.now + life.session * 1000,
        persistent=bool(window.details.get("persistent")),
        web_view_objects=read_preferences(site.settings).webViewObjects,
        # An administrator's link, on a site without configured host origins.
        any_host=window.framed and not site.host_origins,
    )
