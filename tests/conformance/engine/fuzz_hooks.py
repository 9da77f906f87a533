"""
Hooks and checks for schemathesis; loaded by its command line, not by pytest.

The interface reference defines business failures as 500; a header marks them. A request of the
described shape may break a rule, but its shape is valid.
"""

from typing import Any
from urllib.parse import quote

import schemathesis

from tests.conformance.engine import fuzz_sessions

LONGEST, MAXIMUM = 0.05, 60  # seconds
MAX_ADDRESS = 8000
STREAM, ENDLESS = "/reporting/api/session/events", (None, False, "false")
# Rules that a schema cannot express; and 1.0, which is an integer only in JSON Schema.
NO_SHAPE = (
    *("bytes in UTF-8", "belong to its SiteID", "either document or text", "language codes"),
    *("valid integer", "direction marks", "is not a day", "has several values"),
)
SHAPE = {"invalid_request", "not_json"}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Limit the wait of long polls and streams; send the present version of reports."""
    fuzz_sessions.present_version(case)
    if case.operation.path == STREAM and (case.query or {}).get("once") in ENDLESS:
        case.query = {**(case.query or {}), "once": True}
    wait = (case.query or {}).get("wait")
    if isinstance(wait, int | float) and LONGEST < wait <= MAXIMUM:
        case.query["wait"] = LONGEST


def _fits(values: Any) -> bool:
    """True if an address is as short as each server takes it (RFC 9110 §4.1: 8,000 bytes)."""
    return len(quote(str(values or ""))) <= MAX_ADDRESS


@schemathesis.hook
def filter_query(context: Any, query: Any) -> bool:
    return _fits(query)


@schemathesis.hook
def filter_path_parameters(context: Any, path_parameters: Any) -> bool:
    return _fits(path_parameters)


@schemathesis.check
def no_failure(ctx: Any, response: Any, case: Any) -> None:
    """Only business failures are 500; a problem has all its members and no stack trace."""
    business = response.headers.get("x-error-class") == ["business"]
    assert response.status_code < 500 or business, response.text
    assert b"Traceback" not in response.content  # some responses are binary
    if response.status_code >= 400:
        assert response.headers["content-type"] == ["application/problem+json"]
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["detail"] == problem["message"]
        assert problem["requestId"] == response.headers["x-request-id"][0]


@schemathesis.check
def described_shape(ctx: Any, response: Any, case: Any) -> None:
    """A request that the description allows is not refused for its shape."""
    mode = case.meta.generation.mode if case.meta else None
    if mode == schemathesis.GenerationMode.POSITIVE and response.status_code == 400:
        problem = response.json()
        rule = any(item in problem["detail"] for item in NO_SHAPE)
        assert rule or problem["code"] not in SHAPE, problem["detail"]
