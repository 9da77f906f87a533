"""Pages that need no session: report links, session links, sign-in, enrolment, assets."""

from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.engine.app import static_files
from bridge.engine.http.pages import html_pages, link_opening
from bridge.engine.http.requests.guard import bounded_request
from bridge.engine.http.requests.problems import bad_request
from bridge.engine.http.sign_in import enrolment_page, password_form, single_sign_on

router = APIRouter(prefix="/reporting", include_in_schema=False)

MAX_FORM = 8192
_ASSET_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}


@router.api_route("/launch-report/clinical", methods=["GET", "HEAD"])
async def launch_report(request: Request, token: str = "", report: str = "") -> Response:
    """Open a report link, or load the page of `report` again."""
    return await link_opening.open_report(request, token, report)


@router.api_route("/shared", methods=["GET", "HEAD"])
async def shared(request: Request, token: str = "") -> Response:
    """Show a shared report, read-only."""
    return await link_opening.open_share(request, token)


@router.api_route("/init", methods=["GET", "HEAD"])
async def init(request: Request) -> Response:
    """Pre-warm an embedded session."""
    return await link_opening.open_init_link(request)


@router.post("/login")
async def login(request: Request) -> Response:
    """Sign in with a form; then open a link or a landing page."""
    return await password_form.sign_in(request, await read_form(request))


@router.api_route("/enrol", methods=["GET", "HEAD"])
async def enrol(request: Request, token: str = "") -> Response:
    """Show the form of an enrolment link."""
    if link_opening.is_prefetch(request):
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    return await enrolment_page.show(request, token[:256])


@router.post("/enrol")
async def enrolled(request: Request) -> Response:
    """Set a password by an enrolment link."""
    return await enrolment_page.submit(request, await read_form(request))


async def read_form(request: Request) -> dict[str, str]:
    """Read a form of an unauthenticated user; raise 413 or 400."""
    with bounded_request(request, MAX_FORM) as small:
        body = await small.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), max_num_fields=10))
    except ValueError:
        raise bad_request("not a form") from None


@router.get("/login/oidc")
async def begin_single_sign_on(request: Request) -> Response:
    """Redirect to the OpenID Connect provider."""
    return await single_sign_on.begin(request)


@router.get("/login/oidc/callback")
async def finish_single_sign_on(request: Request) -> Response:
    """Finish a sign-in by the OpenID Connect provider."""
    return await single_sign_on.finish(request)


@router.get("/assets/{name}")
async def assets(name: str, request: Request) -> Response:
    """Return a file of the pages; built files have a hash in their name and are immutable."""
    if name in html_pages.ASSETS:
        headers = _ASSET_HEADERS | {"Cache-Control": "no-cache"}
        return Response(html_pages.asset(name), headers=headers, media_type=html_pages.ASSETS[name])
    media_type = static_files.media_type(name)
    zipped = "gzip" in request.headers.get("accept-encoding", "")
    content = static_files.content(name, compressed=zipped) if media_type else None
    if content is None:
        raise bad_request("no such file", code="no_such_path", status=404)
    immutable = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    headers = _ASSET_HEADERS | immutable | ({"Content-Encoding": "gzip"} if zipped else {})
    return Response(content, headers=headers, media_type=media_type)
