"""
Errors of calls to the report service, and whether a retry can help.

Pure. Calls are idempotent by the interface reference, so an ambiguous failure may be repeated. An
error contains status, code and path, and no body, because bodies contain patient data.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from bridge.contract.errors import FINAL_CODES
from bridge.errors import BridgeError, FailureKind

_NO_ROUTE = {"not_found", "http_404"}


class EngineFailure(BridgeError):
    """
    A call to the report service failed.

    `status` is the HTTP status, None without a response. `code` is the error code of the service,
    or one of ours, such as `unreachable`, `no_answer` or `unreadable`. `retry_after` is in seconds.
    """

    def __init__(
        self,
        call: str,
        failure: FailureKind,
        code: str,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """`call` is the path; the text contains nothing of the request or response bodies."""
        super().__init__(f"{call}: {code} ({'no answer' if status is None else status}), {failure}")
        self.call = call
        self.failure = failure
        self.status = status
        self.code = code
        self.retry_after = retry_after

    @property
    def is_unsupported(self) -> bool:
        """Whether the service does not have the endpoint."""
        return self.status in {405, 501} or (self.status == 404 and self.code in _NO_ROUTE)  # noqa: PLR2004  # HTTP's own numbers

    @property
    def is_permanent_refusal(self) -> bool:
        """Whether the service will refuse the call again; includes a wrong token for a site."""
        return self.failure is FailureKind.PERMANENT or self.status == 401  # noqa: PLR2004  # as above


OK = range(200, 300)

BY_STATUS: Mapping[int, FailureKind] = MappingProxyType(
    {
        401: FailureKind.TRANSIENT,  # the token is wrong; an operator can correct it
        408: FailureKind.TRANSIENT,
        409: FailureKind.TRANSIENT,  # "an order changed during processing; retry"
        425: FailureKind.TRANSIENT,
        429: FailureKind.TRANSIENT,
        503: FailureKind.TRANSIENT,
    }
)
"""Exceptions to the rule of a status class."""

SERVER_ERRORS = range(500, 600)

_CODE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def classify(status: int, code: str, *, business: bool = False) -> FailureKind:
    """
    Return whether a retry can help after a response with `status`.

    `business` is the header `X-Error-Class: business`: a violated rule of the interface reference
    that is reported with status 500.
    """
    if business or code in FINAL_CODES:
        return FailureKind.PERMANENT
    if status in BY_STATUS:
        return BY_STATUS[status]
    return FailureKind.AMBIGUOUS if status in SERVER_ERRORS else FailureKind.PERMANENT


def code_of(body: object, status: int) -> str:
    """Return the `code` of a problem body, or `http_STATUS` if the body has no valid code."""
    code = body.get("code") if isinstance(body, dict) else None
    if isinstance(code, str) and _CODE.fullmatch(code):
        return code
    return f"http_{status}"


def retry_after(value: str | None, now: datetime) -> float | None:
    """Parse `Retry-After`: seconds or a date (RFC 9110 §10.2.3); None if missing or invalid."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError):
        return None
