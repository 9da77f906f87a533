"""The worklist of a site, as the report service has it; of patients only with bodies."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request

from bridge.console.errors import NotTaken, Unreachable
from bridge.console.http.bodies import WorklistSearch
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act_and_wait
from bridge.console.http.route import ConsoleRoute
from bridge.console.http.sites import Site
from bridge.console.permissions import Permission
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable, moment

router = APIRouter(prefix="/api/sites", route_class=ConsoleRoute)
_REPORT: Final = ("reportId", "status", "ownerName")
_TIMES: Final = ("createdAt", "updatedAt", "signedAt")
_ORDER: Final = ("SiteLocation", "Accession")
"""What is told without bodies: whoever may find may know an order's number, and no patient's."""
_PATIENT: Final = ("PatientMRN", "PatientName", "StudyDescription", "StudyDate", "Modality")


@router.post("/{site}/worklist")
async def worklist(
    site: Site,
    body: WorklistSearch,
    request: Request,
    person: PersonDep,
    backstage: BackstageDep,
) -> dict[str, Any]:
    """List a site's reports; to search by a patient's name or number needs bodies."""
    asks = Permission.BODIES if body.text or body.mrn else Permission.FIND
    deed = Act((Permission.FIND, asks), "read", "worklist", lambda: [site])
    bodies = Permission.BODIES in person.grant.permissions
    shown = (*_ORDER, *_PATIENT) if bodies else _ORDER

    async def work() -> dict[str, Any]:
        try:
            page = await backstage.service.engine.worklist(site, **body.wanted())
        except EngineFailure as failure:
            if failure.status is None:
                raise Unreachable from None
            raise NotTaken(failure.status, failure.code) from None
        return {"rows": [_row(each, shown) for each in page.items], "next": page.next}

    return await act_and_wait(request, person, deed, work)


def _milliseconds(value: object) -> int | None:
    """Read a time of the service; None where it is none, whatever it is."""
    try:
        return moment(value, "worklist")
    except Unreadable:
        return None


def _row(item: Mapping[str, Any], shown: tuple[str, ...]) -> dict[str, Any]:
    orders = item.get("orders", ())
    told = [{name: each[name] for name in shown if name in each} for each in orders]
    times = {name: _milliseconds(item.get(name)) for name in _TIMES}
    return {**{name: item.get(name) for name in _REPORT}, **times, "orders": told}
