"""Open a report link (interface document, States: what happens when the link is opened).

A lazy launch comes into being here, at the first opening. A Draft of somebody else is
not taken before the user has agreed, or the launch has forced it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from bridge.engine.errors import Forbidden
from bridge.engine.launching.errors import FrameForbidden, LinkGone, LoginNeeded
from bridge.engine.launching.languages import first_language
from bridge.engine.launching.request import LaunchRequest
from bridge.engine.links import Purpose
from bridge.engine.records.tables import Report, metadata
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import SIGNED
from bridge.engine.service.accounts.sessions import NewSession, Session, begin_session
from bridge.engine.service.accounts.users import Person, get_person, settings_of
from bridge.engine.service.caller import SITES, Visitor, account_role
from bridge.engine.service.launch import links
from bridge.engine.service.launch.seating import (
    Seat,
    WindowFacts,
    seat_again,
    seat_for,
    window_facts,
)
from bridge.engine.service.launch.starting import begin, bring, give, known_names, refuse_other_name
from bridge.engine.service.live.windows import writing_window
from bridge.engine.service.report_lookup import (
    current_triple,
    lock_orders,
    lock_patients,
    lock_report_by_id,
)
from bridge.engine.service.reports.files import separate
from bridge.engine.service.signing import lease
from bridge.engine.service.work import Work
from bridge.engine.service.worklist.assignment import needs_transfer
from bridge.engine.settings import Lifetimes

GROUPS = metadata.tables["engine_prelim_group"]


@dataclass(frozen=True, slots=True)
class Visit:
    """
    How a link was visited.

    `session` is the one that the browser had, pre-warmed perhaps, `host` the origin of the page
    that frames this one, where the browser says so.
    """

    handle: str
    in_frame: bool = False
    visitor: Visitor | None = None
    session: Session | None = None
    host: str = ""
    handed_over: bool = False
    """Whether the window that writes the report has been asked to save its text."""


class HandoverNeeded(Exception):  # noqa: N818  # named for what is to be done first
    """An open window of another user writes the report that is to be taken."""

    def __init__(self, report_id: str) -> None:
        super().__init__("the window that writes the report saves its text first")
        self.report_id = report_id


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened document: what its page needs to begin."""

    secret: str
    site_id: str
    report_id: str
    account: Person
    framed: bool
    transfer: bool
    owner_name: str
    language: str
    theme: str
    prelim_groups: Sequence[dict[str, Any]]
    host_origins: Sequence[str]
    window: WindowFacts


@dataclass(frozen=True, slots=True)
class Door:
    """Keys and lifetimes that opening needs."""

    vault: links.Vault
    lifetimes: Lifetimes


def open_link(work: Work, door: Door, visit: Visit) -> Opened:
    """Open a link; raise `LinkGone`, `LinkExpired`, `LoginNeeded` or `FrameForbidden`."""
    link = links.find(work.connection, door.vault, visit.handle, Purpose.LAUNCH, work.now)
    return open_found(work, door, link, visit)


def open_found(work: Work, door: Door, link: links.FoundLink, visit: Visit) -> Opened:
    """Open a link that was found; raise `LinkGone`, `LoginNeeded` or `FrameForbidden`."""
    account = _user(work, link, visit)
    request = LaunchRequest.from_json(link.payload["launch"])
    report = _report(work, link, request, account)
    transfer = needs_transfer(report, account.id) and not request.force_transfer
    if not transfer:
        _require_handover(work, report, account.id, visit)
        give(work, report, account.id)
    links.mark_opened(work.connection, link, work.now)
    work.session.flush()
    seat = seat_for(work, link, request.app, account.id, in_frame=visit.in_frame, host=visit.host)
    seat = seat.warmed_by(visit.session, link.site_id, account.id)
    return present(
        work, door, report, account, seat, wishes=request.app.to_json(), transfer=transfer
    )


def _require_handover(work: Work, report: Report, account_id: int, visit: Visit) -> None:
    """Raise `HandoverNeeded` while another user's open window writes the report."""
    taken = report.status not in SIGNED and report.owner_id not in (None, account_id)
    if not taken or visit.handed_over:
        return
    if writing_window(work.connection, report.report_id, None, work.now) is not None:
        raise HandoverNeeded(report.report_id)


def _user(work: Work, link: links.FoundLink, visit: Visit) -> Person:
    """Return as whom a link opens: its own user, or the visitor who signed in."""
    if visit.in_frame and not link.framed:
        raise FrameForbidden
    if link.payload["authenticated"] and link.account_id is not None:
        return get_person(work.connection, link.site_id, link.account_id)
    account_id = visit.visitor.on(link.site_id) if visit.visitor is not None else None
    if account_id is None:
        raise LoginNeeded
    if account_role(work.connection, account_id, link.site_id) is None:
        raise Forbidden
    return get_person(work.connection, link.site_id, account_id)


def _report(work: Work, link: links.FoundLink, request: LaunchRequest, account: Person) -> Report:
    lock_patients(work, request.triple.site_id, [request.triple.mrn])
    triple = current_triple(work.connection, request.triple)
    found = lock_orders(work, [triple], current=True)[0]
    creates = bool(link.payload["creates"])
    if found is None:
        if not creates:
            raise LinkGone
        links.hold(work.connection, link)
    # A launch is brought in once: a second opening must not undo what came later.
    if creates and not link.opened and (found is None or found.report.status not in SIGNED):
        request = separate(work, request, triple)
        _refuse_other_name(work, request, triple)
        if found is not None:
            bring(work, found.report, found.order, request)
    return begin(work, request, triple, account) if found is None else found.report


def _refuse_other_name(work: Work, request: LaunchRequest, triple: Triple) -> None:
    """Check again: the patient may have got another name since the launch."""
    names = known_names(work, triple.site_id, [triple.mrn])
    refuse_other_name(names.get(triple.mrn, ()), request)


def reopen(work: Work, door: Door, session: Session) -> Opened:
    """Open the document of a session again, after its page was loaded anew."""
    report = lock_report_by_id(work, session.report_id)
    account = get_person(work.connection, report.site_id, session.account_id)
    lease.release(work, session.holder, report)  # the page that held it is gone
    transfer = needs_transfer(report, account.id)
    if not transfer:
        give(work, report, account.id)
    work.session.flush()
    seat = seat_again(work, session)
    return present(work, door, report, account, seat, wishes=report.reporting, transfer=transfer)


def take_over(work: Work, report_id: str, account_id: int) -> Report:
    """Take a Draft over from its owner: the user has agreed to the prompt."""
    return give(work, lock_report_by_id(work, report_id), account_id)


def present(
    work: Work,
    door: Door,
    report: Report,
    account: Person,
    seat: Seat,
    *,
    transfer: bool,
    wishes: Mapping[str, Any],
) -> Opened:
    """Begin the document's session and gather what its page needs."""
    site = work.connection.execute(select(SITES).where(SITES.c.site_id == report.site_id)).one()
    own = settings_of(work.connection, report.site_id, account.id)
    language = seat.chosen or _language(own, wishes, seat.languages, site.settings)
    details = {"report_id": report.report_id, "app_language": language, **seat.details}
    new = NewSession(report.site_id, account.id, seat.framed, seat.link_pk, details)
    return Opened(
        secret=begin_session(
            work.connection, door.vault.random_bytes, new, work.now, door.lifetimes
        ),
        site_id=report.site_id,
        report_id=report.report_id,
        account=account,
        framed=seat.framed,
        transfer=transfer,
        owner_name=_owner_name(work, report),
        language=language,
        theme=str(own.get("theme", "dark")),
        prelim_groups=_groups(work, report.site_id),
        host_origins=tuple(site.host_origins),
        window=window_facts(work, report.report_id, seat, site, door.lifetimes),
    )


def _owner_name(work: Work, report: Report) -> str:
    if report.owner_id is None:
        return ""
    return get_person(work.connection, report.site_id, report.owner_id).shown


def _language(
    own: Mapping[str, object], wishes: Any, warmed: Mapping[str, str], site_settings: Any
) -> str:
    choices = (own.get("AppLanguage"), site_settings.get("AppLanguage"))
    asked = (wishes.get("app_language"), warmed.get("app_language"))
    return first_language([*asked, *(str(each or "") for each in choices)])


def _groups(work: Work, site_id: str) -> list[dict[str, Any]]:
    query = select(GROUPS.c.name, GROUPS.c.tags).where(GROUPS.c.site_id == site_id)
    rows = work.connection.execute(query.order_by(GROUPS.c.name))
    return [{"name": row.name, "tags": list(row.tags)} for row in rows]
