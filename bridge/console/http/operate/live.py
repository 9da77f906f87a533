"""The stream of hints for open pages, and one snapshot for networks that buffer streams."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.errors import OperatorError
from bridge.console.http.guard import (
    HEADERS,
    CallDep,
    ConsoleRoute,
    SignInRequired,
    UncachedJson,
    authenticate,
)
from bridge.console.live import events
from bridge.report_engine import page_assets

router = APIRouter(prefix="/api/live", route_class=ConsoleRoute)
APP: Final = "src/console/main.ts"
_STREAM: Final = {
    **HEADERS,
    "Content-Type": "text/event-stream; charset=utf-8",
    "X-Accel-Buffering": "no",
}


@router.get("", response_model=None)
async def live(call: CallDep, *, once: bool = False) -> Response:
    """
    Send server-sent events `heads`: newest ids, badges, running jobs, the build of the pages.

    `once` returns one snapshot as JSON. The stream ends with `ended` when the session or role ends.
    """
    grant = call.user.grant
    grant.require(Permission.SEE)
    build = page_assets(APP).script
    if once:
        return UncachedJson({**await call.context.live.heads(grant), "build": build})

    async def still_admitted() -> Grant | None:
        try:
            return (await authenticate(call.request)).grant
        except SignInRequired:
            return None
        except OperatorError as error:
            return None if error.status == _FORBIDDEN else grant

    call.context.live.require_room(str(grant.account_id))
    stream = events(call.context.live, grant, build, still_admitted)
    return StreamingResponse(stream, headers=_STREAM)


_FORBIDDEN: Final = 403
