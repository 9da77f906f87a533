"""
Tools of the report page: templates, macros, checks before signing, presence.

These routes do not change the report; `bridge.engine.http.routes.app.report` does.
"""

from typing import Annotated, Any

from fastapi import Path
from starlette.responses import JSONResponse, Response

from bridge.engine.errors import NotFound
from bridge.engine.http.models.fields import MacroBody, MappingBody, Trigger
from bridge.engine.http.pages.report_page import ReportPageDep
from bridge.engine.http.requests.guard import session_router
from bridge.engine.rules.text.document import restore, to_json
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.service.signing import page_actions, page_state
from bridge.engine.service.sites import audit_states, macros, sites
from bridge.executors import Threads

router = session_router()

PageJson = dict[str, Any]


@router.get("/templates", response_model=PageJson)
async def list_templates(page: ReportPageDep) -> Response:
    """Return the site's templates by number."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: sites.list_templates(work.connection, site_id))
    return JSONResponse({"templates": found})


@router.post("/templates/{number}/map", response_model=PageJson)
async def map_findings(
    number: Annotated[int, Path(ge=1, le=999_999_999)], body: MappingBody, page: ReportPageDep
) -> Response:
    """Return the template with the findings in place, marked as suggestions; saves nothing."""
    site_id = page.session.site_id
    found = await page.read(lambda work, *_: sites.list_templates(work.connection, site_id))
    template = next((each for each in found if each["number"] == number), None)
    if template is None:
        raise NotFound("the site has no such template")
    document = await Threads.DOCUMENTS.run(
        lambda: to_json(apply_template(restore(template["document"]), body.findings))
    )
    return JSONResponse({"number": number, "document": document})


@router.get("/macros", response_model=PageJson)
async def list_macros(page: ReportPageDep) -> Response:
    """Return the site's macros and the user's own."""
    site_id = page.session.site_id
    found = await page.read(
        lambda work, editor, _: macros.macros_of(work.connection, site_id, editor.account_id)
    )
    return JSONResponse({"macros": found})


@router.put("/macros/{trigger}", status_code=204, response_class=Response)
async def set_macro(trigger: Trigger, body: MacroBody, page: ReportPageDep) -> Response:
    """Create or replace a macro of the user."""
    session, content = page.session, body.content()
    site_id = session.site_id
    return await page.change_without_page(
        "macro-update",
        lambda work, editor, _: macros.set_macro(
            work.connection, site_id, editor.account_id, trigger, body.name, content, work.now
        ),
        state=audit_states.macro(site_id, session.account_id, trigger),
        target=("macro", trigger),
    )


@router.delete("/macros/{trigger}", status_code=204, response_class=Response)
async def delete_macro(trigger: Trigger, page: ReportPageDep) -> Response:
    """Remove a macro of the user."""
    session = page.session
    site_id = session.site_id
    return await page.change_without_page(
        "macro-delete",
        lambda work, editor, _: macros.delete_macro(
            work.connection, site_id, editor.account_id, trigger
        ),
        state=audit_states.macro(site_id, session.account_id, trigger),
        target=("macro", trigger),
    )


@router.get("/checks", response_model=PageJson)
async def check(page: ReportPageDep) -> Response:
    """Return the findings of the checks before signing, for the saved text."""
    found = await page.read(page_actions.check_report)
    return JSONResponse({"findings": found})


@router.post("/presence", response_model=PageJson)
async def presence(page: ReportPageDep) -> Response:
    """Renew the writing lease; return the versions by which the page detects changes."""
    return JSONResponse(await page.read(page_state.presence))


@router.post("/leave", status_code=204, response_class=Response)
async def leave(page: ReportPageDep) -> Response:
    """Release the writing lease: the user leaves the page."""
    await page.read(page_state.leave)
    return Response(status_code=204)
