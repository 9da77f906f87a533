"""Refusals as problem bodies (RFC 9457); and what every answer of the console bears."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from starlette.responses import JSONResponse, Response

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class Kept(JSONResponse):
    """An answer that no browser and no proxy keeps."""

    def __init__(self, content: Any, status_code: int = 200, **more: Any) -> None:
        super().__init__(content, status_code, HEADERS, **more)


def problem(
    status: int, code: str, detail: str, more: Mapping[str, Any] = MappingProxyType({})
) -> Response:
    """Make a refusal's answer."""
    body = {**more, "type": "about:blank", "status": status, "code": code, "detail": detail}
    return JSONResponse(body, status, HEADERS, media_type="application/problem+json")
