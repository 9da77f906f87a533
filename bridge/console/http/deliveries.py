"""Deliveries: list, read, retry, skip."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console.errors import Impossible, Unknown
from bridge.console.http.bodies import DeliverySearch
from bridge.console.http.guard import BackstageDep, PersonDep, act
from bridge.console.permissions import Permission
from bridge.console.tree import readable, tree
from bridge.queue import browse, operate
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.rows import DeliveryDetail
from bridge.store.database import Database

router = APIRouter(prefix="/api/deliveries")
Key = Annotated[int, Path(ge=1, lt=2**63)]


@router.post("/search")
async def find(body: DeliverySearch, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List deliveries, newest first."""
    person.grant.require(Permission.SEE)
    wanted = browse.Filter(
        body.state, body.destination, body.report_id, before=body.before, limit=body.limit
    )
    rows = await asyncio.to_thread(browse.deliveries, backstage.database, wanted)
    further = rows[-1].id if len(rows) == body.limit else None
    return {"rows": [asdict(row) for row in rows], "further": further}


@router.get("/{delivery_id}")
async def read(delivery_id: Key, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give one delivery's row."""
    person.grant.require(Permission.SEE)
    detail = await asyncio.to_thread(_found, backstage.database, delivery_id)
    return {"row": asdict(detail.row)}


@router.get("/{delivery_id}/content")
async def content(
    delivery_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Give what was sent, and the receiver's last reply."""

    def told() -> dict[str, Any]:
        detail = _found(backstage.database, delivery_id)
        return {
            "raw": readable(detail.payload),
            "tree": tree(detail.payload or b""),
            "ack": readable(detail.reply),
        }

    return await act(request, person, Permission.BODIES, ("read", f"delivery {delivery_id}"), told)


@router.post("/{delivery_id}/retry")
async def retry(
    delivery_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Deliver now, or again: the same bytes."""
    work = _change(operate.retry_delivery, backstage.database, delivery_id)
    await act(request, person, Permission.OPERATE, ("retry", f"delivery {delivery_id}"), work)
    return {}


@router.post("/{delivery_id}/skip")
async def skip(
    delivery_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Decide that a delivery is not to be sent; the others of its report go on."""
    work = _change(operate.skip_delivery, backstage.database, delivery_id)
    await act(request, person, Permission.OPERATE, ("skip", f"delivery {delivery_id}"), work)
    return {}


def _found(database: Database, delivery_id: int) -> DeliveryDetail:
    try:
        return browse.delivery(database, delivery_id)
    except NoSuchRow as error:
        raise Unknown(str(error)) from None


def _change(
    work: Callable[[Database, int], None], database: Database, delivery_id: int
) -> Callable[[], None]:
    def run() -> None:
        try:
            work(database, delivery_id)
        except NoSuchRow as error:
            raise Unknown(str(error)) from None
        except IllegalTransition as error:
            raise Impossible(str(error)) from None

    return run
