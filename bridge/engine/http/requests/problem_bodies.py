"""
Problem bodies: RFC 9457 with additional members for simple clients.

    {type, title, status, detail, instance, code, errors: [{pointer, message}], requestId, message,
     retryable}

`code` is stable. `message` repeats `detail`. If `retryable`, the same request may succeed later.
No body repeats a submitted value.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi import Response

MEDIA_TYPE = "application/problem+json"
ERROR_CLASS_HEADER = "X-Error-Class"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in a request: a JSON pointer to the place, and a message."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, independent of the request that gets it."""

    status: int
    code: str
    detail: str
    errors: Sequence[FieldError] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    retryable: bool = False

    def body(self, *, instance: str, request_id: str) -> dict[str, object]:
        """Return the JSON members of the problem body."""
        return {
            "type": f"urn:report-engine:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "errors": [{"pointer": each.pointer, "message": each.message} for each in self.errors],
            "requestId": request_id,
            "message": self.detail,
            "retryable": self.retryable,
        }

    def response(self, *, instance: str, request_id: str) -> Response:
        """Return the response; a 500 of a business rule carries `X-Error-Class: business`."""
        headers = dict(self.headers)
        if self.status == HTTPStatus.INTERNAL_SERVER_ERROR and self.code != "internal_error":
            headers[ERROR_CLASS_HEADER] = "business"
        content = json.dumps(self.body(instance=instance, request_id=request_id))
        return Response(content, self.status, headers, MEDIA_TYPE)


class HttpProblem(Exception):  # noqa: N818  # named like the problem body
    """Raised to end a request with a problem of the HTTP layer, not of an engine rule."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.code)


BY_TOKEN = 'AccessToken header="x-access-token"'  # noqa: S105  # the name of the header
BY_SESSION = "Bearer"


def unauthorized(
    detail: str = "a valid access token is required", challenge: str = BY_TOKEN
) -> HttpProblem:
    """Return a 401: the token is missing, unknown, expired or revoked (RFC 9110 §11.6)."""
    return HttpProblem(
        Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": challenge})
    )


def bad_request(
    detail: str, *errors: FieldError, code: str = "invalid_request", status: int = 400
) -> HttpProblem:
    """Return a 400, or another `status`: the request is not as documented."""
    return HttpProblem(Problem(status, code, detail, errors))


def too_large(limit: int) -> HttpProblem:
    """Return a 413: the request body has more bytes than allowed."""
    return HttpProblem(Problem(413, "too_large", f"the request is larger than {limit} bytes"))
