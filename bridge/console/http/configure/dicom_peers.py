"""The DICOM port: its settings, its peers with what they did last, and whom it refused."""

from functools import partial
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.dicom_peers import read_port
from bridge.console.http.guard import CallDep, ConsoleRoute
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api/dicom-peers", route_class=ConsoleRoute)


@router.get("")
async def dicom_port(call: CallDep) -> dict[str, Any]:
    """Return the DICOM port, the user's peers, and the refusals of the last hour."""
    grant, context = call.user.grant, call.context
    grant.require(Permission.SEE)
    read = partial(read_port, context.settings, context.database, context.clock())
    return await CONSOLE_THREADS.run(read, grant.visible_sites)
