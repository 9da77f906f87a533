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

_MAX_LENGTH = 8 * 2**20


class PackageBody(Model):
    """A ZIP file, as base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zip: Annotated[str, Field(min_length=1, max_length=_MAX_LENGTH)]

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


class PackageImportBody(PackageBody):
    """The package, the mark of its preview, and whether existing files may be replaced."""

    mark: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    replace: bool = False
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]


router = APIRouter(prefix="/api/interfaces", route_class=AuthoringRoute)
_IMPORT = (Permission.AUTHOR, Permission.CODE, Permission.CONNECT)
"""A package may contain Python hooks, and it opens ports."""


@router.get("/export")
async def export(
    names: Annotated[list[Annotated[str, Query(max_length=64)]], Query(min_length=1)],
    request: Request,
    user: UserDep,
    context: ContextDep,
) -> Response:
    """Return listeners and destinations with their definitions as a ZIP file, without secrets."""
    action = AuditedAction((Permission.AUTHOR,), "export", f"interface {', '.join(names)}"[:200])
    data = await run_audited(request, user, action, lambda: context.packages.export_zip(names))
    headers = {"Content-Disposition": f'attachment; filename="{_header_safe(names[0])}.zip"'}
    return Response(
        data, media_type="application/zip", headers={**headers, "Cache-Control": "no-store"}
    )


@router.post("/look", name="look")
async def preview(body: PackageBody, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Return what the import of a package would change; store nothing."""
    for each in _IMPORT:
        user.grant.require(each)
    async with context.gate.entered():
        return await Threads.CONSOLE.run(context.packages.preview, body.data)


@router.post("/import", name="take_in")
async def import_zip(
    body: PackageImportBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Import a package after its preview; all nodes activate it."""
    packages = context.packages
    for each in _IMPORT:
        user.grant.require(each)
    async with context.gate.entered():
        found = await Threads.CONSOLE.run(packages.preview, body.data)
        subject = f"interface {', '.join(found['channels'])}"[:200]
        package = PackageImport(
            body.data, body.mark, user.grant.email, body.reason.strip(), body.replace
        )
        action = AuditedAction(
            _IMPORT, "import", subject, reason=body.reason.strip(), fresh=always_fresh
        )
        return await run_audited(
            request,
            user,
            action,
            lambda: packages.import_zip(package),
        )


def _header_safe(name: str) -> str:
    """Return the characters of a name that are safe in a header."""
    return "".join(each for each in name if each.isascii() and (each.isalnum() or each in "._-"))
