"""Where a request comes from: a frame, one of our own pages, or a page of somebody else.

By headers that no page can set (Fetch Metadata, `Origin`, the origin in `Referer`); a request
without them is nobody's page.
"""

from urllib.parse import urlsplit

from fastapi import Request

from bridge.engine.http.engine_state import Engine
from bridge.engine.http.requests.problems import Problem, Refused


def in_frame(request: Request) -> bool:
    """Tell whether the browser loads this page into a frame."""
    return request.headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object")


def host_of(request: Request) -> str:
    """Return the origin of the page that frames this one, where the browser says so."""
    parts = urlsplit(request.headers.get("referer", ""))
    return f"{parts.scheme}://{parts.netloc}" if in_frame(request) and parts.netloc else ""


def framed_by_others(request: Request) -> bool:
    """Tell whether another site's page asks for a frame; once ours is shown, ours asks."""
    return in_frame(request) and request.headers.get("sec-fetch-site") in (
        "cross-site",
        "same-site",
    )


def from_our_page(engine: Engine, request: Request) -> bool:
    """Tell whether a page of ours sent this, or the user themselves did."""
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin", "")
    host = urlsplit(origin).netloc.lower()
    own = {request.headers.get("host", "").lower(), urlsplit(engine.base_url(request)).netloc}
    return bool(host) and host in own


def foreign(engine: Engine, request: Request) -> bool:
    """Tell whether a page of somebody else sent this; a program that is no browser did not."""
    told = "sec-fetch-site" in request.headers or "origin" in request.headers
    return told and not from_our_page(engine, request)


def require_our_page(engine: Engine, request: Request) -> None:
    """Raise 403 unless a page of ours sent this."""
    if not from_our_page(engine, request):
        detail = "this request did not come from a page of this service"
        raise Refused(Problem(403, "foreign_origin", detail))
