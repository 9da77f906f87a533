"""Deliveries: list, read, retry, skip."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console.deliveries import search
from bridge.console.errors import Impossible, Unknown
from bridge.console.http.bodies import DeliverySearch
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act, within_reach
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_view import readable, tree
from bridge.console.ownership import delivery_sites
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.queue import browse, operations
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail
from bridge.store.database import Database

router = APIRouter(prefix="/api/deliveries", route_class=ConsoleRoute)
Key = Annotated[int, Path(ge=1, lt=2**63)]


@router.post("/search")
async def find(body: DeliverySearch, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """List deliveries, newest first."""
    person.grant.require(Permission.SEE)
    page = await Threads.CONSOLE.run(search, backstage.database, body.wanted(person.grant.reach))
    return {"rows": [asdict(row) for row in page.rows], "further": page.further}


@router.get("/{delivery_id}")
async def read(delivery_id: Key, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give one delivery's row."""
    person.grant.require(Permission.SEE)
    detail = await Threads.CONSOLE.run(_found, backstage.database, delivery_id)
    within_reach(person, delivery_sites(detail.orders))
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

    deed = _about(backstage.database, delivery_id, "read", Permission.BODIES)
    return await act(request, person, deed, told)


@router.post("/{delivery_id}/retry")
async def retry(
    delivery_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Deliver now, or again: the same bytes."""
    work = _change(operations.retry_delivery, backstage.database, delivery_id)
    deed = _about(backstage.database, delivery_id, "retry", Permission.OPERATE)
    await act(request, person, deed, work)
    return {}


@router.post("/{delivery_id}/skip")
async def skip(
    delivery_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Decide that a delivery is not to be sent; the others of its report go on."""
    work = _change(operations.skip_delivery, backstage.database, delivery_id)
    deed = _about(backstage.database, delivery_id, "skip", Permission.OPERATE)
    await act(request, person, deed, work)
    return {}


def _about(database: Database, delivery_id: int, action: str, needs: Permission) -> Act:
    return Act(
        (needs,),
        action,
        f"delivery {delivery_id}",
        lambda: delivery_sites(_found(database, delivery_id).orders),
    )


def _found(database: Database, delivery_id: int) -> DeliveryDetail:
    try:
        return browse.delivery(database, delivery_id)
    except NoSuchRow:
        raise Unknown from None


def _change(
    work: Callable[[Database, int], None], database: Database, delivery_id: int
) -> Callable[[], None]:
    def run() -> None:
        try:
            work(database, delivery_id)
        except NoSuchRow:
            raise Unknown from None
        except IllegalTransition as error:
            raise Impossible(str(error)) from None

    return run
