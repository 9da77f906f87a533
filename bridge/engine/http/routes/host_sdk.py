"""The SDK for host applications: one ES module with its types, for pages of any origin."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from bridge.engine.errors import NotBuilt
from bridge.engine.http.requests.problems import bad_request

router = APIRouter(prefix="/reporting/host-sdk", include_in_schema=False)

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


@router.get("/{name}")
async def host_sdk(name: str) -> Response:
    """Return a file of the SDK."""
    if name not in MEDIA_TYPES:
        raise bad_request("no such file", code="no_such_path", status=404)
    path = files("bridge.engine.app").joinpath("assets", "built", "host-sdk", name)
    if not path.is_file():
        raise NotBuilt
    return Response(path.read_bytes(), headers=HEADERS, media_type=MEDIA_TYPES[name])
