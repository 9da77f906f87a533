"""
Who asks, and whether a page of ours asks: what stands before every endpoint of the console.

A cookie comes along with any request, so what changes something must come from our own pages;
where a request comes from is told by the headers that no page can set.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request

from bridge.console import grants, trail
from bridge.console.backstage import Backstage
from bridge.console.errors import ConsoleError, ForeignPage, NotPermitted, SignedOut, Unreachable
from bridge.console.permissions import Grant, Permission
from bridge.console.trail import Deed
from bridge.engine_client.errors import EngineFailure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, and what they may."""

    grant: Grant
    name: str
    theme: str


def backstage_of(request: Request) -> Backstage:
    """Give what the application was joined with."""
    backstage: Backstage = request.app.state.backstage
    return backstage


async def person_of(request: Request) -> Person:
    """Say who asks. Raises SignedOut, NotPermitted, ForeignPage, Unreachable."""
    if request.method != "GET" and not _from_our_page(request):
        raise ForeignPage
    backstage = backstage_of(request)
    unattended = "x-unattended" in request.headers
    try:
        visitor = await backstage.visitor(request.headers.get("cookie", ""), unattended)
    except EngineFailure:
        raise Unreachable from None
    if visitor is None:
        raise SignedOut
    grant = await asyncio.to_thread(grants.find, backstage.database, visitor.email)
    if grant is None:
        raise NotPermitted(Permission.SEE)
    return Person(grant, visitor.name, visitor.theme)


async def act(
    request: Request,
    person: Person,
    permission: Permission,
    deed: tuple[str, str],
    work: Callable[[], T],
) -> T:
    """
    Do something for a person on a thread, and record it: done, or refused and why.

    `deed` is its action and its subject. The record is written first where it went well, for
    what cannot be recorded must not be told.
    """
    backstage = backstage_of(request)
    action, subject = deed

    def run() -> T:
        try:
            person.grant.require(permission)
            done = work()
        except ConsoleError as refusal:
            refused = Deed(person.grant.email, action, subject, refusal.code)
            trail.note(backstage.database, refused, backstage.clock())
            raise
        trail.note(backstage.database, Deed(person.grant.email, action, subject), backstage.clock())
        return done

    return await asyncio.to_thread(run)


def _from_our_page(request: Request) -> bool:
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site == "same-origin"
    host = urlsplit(request.headers.get("origin", "")).netloc.lower()
    return bool(host) and host == request.headers.get("host", "").lower()


PersonDep = Annotated[Person, Depends(person_of)]
BackstageDep = Annotated[Backstage, Depends(backstage_of)]
