"""Where a request comes from: a frame, one of our own pages, or a page of somebody else.

By headers that no page can set (Fetch Metadata, `Origin`, the origin in `Referer`); a request
without them is nobody's page.
"""

from urllib.parse import urlsplit

from fastapi import Request

from bridge.engine.http.engine_state import EngineState
from bridge.engine.http.requests.problems import HttpProblem, Problem


def is_framed(request: Request) -> bool:
    """Tell whether the browser loads this page into a frame."""
    return request.headers.get("sec-fetch-dest", "") in ("iframe", "frame", "embed", "object")


def framing_origin(request: Request) -> str:
    """Return the origin of the page that frames this one, where the browser says so."""
    parts = urlsplit(request.headers.get("referer", ""))
    return f"{parts.scheme}://{parts.netloc}" if is_framed(request) and parts.netloc else ""


def is_framed_by_other_site(request: Request) -> bool:
    """Tell whether another site's page asks for a frame; once ours is shown, ours asks."""
    return is_framed(request) and request.headers.get("sec-fetch-site") in (
        "cross-site",
        "same-site",
    )


def is_same_origin(engine: EngineState, request: Request) -> bool:
    """Tell whether a page of ours sent this, or the user themselves did."""
    site = request.headers.get("sec-fetch-site", "")
    if site:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin", "")
    host = urlsplit(origin).netloc.lower()
    own = {request.headers.get("host", "").lower(), urlsplit(engine.base_url(request)).netloc}
    return bool(host) and host in own


def is_cross_site(engine: EngineState, request: Request) -> bool:
    """Tell whether a page of somebody else sent this; a program that is no browser did not."""
    told = "sec-fetch-site" in request.headers or "origin" in request.headers
    return told and not is_same_origin(engine, request)


def require_same_origin(engine: EngineState, request: Request) -> None:
    """Raise 403 unless a page of ours sent this."""
    if not is_same_origin(engine, request):
        detail = "this request did not come from a page of this service"
        raise HttpProblem(Problem(403, "foreign_origin", detail))
