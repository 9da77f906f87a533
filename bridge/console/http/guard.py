"""
Who asks, and whether a page of ours asks: what stands before every endpoint of the console.

A cookie comes along with any request, so what changes something must come from our own pages;
where a request comes from is told by the headers that no page can set.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request

from bridge.audit import outbox
from bridge.audit.events import AuditEvent
from bridge.console import grants
from bridge.console.audit_trail import Deed, note
from bridge.console.errors import (
    ForeignPage,
    NotPermitted,
    NotTaken,
    SignedOut,
    Unknown,
    Unreachable,
)
from bridge.console.permissions import Grant, Permission, Session, admit, require_fresh
from bridge.console.services import Backstage
from bridge.engine_client.errors import EngineFailure
from bridge.executors import Threads

T = TypeVar("T")

_READING = frozenset({"GET", "HEAD"})
_LONGEST = 64  # characters of a name in an event's target


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, what they may, and when (ms) they last proved who they are."""

    grant: Grant
    name: str
    theme: str
    authenticated_at: int


def backstage_of(request: Request) -> Backstage:
    """Give what the application was joined with."""
    backstage: Backstage = request.app.state.backstage
    return backstage


async def person_of(request: Request) -> Person:
    """Say who asks. Raises SignedOut, NotPermitted, SessionRefused, ForeignPage, Unreachable."""
    backstage = backstage_of(request)
    unattended = "x-unattended" in request.headers
    try:
        visitor = await backstage.visitor(request.headers.get("cookie", ""), unattended)
    except EngineFailure:
        raise Unreachable from None
    if visitor is None:
        raise SignedOut
    request.state.known = visitor.email
    if request.method not in _READING and not _from_our_page(request):
        raise ForeignPage
    grant = await Threads.CONSOLE.run(grants.find, backstage.database, visitor.account_id)
    if grant is None:
        raise NotPermitted(Permission.SEE)
    session = Session(visitor.site, visitor.authenticated_at, visitor.second_factor)
    own = admit(grant, session, second_factor=backstage.second_factor)
    return Person(
        replace(own, email=visitor.email), visitor.name, visitor.theme, visitor.authenticated_at
    )


@dataclass(frozen=True, slots=True)
class Act:
    """
    What is done, on what, and what it needs.

    `sites` gives those of what it is about, or raises Unknown; None: it is about no site.
    `rule` raises where one more rule forbids it. `fresh` tells whether the person must have
    proved who they are within the last ten minutes.
    """

    permissions: tuple[Permission, ...]
    action: str
    subject: str = ""
    sites: Callable[[], Collection[str]] | None = None
    reason: str = ""
    rule: Callable[[], None] = lambda: None
    fresh: Callable[[], bool] = lambda: False


def always() -> bool:
    """Say that an act needs a fresh proof of identity, whatever it changes."""
    return True


async def act(request: Request, person: Person, wanted: Act, work: Callable[[], T]) -> T:
    """
    Do something for a person on a thread, and record it: done, or refused and why.

    The record is written before anything is told, for what cannot be recorded must not be told.
    """
    backstage = backstage_of(request)
    request.state.is_recorded = True

    def run() -> T:
        event = _event(request, person, wanted)
        with outbox.recorded(backstage.database, event, backstage.clock()) as recording:
            recording.describe(site_id=_allowed(backstage, person, wanted) or None)
            return work()

    return await Threads.CONSOLE.run(run)


async def act_and_wait(
    request: Request, person: Person, wanted: Act, work: Callable[[], Awaitable[T]]
) -> T:
    """Do something for a person by asking somebody else, and record it, as `act` does."""
    backstage = backstage_of(request)
    database, now = backstage.database, backstage.clock()
    request.state.is_recorded = True
    recording = outbox.Recording(_event(request, person, wanted))
    try:
        site = await Threads.CONSOLE.run(_allowed, backstage, person, wanted)
        recording.describe(site_id=site or None)
        with recording.enqueued(database, now):
            done = await _asked(work)
    except Exception as error:
        await Threads.CONSOLE.run(recording.fail, database, error, now)
        raise
    await Threads.CONSOLE.run(recording.finish, database, now)
    return done


async def note_refusal(request: Request, code: str) -> None:
    """
    Record that a request of somebody known was refused before `act` recorded its action.

    Requests that only read, and those of unknown browsers, leave no event.
    """
    email = getattr(request.state, "known", "")
    if not email or request.method in _READING or hasattr(request.state, "is_recorded"):
        return
    backstage = backstage_of(request)
    action = str(getattr(request.scope.get("route"), "name", "request")).replace("_", " ")
    source = _client(request)
    refusal = Deed(email, action, _subject(request), code, source=source)
    await Threads.CONSOLE.run(note, backstage.database, refusal, backstage.clock())


def _subject(request: Request) -> str:
    """Name what the path names: people as `user`, anything else by its name in the route."""
    named = {"who": "user", "email": "user"}
    return ", ".join(
        f"{named.get(name, name)} {str(value)[:_LONGEST]}"
        for name, value in request.path_params.items()
    )


async def _asked(work: Callable[[], Awaitable[T]]) -> T:
    """Let the service's refusals be ours: its words are its own, and may be shown."""
    try:
        return await work()
    except EngineFailure as failure:
        if failure.status is None:
            raise Unreachable from None
        raise NotTaken(failure.status, failure.code) from None


def allowed(person: Person, permission: Permission, site: str) -> None:
    """Raise NotPermitted or Unknown unless a person may do something on a site."""
    person.grant.require(permission)
    within_reach(person, [site])


def within_reach(person: Person, sites: Collection[str]) -> None:
    """Raise Unknown where something is not of the person's sites: it is as if it were not there."""
    if not person.grant.reaches(sites):
        raise Unknown


def _allowed(backstage: Backstage, person: Person, wanted: Act) -> str:
    """Give the one site that an act is about; '' where there are none or several."""
    for permission in wanted.permissions:
        person.grant.require(permission)
    sites: Collection[str] = ()
    if wanted.sites is not None:
        sites = wanted.sites()
        within_reach(person, sites)
    wanted.rule()
    if wanted.fresh():
        require_fresh(person.authenticated_at, backstage.clock())
    named = set(sites) - {"*"}
    return named.pop() if len(named) == 1 else ""


def _event(request: Request, person: Person, wanted: Act) -> AuditEvent:
    source = _client(request)
    deed = Deed(
        person.grant.email, wanted.action, wanted.subject, reason=wanted.reason, source=source
    )
    return replace(deed.event(), event_id=secrets.token_hex(16))


def _client(request: Request) -> str:
    """Return the address of the person's browser."""
    peer = request.client.host if request.client else ""
    return backstage_of(request).proxies.client(request.headers, peer)


def _from_our_page(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site == "same-origin"
    host = urlsplit(request.headers.get("origin", "")).netloc.lower()
    return bool(host) and host == request.headers.get("host", "").lower()


async def _person(request: Request) -> Person:
    """Return whom `ConsoleRoute` has identified before the body was read."""
    person: Person = request.state.person
    return person


PersonDep = Annotated[Person, Depends(_person)]
BackstageDep = Annotated[Backstage, Depends(backstage_of)]
