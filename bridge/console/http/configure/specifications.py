"""Partner specifications of listeners and destinations: JSON, HTML, PDF, text."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem
from bridge.admin.specification.use_case import ACTIVE, SpecificationFormat, rendered
from bridge.console.http.configure.connections import visible_channels
from bridge.console.http.guard import (
    HEADERS,
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    UncachedJson,
    run_audited,
)
from bridge.console.http.models.specifications import SpecificationBody
from bridge.executors import CONSOLE_THREADS
from config.sections import ChannelKind

router = APIRouter(prefix="/api/specifications", route_class=ConsoleRoute)
Name = Annotated[str, Path(max_length=64)]
Version = Annotated[str, Query(max_length=32)]
_MEDIA_TYPES: Final = {
    SpecificationFormat.HTML: "text/html; charset=utf-8",
    SpecificationFormat.PDF: "application/pdf",
    SpecificationFormat.TEXT: "text/plain; charset=utf-8",
}
_SUFFIXES: Final = {SpecificationFormat.TEXT: "txt"}


@router.get("/{kind}/{name}", responses={200: {"model": SpecificationBody}})
async def read(
    kind: ChannelKind,
    name: Name,
    call: CallDep,
    version: Version = ACTIVE,
    compare: Version = "",
    wanted: Annotated[SpecificationFormat, Query(alias="format")] = SpecificationFormat.JSON,
    *,
    address: bool = False,
) -> Response:
    """
    Return the specification of a listener or destination of the user's sites.

    `version` and `compare` are versions of one of its definitions. HTML, PDF and text are files;
    that they were written is in the audit trail.
    """
    context = call.context
    require_visible = partial(_require_visible, call, kind, name)
    action = AuditedAction(
        (Permission.SEE,),
        "export",
        f"specification {kind} {name}",
        rule=require_visible,
    )

    def work() -> Any:
        return rendered(
            *(context.settings, context.database, kind, name, wanted, version, compare),
            with_address=address,
        )

    def shown() -> Any:
        require_visible()
        return work()

    async with context.gate.entered():
        if wanted is SpecificationFormat.JSON:
            call.user.grant.require(Permission.SEE)
            return UncachedJson(await CONSOLE_THREADS.run(shown))
        found = await run_audited(call, action, work)
    suffix = _SUFFIXES.get(wanted, wanted.value)
    disposition = f'attachment; filename="{kind}-{name}.{suffix}"'
    headers = {**HEADERS, "Content-Disposition": disposition}
    return Response(found, media_type=_MEDIA_TYPES[wanted], headers=headers)


def _require_visible(call: ConsoleCall, kind: ChannelKind, name: str) -> None:
    if all(channel["name"] != name for channel in visible_channels(call)[f"{kind}s"]):
        raise NoSuchItem
