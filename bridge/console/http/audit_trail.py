"""The record: what people did here, and what the report service's own audit trail says."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bridge.console.deliveries import sent
from bridge.console.http.bodies import AuditFilter, DeedFilter, SentFilter
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act_and_wait
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/deeds")
async def deeds(
    query: Annotated[DeedFilter, Query()], person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """List what people did here, newest first; of a person's own sites."""
    person.grant.require(Permission.AUDIT)
    wanted = query.wanted(person.grant.reach)
    return {"rows": await Threads.CONSOLE.run(backstage.events, wanted)}


@router.get("/sent")
async def what_was_sent(
    query: Annotated[SentFilter, Query()], person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """List what was sent and accepted, newest first; of a person's own sites."""
    person.grant.require(Permission.AUDIT)
    return await Threads.CONSOLE.run(sent, backstage.database, query.wanted(person.grant.reach))


@router.get("/sites/{site}/audit")
async def audit(
    site: str,
    query: Annotated[AuditFilter, Query()],
    request: Request,
    person: PersonDep,
    backstage: BackstageDep,
) -> dict[str, Any]:
    """List the service's audit events of a site, newest first."""
    deed = Act((Permission.AUDIT,), "read", "audit trail", lambda: [site])
    wanted = query.model_dump(exclude_none=True)
    return {
        "rows": await act_and_wait(
            request, person, deed, lambda: backstage.service.audit_events(site, wanted)
        )
    }


@router.post("/audit/verify")
async def verify(request: Request, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Walk the whole chain of the service's audit trail, and say whether it is whole."""
    deed = Act((Permission.AUDIT,), "verify", "audit trail")
    return await act_and_wait(request, person, deed, backstage.service.verify_audit)
