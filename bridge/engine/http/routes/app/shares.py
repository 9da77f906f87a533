"""
Billing codes and read-only shares of a report page.

These routes require the session of the page; opening a share requires none.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field, StrictInt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bridge.engine.http.launch_requests import link_address
from bridge.engine.http.models.fields import Body
from bridge.engine.http.models.responses import problems
from bridge.engine.http.pages.report_page import ReportPageDep
from bridge.engine.http.requests.guard import SessionRoute
from bridge.engine.links import Purpose
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.reports import sharing
from bridge.engine.service.signing import page_actions
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import Work

router = APIRouter(
    prefix="/reporting/api/session",
    tags=["Report page"],
    route_class=SessionRoute,
    responses=problems(500),
)

PageJson = dict[str, Any]


class ShareBody(Body):
    """The lifetime of a share; the site's maximum is also the default."""

    expiresSeconds: Annotated[StrictInt, Field(ge=60)] | None = None  # noqa: N815  # as its neighbours


@router.post("/billing", response_model=PageJson)
async def generate_billing(page: ReportPageDep) -> Response:
    """Derive billing codes from the site's code map, store and return them as `billingCode`."""
    return await page.change("billing", page_actions.generate_billing, result="billingCode")


@router.get("/billing", response_model=PageJson)
async def read_billing(page: ReportPageDep) -> Response:
    """Return the last generated billing codes, null if there are none."""
    codes = await page.read(page_actions.read_billing)
    return JSONResponse({"billingCode": codes})


@router.get("/shares", response_model=PageJson)
async def list_shares(page: ReportPageDep) -> Response:
    """Return the valid shares of the report, without their addresses."""
    shares = await page.read(sharing.list_shares)
    return JSONResponse({"shares": shares})


@router.post("/shares", response_model=PageJson)
async def share(body: ShareBody, page: ReportPageDep, request: Request) -> Response:
    """Create a read-only link to the report; only this response contains its address."""
    engine, base = page.engine, page.engine.base_url(request)

    def apply(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
        made = sharing.create_share(work, editor, report_id, engine.random, body.expiresSeconds)
        address = link_address(base, Purpose.SHARE, made.handle)
        return {"id": made.pk, "link": address, "expiresAt": iso(made.expires_at)}

    return await page.change("share-create", apply, result="share")


@router.post("/shares/{share_id}/revoke", response_model=PageJson)
async def revoke(share_id: Annotated[int, Path(ge=1, lt=2**63)], page: ReportPageDep) -> Response:
    """Revoke a share."""
    return await page.change(
        "share-revoke",
        lambda work, editor, report_id: sharing.revoke(work, editor, report_id, share_id),
    )
