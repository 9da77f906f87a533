"""Routes without a session: links, sign-in, enrolment, assets, host SDK, health, documentation."""

from importlib.resources import files
from itertools import chain
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http import html_pages, link_pages, static_files
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.html_pages import docs_page
from bridge.engine.http.requests.guard import bounded_request
from bridge.engine.http.sign_in import enrolment_page, password_sign_in, single_sign_on
from bridge.store.errors import StoreError

router = APIRouter(prefix="/reporting", include_in_schema=False)

MAX_FORM_BYTES = 8192
_ASSET_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}


@router.api_route("/launch-report/clinical", methods=["GET", "HEAD"])
async def launch_report(request: Request, token: str = "", report: str = "") -> Response:
    """Open a report link, or load the page of `report` again."""
    return await link_pages.open_report(request, token, report)


@router.api_route("/shared", methods=["GET", "HEAD"])
async def shared(request: Request, token: str = "") -> Response:
    """Show a shared report, read-only."""
    return await link_pages.open_share(request, token)


@router.api_route("/init", methods=["GET", "HEAD"])
async def init(request: Request) -> Response:
    """Pre-warm an embedded session."""
    return await link_pages.open_init_link(request)


@router.post("/login")
async def login(request: Request) -> Response:
    """Sign in with a form; then open a link or a landing page."""
    return await password_sign_in.sign_in(request, await read_form(request))


@router.api_route("/enrol", methods=["GET", "HEAD"])
async def enrol(request: Request, token: str = "") -> Response:
    """Show the form of an enrolment link."""
    if link_pages.is_prefetch(request):
        return link_pages.prefetched()
    return await enrolment_page.show(request, token[:256])


@router.post("/enrol")
async def enrolled(request: Request) -> Response:
    """Set a password by an enrolment link."""
    return await enrolment_page.submit(request, await read_form(request))


async def read_form(request: Request) -> dict[str, str]:
    """Read a form of an unauthenticated user; raise 413 or 400."""
    with bounded_request(request, MAX_FORM_BYTES) as small:
        body = await small.body()
    try:
        form = dict(parse_qsl(body.decode("utf-8"), max_num_fields=10))
    except ValueError:
        raise EngineError(ErrorCode.INVALID_REQUEST, "not a form") from None
    if any("\x00" in each for each in chain.from_iterable(form.items())):
        raise EngineError(ErrorCode.INVALID_REQUEST, "the form contains a NUL character")
    return form


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
        raise EngineError(ErrorCode.NO_SUCH_PATH, "no such file")
    immutable = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    headers = _ASSET_HEADERS | immutable | ({"Content-Encoding": "gzip"} if zipped else {})
    return Response(content, headers=headers, media_type=media_type)


health_router = APIRouter(tags=["Health"])


@health_router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Respond with 200 while the process runs."""
    return JSONResponse({"status": "ok"})


@health_router.get(
    "/readyz", response_model=dict[str, str], responses={503: {"description": "Not yet"}}
)
async def readyz(request: Request) -> Response:
    """Respond with 200 if the database is reachable, else with 503."""
    engine = engine_of(request)
    try:
        await engine.work.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    except StoreError:
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "stopping"} if engine.stopping else {"status": "ready"})


@health_router.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the page of the HTTP interface."""
    return docs_page(engine_of(request).settings)


sdk_router = APIRouter(prefix="/reporting/host-sdk", include_in_schema=False)

MEDIA_TYPES = {
    "index.js": "text/javascript; charset=utf-8",
    "index.d.ts": "text/plain; charset=utf-8",
    "protocol.d.ts": "text/plain; charset=utf-8",
}
# The SDK is public: pages of any origin import it as a module.
HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=300",
}


@sdk_router.get("/{name}")
async def host_sdk(name: str) -> Response:
    """Return a file of the SDK."""
    if name not in MEDIA_TYPES:
        raise EngineError(ErrorCode.NO_SUCH_PATH, "no such file")
    path = files("bridge.engine.app").joinpath("assets", "built", "host-sdk", name)
    if not path.is_file():
        raise EngineError(ErrorCode.APP_NOT_BUILT)
    return Response(path.read_bytes(), headers=HEADERS, media_type=MEDIA_TYPES[name])
