"""The dashboard, listeners and destinations, "where is it", and the record of deeds."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from bridge.console import trail, whereabouts
from bridge.console.backstage import Backstage
from bridge.console.figures import figures
from bridge.console.http.bodies import Accession
from bridge.console.http.guard import BackstageDep, PersonDep, act
from bridge.console.numbers import Kind
from bridge.console.permissions import Permission
from bridge.console.searching import Search, search
from bridge.engine_client.errors import EngineFailure

router = APIRouter(prefix="/api")
ChannelKind = Literal["listener", "destination"]


@router.get("/me")
async def me(person: PersonDep) -> dict[str, Any]:
    """Say who is signed in, and what they may."""
    grant = person.grant
    about = {"email": grant.email, "name": person.name, "theme": person.theme}
    return {**about, "role": grant.role, "permissions": sorted(grant.permissions)}


@router.get("/overview")
async def overview(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give what the dashboard shows."""
    person.grant.require(Permission.SEE)
    return await asyncio.to_thread(_overview, backstage)


@router.get("/channels")
async def channels(person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List listeners and destinations."""
    person.grant.require(Permission.SEE)
    return await asyncio.to_thread(_channels, backstage)


@router.post("/channels/{kind}/{name}/pause")
async def pause(
    kind: ChannelKind, name: str, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Take or send nothing until it is resumed."""
    await act(
        request,
        person,
        Permission.OPERATE,
        ("pause", f"{kind} {name[:64]}"),
        lambda: backstage.plant.pause(kind, name, person.grant.email),
    )
    return {}


@router.post("/channels/{kind}/{name}/resume")
async def resume(
    kind: ChannelKind, name: str, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Let it go on."""
    await act(
        request,
        person,
        Permission.OPERATE,
        ("resume", f"{kind} {name[:64]}"),
        lambda: backstage.plant.resume(kind, name),
    )
    return {}


@router.post("/orders/find")
async def where_is_it(
    body: Accession, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Say what became of the orders with an accession; the patient's number only with bodies."""
    accession = body.accession.strip()
    found = await act(
        request,
        person,
        Permission.FIND,
        ("search", "orders by accession"),
        lambda: _orders(backstage, accession),
    )
    try:
        status = await backstage.status(found["orders"])
    except EngineFailure:
        status = {}
    for each in found["orders"]:
        each["now"] = status.get(each["report_id"], "")
        if Permission.BODIES not in person.grant.permissions:
            each["mrn"] = ""
    return found


@router.get("/deeds")
async def deeds(
    person: PersonDep,
    backstage: BackstageDep,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> dict[str, Any]:
    """List what people did here, newest first."""
    person.grant.require(Permission.AUDIT)
    return {"rows": await asyncio.to_thread(trail.newest, backstage.database, 100, before)}


def _overview(backstage: Backstage) -> dict[str, Any]:
    told = figures(backstage.database, backstage.clock())
    return {**told, **_channels(backstage), "alerts": list(backstage.plant.alerts())}


def _channels(backstage: Backstage) -> dict[str, Any]:
    return {
        "listeners": list(backstage.plant.channels("listener")),
        "destinations": list(backstage.plant.channels("destination")),
    }


def _orders(backstage: Backstage, accession: str) -> dict[str, Any]:
    orders = whereabouts.orders(backstage.database, {accession})
    reports = {each["report_id"] for each in orders} - {""}
    sent = whereabouts.deliveries(backstage.database, reports)
    page = search(backstage.database, Search(kind=Kind.ORDER, number=accession, limit=20))
    return {
        "orders": orders,
        "deliveries": [asdict(each) for each in sent],
        "messages": [asdict(each) for each in page.rows],
    }
