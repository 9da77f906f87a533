"""
Upkeep by commands: retention, rotation of the link keys, and facts for checks and for the trail.

Only the application of an operator has these routes. Each call is short; a command repeats it until
nothing is left.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from pydantic import StrictInt
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from bridge.contract.requests import Body
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.service import change_feed, idempotency
from bridge.engine.service.accounts import audit_queries, second_factor, sessions
from bridge.engine.service.accounts.sign_in_limit import undeclared_proxies
from bridge.engine.service.launch import links
from bridge.engine.service.launch.links import LinkKeys

BATCH = 1000

router = APIRouter(prefix="/api/admin/operator", route_class=AdminRoute)


class PruneBody(Body):
    """`before` in ms; changes after the cursor `upTo` stay."""

    before: StrictInt
    upTo: StrictInt | None = None  # noqa: N815  # the spelling of the interface


class ResealBody(Body):
    after: StrictInt = 0


class ReportsBody(Body):
    reports: list[str]


@router.post("/prune")
async def prune(body: PruneBody, request: Request) -> Response:
    """Remove some old rows of each kind; return how many."""
    before = body.before
    kinds: dict[str, Callable[[Connection], int]] = {
        "changes": partial(change_feed.prune_changes, before=before, limit=BATCH, up_to=body.upTo),
        # sessions refer to links, so they are removed first
        "sessions": partial(sessions.purge_sessions, now=before),
        "links": partial(links.purge_before, moment=before),
        "answers": partial(idempotency.purge_before, moment=before),
        "refusals": partial(audit_queries.purge_before, moment=before),
    }
    work = engine_of(request).work
    return JSONResponse({kind: await work.write(remove) for kind, remove in kinds.items()})


@router.post("/reseal/links")
async def reseal_links(body: ResealBody, request: Request) -> Response:
    """Seal the next links with the newest key; `older`: all that have an older key before that."""
    engine = engine_of(request)
    link_keys = LinkKeys(engine.keys, engine.random)

    def apply(connection: Connection) -> dict[str, Any]:
        older = links.count_older(connection, link_keys, engine.clock())
        step = links.reseal(connection, link_keys, engine.clock(), body.after)
        return {**asdict(step), "older": older}

    return JSONResponse(await engine.work.write(apply))


@router.post("/reseal/secrets")
async def reseal_secrets(request: Request) -> Response:
    """Seal the stored answers and the secrets of one-time codes with the newest key."""
    engine = engine_of(request)

    def apply(connection: Connection) -> dict[str, int]:
        answers = idempotency.reseal(connection, engine.keys)
        codes = second_factor.reseal(connection, engine.keys)
        return {"moved": answers[0] + codes[0], "unreadable": answers[1] + codes[1]}

    return JSONResponse(await engine.work.write(apply))


@router.get("/undeclared-proxies")
async def list_undeclared_proxies(request: Request) -> Response:
    """Return the addresses of proxies that the settings do not name."""
    return JSONResponse(await engine_of(request).work.read(undeclared_proxies))


@router.get("/anonymous-refusals")
async def list_anonymous_refusals(
    request: Request, since: int | None = None, limit: int = 100
) -> Response:
    """Return the counts of refused anonymous requests, newest first; `since` in ms."""
    read = partial(audit_queries.newest_anonymous, since=since, limit=limit)
    return JSONResponse(await engine_of(request).work.read(read))


@router.post("/reports")
async def describe_reports(body: ReportsBody, request: Request) -> Response:
    """Return the sites of reports, including deleted ones, and the patients of those that exist."""

    def reading(connection: Connection) -> dict[str, Any]:
        return {
            "sites": audit_queries.sites_of(connection, body.reports),
            "patients": audit_queries.patients_of(connection, body.reports),
        }

    return JSONResponse(await engine_of(request).work.read(reading))
