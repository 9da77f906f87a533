"""The record: what people did here, and what the report service's own audit trail says."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bridge.console.deliveries import accepted_deliveries
from bridge.console.http.bodies import (
    AcceptedDeliveryParameters,
    ConsoleEventParameters,
    EngineEventParameters,
)
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, await_audited
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/deeds")
async def deeds(
    query: Annotated[ConsoleEventParameters, Query()], user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """List what people did here, newest first; of a person's own sites."""
    user.grant.require(Permission.AUDIT)
    wanted = query.wanted(user.grant.reach)
    return {"rows": await Threads.CONSOLE.run(context.events, wanted)}


@router.get("/sent")
async def what_was_sent(
    query: Annotated[AcceptedDeliveryParameters, Query()], user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """List what was sent and accepted, newest first; of a person's own sites."""
    user.grant.require(Permission.AUDIT)
    return await Threads.CONSOLE.run(
        accepted_deliveries, context.database, query.wanted(user.grant.reach)
    )


@router.get("/sites/{site}/audit")
async def audit(
    site: str,
    query: Annotated[EngineEventParameters, Query()],
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> dict[str, Any]:
    """List the service's audit events of a site, newest first."""
    action = AuditedAction((Permission.AUDIT,), "read", "audit trail", lambda: [site])
    wanted = query.model_dump(exclude_none=True)
    return {
        "rows": await await_audited(
            request, user, action, lambda: context.service.audit_events(site, wanted)
        )
    }


@router.post("/audit/verify")
async def verify(request: Request, user: UserDep, context: ContextDep) -> dict[str, Any]:
    """Walk the whole chain of the service's audit trail, and say whether it is whole."""
    action = AuditedAction((Permission.AUDIT,), "verify", "audit trail")
    return await await_audited(request, user, action, context.service.verify_audit)
