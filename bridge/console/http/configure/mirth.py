"""Import from Mirth Connect: a channel export becomes a proposal; nothing is stored."""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent, Overloaded
from bridge.admin.mirth.channels import NotConverted, convert_export, package_files
from bridge.admin.mirth.conversion import ConversionOptions
from bridge.admin.packages.activation import pack_zip
from bridge.console.http.guard import AuthoringRoute, CallDep
from bridge.console.http.models.bodies import MirthExportBody
from bridge.console.http.models.mirth import MirthConversion
from bridge.executors import CONSOLE_THREADS
from bridge.workers.host import WorkerBusy

router = APIRouter(prefix="/api/mirth", route_class=AuthoringRoute)


@router.post("/convert", response_model=MirthConversion)
async def convert(body: MirthExportBody, call: CallDep) -> Mapping[str, Any]:
    """Convert an export of channels into an interface package; run and store nothing."""
    for permission in (Permission.AUTHOR, Permission.CONNECT):
        call.user.grant.require(permission)
    async with call.context.gate.entered():
        return await CONSOLE_THREADS.run(_convert, body)


def _convert(body: MirthExportBody) -> Mapping[str, Any]:
    options = ConversionOptions(body.name, body.site, body.time_zone)
    try:
        conversion = convert_export(body.data, options)
    except NotConverted as error:
        raise InvalidContent(str(error)) from None
    except WorkerBusy:
        raise Overloaded from None
    files = package_files(conversion)
    return {
        "package": base64.b64encode(pack_zip(files)).decode() if files else "",
        "files": files,
        "channels": [asdict(channel) for channel in conversion.channels],
        "report": [asdict(finding) for finding in conversion.findings],
        "issues": conversion.issues,
    }
