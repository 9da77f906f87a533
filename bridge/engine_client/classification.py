"""
One table: what an HTTP outcome means for trying again.

Pure. The calls are idempotent by the interface document, so an ambiguous one may be repeated.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from bridge.queue.states import Failure

OK = range(200, 300)

BY_STATUS: Mapping[int, Failure] = MappingProxyType(
    {
        401: Failure.TRANSIENT,  # our token is at fault, not the message; it can be mended
        408: Failure.TRANSIENT,
        409: Failure.TRANSIENT,  # "an order changed during processing; retry"
        425: Failure.TRANSIENT,
        429: Failure.TRANSIENT,
        503: Failure.TRANSIENT,
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


def classify(status: int, code: str, *, business: bool = False) -> Failure:
    """
    Say whether repeating a call that was answered with `status` can help.

    `business` is the header `X-Error-Class: business`: a rule of the document that is
    reported with status 500 and is no fault of the server.
    """
    if business or code in FINAL_CODES:
        return Failure.PERMANENT
    if status in BY_STATUS:
        return BY_STATUS[status]
    return Failure.AMBIGUOUS if status in SERVER_ERRORS else Failure.PERMANENT


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
