"""
What can go wrong with a call to the report service, and whether trying again helps.

Pure. The calls are idempotent by the interface document, so an ambiguous one may be repeated.
An error carries status, code and place, never a body: those hold patient data.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from bridge.errors import BridgeError, FailureKind

_NO_ROUTE = {"not_found", "http_404"}


class EngineFailure(BridgeError):  # noqa: N818  # its kinds are FailureKind's, and it is named so
    """
    A call to the report service failed.

    `status` is the HTTP status, None when no answer came; `code` the service's own stable
    word for the reason (or ours: `unreachable`, `no_answer`, `unreadable`); `retry_after`
    the seconds that the service asked for.
    """

    def __init__(
        self,
        call: str,
        failure: FailureKind,
        code: str,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Say which call failed, and how; never what was sent or answered."""
        super().__init__(f"{call}: {code} ({'no answer' if status is None else status}), {failure}")
        self.call = call
        self.failure = failure
        self.status = status
        self.code = code
        self.retry_after = retry_after

    @property
    def is_unsupported(self) -> bool:
        """Whether the service does not know the endpoint at all."""
        return self.status in {405, 501} or (self.status == 404 and self.code in _NO_ROUTE)  # noqa: PLR2004  # HTTP's own numbers


OK = range(200, 300)

BY_STATUS: Mapping[int, FailureKind] = MappingProxyType(
    {
        401: FailureKind.TRANSIENT,  # our token is at fault, not the message; it can be mended
        408: FailureKind.TRANSIENT,
        409: FailureKind.TRANSIENT,  # "an order changed during processing; retry"
        425: FailureKind.TRANSIENT,
        429: FailureKind.TRANSIENT,
        503: FailureKind.TRANSIENT,
    }
)
"""Statuses that differ from the rule of their class."""

FINAL_CODES = frozenset(
    {
        "patient_name_mismatch",
        "merge_conflict",
        "already_signed",
        "not_signed",
        "cooling_elapsed",
        "no_signed_addendum",
        "sign_delay_disabled",
    }
)
"""Codes that stay true however often one asks, whatever the status (the document's 500s)."""

CLIENT_ERRORS = range(400, 500)
SERVER_ERRORS = range(500, 600)

_CODE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def classify(status: int, code: str, *, business: bool = False) -> FailureKind:
    """
    Say whether repeating a call that was answered with `status` can help.

    `business` is the header `X-Error-Class: business`: a rule of the document that is
    reported with status 500 and is no fault of the server.
    """
    if business or code in FINAL_CODES:
        return FailureKind.PERMANENT
    if status in BY_STATUS:
        return BY_STATUS[status]
    return FailureKind.AMBIGUOUS if status in SERVER_ERRORS else FailureKind.PERMANENT


def code_of(body: object, status: int) -> str:
    """Read the `code` of a problem body; anything that is not a plain word is not repeated."""
    code = body.get("code") if isinstance(body, dict) else None
    if isinstance(code, str) and _CODE.fullmatch(code):
        return code
    return f"http_{status}"


def retry_after(value: str | None, now: datetime) -> float | None:
    """Read `Retry-After`: seconds, or a date (RFC 9110 §10.2.3); None when there is none."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError):
        return None
