"""The first steps of an installation, and sample messages that prove its connections."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from bridge.admin.access.permissions import Permission
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleRoute,
    await_audited,
)
from bridge.console.http.models.bodies import Body
from bridge.console.http.models.first_steps import FirstStepsBody, SampleReplyBody

router = APIRouter(prefix="/api/first-steps", route_class=ConsoleRoute)
Name = Annotated[str, Field(min_length=1, max_length=64)]


class SampleOrderBody(Body):
    """The listener that gets a sample order."""

    listener: Name


class SampleResultBody(Body):
    """The destination that gets a sample result."""

    destination: Name


@router.get("", responses={200: {"model": FirstStepsBody}})
async def first_steps(call: CallDep) -> dict[str, Any]:
    """Return what an installation needs at first, and what of it is done."""
    call.user.grant.require(Permission.CONNECT)
    steps = await call.context.first_steps.read()
    left = sum(not step.done for step in steps)
    return {"steps": [asdict(step) for step in steps], "left": left}


@router.post("/sample-order", responses={200: {"model": SampleReplyBody}})
async def sample_order(body: SampleOrderBody, call: CallDep) -> dict[str, Any]:
    """Send an order of an invented patient to a listener; it becomes an order."""
    action = AuditedAction((Permission.CONNECT,), "send sample order", f"listener {body.listener}")
    work = call.context.samples.send_order
    return asdict(await await_audited(call, action, lambda: work(body.listener)))


@router.post("/sample-result", responses={200: {"model": SampleReplyBody}})
async def sample_result(body: SampleResultBody, call: CallDep) -> dict[str, Any]:
    """Send a result of an invented patient with processing id T to a destination."""
    action = AuditedAction(
        (Permission.CONNECT,), "send sample result", f"destination {body.destination}"
    )
    work = call.context.samples.send_result
    return asdict(await await_audited(call, action, lambda: work(body.destination)))
