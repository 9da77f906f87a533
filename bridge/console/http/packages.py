"""Interface packages as ZIP files: export, preview of changes, import."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field, field_validator

from bridge.console.context import PackageImport
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, always_fresh, run_audited
from bridge.console.http.route import AuthoringRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.request_body import Model

_LONGEST = 8 * 2**20


class ParcelBody(Model):
    """A ZIP file, as base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zip: Annotated[str, Field(min_length=1, max_length=_LONGEST)]

    @field_validator("zip")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise ValueError("not base64") from None
        return value

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return base64.b64decode(self.zip)


class TakenBody(ParcelBody):
    """And what was looked at, whether other files are replaced, and why."""

    mark: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    replace: bool = False
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]


router = APIRouter(prefix="/api/interfaces", route_class=AuthoringRoute)
_NEEDS = (Permission.AUTHOR, Permission.CODE, Permission.CONNECT)
"""To take one in: a parcel may hold Python, and says where ports are opened."""


@router.get("/export")
async def export(
    names: Annotated[list[Annotated[str, Query(max_length=64)]], Query(min_length=1)],
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> Response:
    """Give listeners and destinations with what they read and write with; no secrets."""
    wanted = AuditedAction((Permission.AUTHOR,), "export", f"interface {', '.join(names)}"[:200])
    data = await run_audited(request, user, wanted, lambda: context.packages.export_zip(names))
    told = {"Content-Disposition": f'attachment; filename="{_plain(names[0])}.zip"'}
    return Response(
        data, media_type="application/zip", headers={**told, "Cache-Control": "no-store"}
    )


@router.post("/look", name="look")
async def preview(body: ParcelBody, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Say what a parcel would change, or what is wrong with it; nothing is written."""
    for each in _NEEDS:
        user.grant.require(each)
    async with context.gate.entered():
        return await Threads.CONSOLE.run(context.packages.preview, body.data)


@router.post("/import", name="take_in")
async def import_zip(
    body: TakenBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Take in what was looked at: all nodes go on with it."""
    packages = context.packages
    for each in _NEEDS:
        user.grant.require(each)
    async with context.gate.entered():
        found = await Threads.CONSOLE.run(packages.preview, body.data)
        subject = f"interface {', '.join(found['channels'])}"[:200]
        parcel = PackageImport(
            body.data, body.mark, user.grant.email, body.reason.strip(), body.replace
        )
        wanted = AuditedAction(
            _NEEDS, "import", subject, reason=body.reason.strip(), fresh=always_fresh
        )
        return await run_audited(
            request,
            user,
            wanted,
            lambda: packages.import_zip(parcel),
        )


def _plain(name: str) -> str:
    """Keep of a name what may stand in a header."""
    return "".join(each for each in name if each.isascii() and (each.isalnum() or each in "._-"))
