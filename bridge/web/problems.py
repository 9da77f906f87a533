"""The body of a problem of the report engine (RFC 9457), with members for simple clients."""

from collections.abc import Iterable
from http import HTTPStatus


def problem_body(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    *,
    instance: str = "",
    errors: Iterable[tuple[str, str]] = (),
    retryable: bool = False,
) -> dict[str, object]:
    """
    Return the JSON members of a problem.

    `code` is stable. `message` repeats `detail`. `errors` are JSON pointers into the request, each
    with a message. If `retryable`, the same request may succeed later. No member repeats a
    submitted value.
    """
    return {
        "type": f"urn:report-engine:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "instance": instance,
        "code": code,
        "errors": [{"pointer": pointer, "message": message} for pointer, message in errors],
        "requestId": request_id,
        "message": detail,
        "retryable": retryable,
    }
