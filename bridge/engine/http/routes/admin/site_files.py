"""Texts of a site: templates as MRRT files, the billing code map as CSV, and macros."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.documents.uploads.mrrt import BadTemplate, write_template
from bridge.engine.documents.uploads.mrrt import import_template as read
from bridge.engine.errors import NotFound
from bridge.engine.http.models.administration import CodeMapBody, MrrtBody
from bridge.engine.http.models.descriptions import problems
from bridge.engine.http.models.fields import MacroBody, Trigger
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.response_bodies import FieldError, bad_request
from bridge.engine.http.requests.use_cases import (
    RequestSite,
    change_as_administrator,
    read_site,
    require_site_administrator,
)
from bridge.engine.rules.text.document import BadDocument, restore, to_json
from bridge.engine.service.sites import audit_states, billing, macros, site_settings
from bridge.executors import Threads

router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)

Number = Annotated[int, Path(ge=1, le=999_999_999)]


@router.get("/sites/{site_id}/templates/{number}/mrrt", response_model=dict[str, Any])
async def export_template(site_id: str, number: Number, request: Request) -> Response:
    """Return a template as an IHE MRRT file: `html`."""
    found = await read_site(request, "template-read", site_id, site_settings.list_templates)
    template = next((each for each in found if each["number"] == number), None)
    if template is None:
        raise NotFound("the site has no such template")
    name = template["name"]
    return JSONResponse({"name": name, "html": write_template(name, restore(template["document"]))})


@router.put("/sites/{site_id}/templates/{number}/mrrt", response_class=Response)
async def import_template(
    site_id: str, number: Number, body: MrrtBody, request: Request
) -> Response:
    """Create or replace a template from an IHE MRRT file; only its text and fields are used."""
    await require_site_administrator(request, RequestSite(site_id))
    try:
        title, document = await Threads.DOCUMENTS.run(read, body.html)
    except (BadTemplate, BadDocument) as error:
        problem = FieldError("/html", str(error))
        raise bad_request(str(error), problem, code="bad_template") from None
    name = body.name or title or f"Template {number}"
    return await change_as_administrator(
        request,
        "template-update",
        RequestSite(site_id),
        lambda work: site_settings.set_template(
            work.connection, site_id, number, name, to_json(document), work.now
        ),
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    )


@router.get("/sites/{site_id}/code-map", response_model=list[dict[str, Any]])
async def read_code_map(site_id: str, request: Request) -> Response:
    """Return the site's billing code map."""
    rows = await read_site(request, "code-map-read", site_id, billing.code_map)
    return JSONResponse(
        [
            {
                "system": row.system.value,
                "match": row.match,
                "code": row.code,
                "description": row.description,
            }
            for row in rows
        ]
    )


@router.put("/sites/{site_id}/code-map", response_class=Response)
async def set_code_map(site_id: str, body: CodeMapBody, request: Request) -> Response:
    """
    Replace the site's billing code map by a CSV: `system,match,code,description`.

    `system` is cpt (`match`: a ProcedureCode or StudyDescription) or icd10 (`match`: a phrase).
    """
    await require_site_administrator(request, RequestSite(site_id))
    rows = await Threads.DOCUMENTS.run(billing.read_code_map, body.csv)
    return await change_as_administrator(
        request,
        "code-map-update",
        RequestSite(site_id),
        lambda work: billing.set_code_map(work.connection, site_id, rows),
        target=("code-map", site_id),
        state=audit_states.code_map(site_id),
        command={"rows": len(rows)},
    )


@router.get("/sites/{site_id}/macros", response_model=list[dict[str, Any]])
async def list_macros(site_id: str, request: Request) -> Response:
    """Return the site's macros by trigger."""
    return JSONResponse(await read_site(request, "macros-read", site_id, macros.macros_of))


@router.put("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def set_macro(site_id: str, trigger: Trigger, body: MacroBody, request: Request) -> Response:
    """Create or replace a macro of the site."""
    content = body.content()
    return await change_as_administrator(
        request,
        "macro-update",
        RequestSite(site_id),
        lambda work: macros.set_macro(
            work.connection, site_id, None, trigger, body.name, content, work.now
        ),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )


@router.delete("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def delete_macro(site_id: str, trigger: Trigger, request: Request) -> Response:
    """Remove a macro of the site."""
    return await change_as_administrator(
        request,
        "macro-delete",
        RequestSite(site_id),
        lambda work: macros.delete_macro(work.connection, site_id, None, trigger),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )
