"""Edit a stored message and send it again: a new message, linked to the old one, which stays."""

from typing import Any

from fastapi import APIRouter, Request

from bridge.console.errors import Impossible
from bridge.console.http.bodies import EditedMessage, SentMessage
from bridge.console.http.guard import BackstageDep, Person, PersonDep, act, within_reach
from bridge.console.http.messages import Key, about, found, sites_of
from bridge.console.http.route import MessageRoute
from bridge.console.message_view import sheet, written
from bridge.console.permissions import Permission
from bridge.console.services import Backstage
from bridge.errors import BridgeError
from bridge.executors import Threads

router = APIRouter(prefix="/api/messages", route_class=MessageRoute)
_NEEDS = (Permission.EDIT, Permission.BODIES)


@router.get("/{message_id}/sheet")
async def lay_out(
    message_id: Key, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Give a message's segments as text, to be edited."""
    deed = about(backstage, message_id, "read", *_NEEDS)

    def work() -> dict[str, Any]:
        detail = found(backstage, message_id)
        laid = sheet(detail.payload, backstage.plant.charset(detail.row.listener))
        return {"segments": list(laid.segments), "charset": laid.codec}

    return await act(request, person, deed, work)


@router.post("/{message_id}/check")
async def check(
    message_id: Key, body: EditedMessage, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Say why an edited message would be refused; `faults` is empty where it would be taken."""
    for each in _NEEDS:
        person.grant.require(each)

    def work() -> dict[str, Any]:
        within_reach(person, sites_of(backstage, message_id))
        return {"faults": _faults(backstage, person, message_id, body.segments)}

    return await Threads.CONSOLE.run(work)


@router.post("/{message_id}/send-again")
async def send_again(
    message_id: Key,
    body: SentMessage,
    request: Request,
    person: PersonDep,
    backstage: BackstageDep,
) -> dict[str, Any]:
    """Store the edited message as a new one, and queue it; give its id."""
    deed = about(backstage, message_id, "send again", *_NEEDS, reason=body.reason.strip())
    return await act(request, person, deed, lambda: _sent(backstage, person, message_id, body))


def _faults(
    backstage: Backstage, person: Person, message_id: int, segments: list[str]
) -> list[dict[str, Any]]:
    row, payload = _written(backstage, message_id, segments)
    rejudging = backstage.plant.rejudging()
    try:
        faults = [dict(each) for each in rejudging.faults(row.listener, payload)]
        own = faults or person.grant.reaches(rejudging.sites(row.listener, payload))
    except BridgeError as error:
        raise Impossible(str(error)) from None
    return faults if own else [{"code": "", "place": "", "text": "it speaks of another site"}]


def _sent(
    backstage: Backstage, person: Person, message_id: int, body: SentMessage
) -> dict[str, Any]:
    faults = _faults(backstage, person, message_id, body.segments)
    if faults:
        raise Impossible("; ".join(f"{each['place']} {each['text']}".strip() for each in faults))
    _, payload = _written(backstage, message_id, body.segments)
    rejudging = backstage.plant.rejudging()
    try:
        made = rejudging.send_again(message_id, payload, person.grant.email, body.reason.strip())
    except BridgeError as error:
        raise Impossible(str(error)) from None
    return {"id": made}


def _written(backstage: Backstage, message_id: int, segments: list[str]) -> tuple[Any, bytes]:
    detail = found(backstage, message_id)
    charset = backstage.plant.charset(detail.row.listener)
    return detail.row, written(detail.payload, segments, charset)
