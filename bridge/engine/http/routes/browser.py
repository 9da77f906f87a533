"""What browsers load: report links, session links, sign-in, the page's files."""

from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.engine.http import pages, visiting
from bridge.engine.http.problems import bad_request, too_large

router = APIRouter(prefix="/reporting", include_in_schema=False)

MAX_FORM = 8192


@router.api_route("/launch-report/clinical", methods=["GET", "HEAD"])
async def launch_report(request: Request, token: str = "") -> Response:
    """Open a report link."""
    return await visiting.open_report(request, token)


@router.api_route("/shared", methods=["GET", "HEAD"])
async def shared(request: Request, token: str = "") -> Response:
    """Show a shared report, to read only."""
    return await visiting.open_share(request, token)


@router.api_route("/init", methods=["GET", "HEAD"])
async def init(request: Request) -> Response:
    """Pre-warm an embedded session."""
    return await visiting.init(request)


@router.post("/login")
async def login(request: Request) -> Response:
    """Sign in by a form and open a link."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise too_large(MAX_FORM)
    try:
        form = dict(parse_qsl(body.decode("utf-8"), max_num_fields=10))
    except ValueError:
        raise bad_request("not a form") from None
    return await visiting.sign_in(request, form)


@router.get("/assets/{name}")
async def assets(name: str) -> Response:
    """Return a file of the page."""
    if name not in pages.ASSETS:
        raise bad_request("no such file", code="no_such_path", status=404)
    headers = {"Cache-Control": "no-cache", "Cross-Origin-Resource-Policy": "cross-origin"}
    return Response(pages.asset(name), headers=headers, media_type=pages.ASSETS[name])
