"""
The origin of a request: a frame, a page of this service, or a page of another site.

The headers used here cannot be set by a page (Fetch Metadata, `Origin`, the origin in `Referer`). A
request without them does not come from a page.
"""

from urllib.parse import urlsplit

from fastapi import Request

from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.requests.problems import HttpProblem, Problem


def is_framed(request: Request) -> bool:
    """Tell whether the browser loads this page into a frame."""
    return request.headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object")


def framing_origin(request: Request) -> str:
    """Return the origin of the page that frames this one; empty if the browser does not send it."""
    parts = urlsplit(request.headers.get("referer", ""))
    return f"{parts.scheme}://{parts.netloc}" if is_framed(request) and parts.netloc else ""


def is_framed_by_other_site(request: Request) -> bool:
    """Tell whether a page of another site loads this page into a frame."""
    return is_framed(request) and request.headers.get("sec-fetch-site") in (
        "cross-site",
        "same-site",
    )


def is_same_origin(engine: EngineState, request: Request) -> bool:
    """Tell whether a page of this service, or the user's address bar, sent the request."""
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin", "")
    host = urlsplit(origin).netloc.lower()
    own = {request.headers.get("host", "").lower(), urlsplit(engine.base_url(request)).netloc}
    return bool(host) and host in own


def is_cross_site(engine: EngineState, request: Request) -> bool:
    """Tell whether a page of another site sent the request; programs send no such headers."""
    from_browser = "sec-fetch-site" in request.headers or "origin" in request.headers
    return from_browser and not is_same_origin(engine, request)


def require_same_origin(engine: EngineState, request: Request) -> None:
    """Raise 403 unless a page of this service sent the request."""
    if not is_same_origin(engine, request):
        detail = "this request did not come from a page of this service"
        raise HttpProblem(Problem(403, "foreign_origin", detail))
