"""
Users of a site and their access tokens, and who may do what in the console.

Nobody takes over an account that may more here than they do: not by a password, not by a token.
"""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request

from bridge.console import grants
from bridge.console.errors import Impossible, NotPermitted, Unknown
from bridge.console.http.bodies import GrantBody
from bridge.console.http.guard import Act, BackstageDep, Person, PersonDep, act
from bridge.console.http.route import ConsoleRoute
from bridge.console.http.sites import Json, Name, Site, change
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.store.database import Database

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.post("/sites/{site}/users")
async def set_user(
    site: Site, body: Json, request: Request, person: PersonDep, backstage: BackstageDep
) -> Any:
    """Add a user to a site, or change their name, role or password there."""
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "users")
    own = _no_better(backstage.database, person, email, site)
    return await change(request, person, f"change user {email}", path, body, own)


@router.delete("/sites/{site}/users/{email}")
async def remove_user(
    site: Site, email: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> Any:
    """Take a user off a site; their reports stay."""
    path = ("DELETE", "sites", site, "users", email)
    own = _no_better(backstage.database, person, email, site)
    return await change(request, person, "remove user", path, None, own)


@router.post("/sites/{site}/tokens")
async def create_token(
    site: Site, body: Json, request: Request, person: PersonDep, backstage: BackstageDep
) -> Any:
    """Make a token for a user of the site; its secret is in this answer and nowhere else."""
    email = str(body.get("email", ""))
    path = ("POST", "sites", site, "tokens")
    own = _no_better(backstage.database, person, email, site)
    return await change(request, person, f"make token for {email}", path, body, own)


@router.delete("/sites/{site}/tokens/{token}")
async def revoke_token(site: Site, token: int, request: Request, person: PersonDep) -> Any:
    """Revoke a token, and the links that were made with it."""
    path = ("DELETE", "sites", site, "tokens", str(token))
    return await change(request, person, "revoke token", path)


@router.get("/grants")
async def list_grants(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List who may do what in the console."""
    person.grant.require(Permission.GRANT)
    found = await Threads.CONSOLE.run(grants.everybody, backstage.database)
    return {
        "rows": [
            {
                "email": each.email,
                "role": each.role,
                "bodies": each.bodies,
                "sites": None if each.sites is None else sorted(each.sites),
            }
            for each in found
        ]
    }


@router.put("/grants/{email}")
async def give(
    email: Name, body: GrantBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Give a person a role, in the place of the one they had; nobody changes their own."""

    def work() -> None:
        _not_oneself(person, email)
        grants.give(backstage.database, body.grant(email), backstage.clock(), person.grant.email)

    deed = Act((Permission.GRANT,), "grant", f"{email} {body.role}")
    await act(request, person, deed, work)
    return {}


@router.delete("/grants/{email}")
async def take(
    email: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Take a person's role away; nobody takes their own."""

    def work() -> None:
        _not_oneself(person, email)
        if not grants.take(backstage.database, email):
            raise Unknown

    await act(request, person, Act((Permission.GRANT,), "revoke", email), work)
    return {}


def _not_oneself(person: Person, email: str) -> None:
    if email.strip().lower() == person.grant.email:
        raise Impossible("nobody changes their own role")


def _no_better(
    database: Database, person: Person, email: str, site: str
) -> Callable[[], list[str]]:
    """Give the site, unless an account may more here than the person: what `Act.sites` asks."""

    def sites() -> list[str]:
        other = grants.find(database, email)
        if other is not None and not person.grant.covers(other):
            raise NotPermitted("administer who may more here than you")
        return [site]

    return sites
