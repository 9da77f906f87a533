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
from bridge.console.audit_trail import ConsoleAction, record_action
from bridge.console.context import ConsoleContext
from bridge.console.errors import (
    EngineRefusal,
    EngineUnreachable,
    ForeignOrigin,
    NoSuchItem,
    PermissionDenied,
    SignInRequired,
)
from bridge.console.permissions import ConsoleSession, Grant, Permission, admit, require_fresh
from bridge.engine_client.errors import EngineFailure
from bridge.executors import Threads

T = TypeVar("T")

_READING = frozenset({"GET", "HEAD"})
_LONGEST = 64  # characters of a name in an event's target


@dataclass(frozen=True, slots=True)
class ConsoleUser:
    """Who asks, what they may, and when (ms) they last proved who they are."""

    grant: Grant
    name: str
    theme: str
    authenticated_at: int


def context_of(request: Request) -> ConsoleContext:
    """Give what the application was joined with."""
    context: ConsoleContext = request.app.state.context
    return context


async def authenticate(request: Request) -> ConsoleUser:
    """Say who asks. Raises SignedOut, NotPermitted, SessionRefused, ForeignPage, Unreachable."""
    context = context_of(request)
    unattended = "x-unattended" in request.headers
    try:
        signed_in_user = await context.signed_in_user(request.headers.get("cookie", ""), unattended)
    except EngineFailure:
        raise EngineUnreachable from None
    if signed_in_user is None:
        raise SignInRequired
    request.state.known = signed_in_user.email
    if request.method not in _READING and not _from_our_page(request):
        raise ForeignOrigin
    grant = await Threads.CONSOLE.run(
        grants.active_grant_of, context.database, signed_in_user.account_id
    )
    if grant is None:
        raise PermissionDenied(Permission.SEE)
    session = ConsoleSession(
        signed_in_user.site, signed_in_user.authenticated_at, signed_in_user.second_factor
    )
    own = admit(grant, session, second_factor=context.second_factor)
    return ConsoleUser(
        replace(own, email=signed_in_user.email),
        signed_in_user.name,
        signed_in_user.theme,
        signed_in_user.authenticated_at,
    )


@dataclass(frozen=True, slots=True)
class AuditedAction:
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


def always_fresh() -> bool:
    """Say that an act needs a fresh proof of identity, whatever it changes."""
    return True


async def run_audited(
    request: Request, user: ConsoleUser, wanted: AuditedAction, work: Callable[[], T]
) -> T:
    """
    Do something for a person on a thread, and record it: done, or refused and why.

    The record is written before anything is told, for what cannot be recorded must not be told.
    """
    context = context_of(request)
    request.state.is_recorded = True

    def run() -> T:
        event = _event(request, user, wanted)
        with outbox.recorded(context.database, event, context.clock()) as recording:
            recording.describe(site_id=_allowed(context, user, wanted) or None)
            return work()

    return await Threads.CONSOLE.run(run)


async def await_audited(
    request: Request, user: ConsoleUser, wanted: AuditedAction, work: Callable[[], Awaitable[T]]
) -> T:
    """Do something for a person by asking somebody else, and record it, as `run_audited` does."""
    context = context_of(request)
    database, now = context.database, context.clock()
    request.state.is_recorded = True
    recording = outbox.Recording(_event(request, user, wanted))
    try:
        site = await Threads.CONSOLE.run(_allowed, context, user, wanted)
        recording.describe(site_id=site or None)
        with recording.enqueued(database, now):
            done = await _asked(work)
    except Exception as error:
        await Threads.CONSOLE.run(recording.fail, database, error, now)
        raise
    await Threads.CONSOLE.run(recording.finish, database, now)
    return done


async def record_refusal(request: Request, code: str) -> None:
    """
    Record that a request of somebody known was refused before `act` recorded its action.

    Requests that only read, and those of unknown browsers, leave no event.
    """
    email = getattr(request.state, "known", "")
    if not email or request.method in _READING or hasattr(request.state, "is_recorded"):
        return
    context = context_of(request)
    action = str(getattr(request.scope.get("route"), "name", "request")).replace("_", " ")
    source = _client(request)
    refusal = ConsoleAction(email, action, _subject(request), code, source=source)
    await Threads.CONSOLE.run(record_action, context.database, refusal, context.clock())


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
            raise EngineUnreachable from None
        raise EngineRefusal(failure.status, failure.code) from None


def require_on_site(user: ConsoleUser, permission: Permission, site: str) -> None:
    """Raise NotPermitted or Unknown unless a person may do something on a site."""
    user.grant.require(permission)
    require_reach(user, [site])


def require_reach(user: ConsoleUser, sites: Collection[str]) -> None:
    """Raise Unknown where something is not of the person's sites: it is as if it were not there."""
    if not user.grant.reaches(sites):
        raise NoSuchItem


def _allowed(context: ConsoleContext, user: ConsoleUser, wanted: AuditedAction) -> str:
    """Give the one site that an act is about; '' where there are none or several."""
    for permission in wanted.permissions:
        user.grant.require(permission)
    sites: Collection[str] = ()
    if wanted.sites is not None:
        sites = wanted.sites()
        require_reach(user, sites)
    wanted.rule()
    if wanted.fresh():
        require_fresh(user.authenticated_at, context.clock())
    named = set(sites) - {"*"}
    return named.pop() if len(named) == 1 else ""


def _event(request: Request, user: ConsoleUser, wanted: AuditedAction) -> AuditEvent:
    source = _client(request)
    action = ConsoleAction(
        user.grant.email, wanted.action, wanted.subject, reason=wanted.reason, source=source
    )
    return replace(action.event(), event_id=secrets.token_hex(16))


def _client(request: Request) -> str:
    """Return the address of the person's browser."""
    peer = request.client.host if request.client else ""
    return context_of(request).proxies.client(request.headers, peer)


def _from_our_page(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site == "same-origin"
    host = urlsplit(request.headers.get("origin", "")).netloc.lower()
    return bool(host) and host == request.headers.get("host", "").lower()


async def _person(request: Request) -> ConsoleUser:
    """Return whom `ConsoleRoute` has identified before the body was read."""
    user: ConsoleUser = request.state.user
    return user


UserDep = Annotated[ConsoleUser, Depends(_person)]
ContextDep = Annotated[ConsoleContext, Depends(context_of)]
