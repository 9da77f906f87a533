"""Error responses and empty responses in the OpenAPI description."""

from typing import Any

from bridge.engine.http.requests.response_bodies import MEDIA_TYPE

_MEANINGS = {
    400: "The request is malformed or breaks a rule; `code` names the rule",
    401: "No valid access token",
    403: "The caller lacks the permission",
    404: "The site or the report does not exist",
    409: "Conflicts with the current state; `changed` may be retried",
    413: "The request is too large",
    429: "Too many requests; see Retry-After",
    500: "A business rule for which the interface reference defines 500 (X-Error-Class: business)",
    501: "A PDF writer, or a font for the text of this report, is not installed",
    503: "The database is not available at the moment",
}

Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Responses:
    """Return the OpenAPI error responses of a route: the usual statuses and these."""
    usual = (400, 401, 403, 404, 409, 413, 429, 503)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {
        status: {"description": _MEANINGS[status], "content": content}
        for status in sorted({*usual, *statuses})
    }


NO_BODY: Responses = {200: {"description": "Done; no body", "content": {}}}
WARNINGS: Responses = {
    200: {
        **NO_BODY[200],
        "headers": {
            "X-Warnings": {
                "description": "Warnings; absent if there are none",
                "schema": {"type": "string"},
            }
        },
    }
}
PAGE_LEFT: Responses = {204: {"description": "Done; the user has left the page"}}
