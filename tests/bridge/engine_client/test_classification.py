"""Which failures can be retried."""

from datetime import UTC, datetime

import pytest

from bridge.engine_client.errors import classify, code_of, retry_after
from bridge.errors import FailureKind

TABLE = {
    (400, "anything"): FailureKind.PERMANENT,
    (401, "unauthorized"): FailureKind.TRANSIENT,
    (403, "forbidden"): FailureKind.PERMANENT,
    (404, "report_not_found"): FailureKind.PERMANENT,
    (409, "changed"): FailureKind.TRANSIENT,
    (409, "patient_name_mismatch"): FailureKind.PERMANENT,
    (409, "merge_conflict"): FailureKind.PERMANENT,
    (413, "too_large"): FailureKind.PERMANENT,
    (429, "rate_limited"): FailureKind.TRANSIENT,
    (500, "internal_error"): FailureKind.AMBIGUOUS,
    (500, "already_signed"): FailureKind.PERMANENT,
    (502, "http_502"): FailureKind.AMBIGUOUS,
    (503, "http_503"): FailureKind.TRANSIENT,
    (504, "http_504"): FailureKind.AMBIGUOUS,
    (302, "http_302"): FailureKind.PERMANENT,
}


@pytest.mark.parametrize(("outcome", "expected"), list(TABLE.items()), ids=str)
def test_status_and_code_decide_the_kind(outcome: tuple[int, str], expected: FailureKind) -> None:
    """The table lists every kind of error response."""
    assert classify(*outcome) is expected


def test_a_business_500_is_final() -> None:
    """The service marks a 500 of the document in a header; any code is possible."""
    assert classify(500, "some_new_rule", business=True) is FailureKind.PERMANENT


@pytest.mark.parametrize("body", [None, [], "DOE", {"code": 7}, {"code": "doe^john"}, {"code": ""}])
def test_an_invalid_code_is_not_repeated(body: object) -> None:
    """A value of `code` without the form of a code could be patient data."""
    assert code_of(body, 418) == "http_418"


def test_a_code_is_read() -> None:
    """Callers decide by the code of a problem body."""
    assert code_of({"code": "changed", "detail": "…"}, 409) == "changed"


NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    """Seconds or a date (RFC 9110 §10.2.3); any other value is ignored."""
    assert retry_after(header, NOW) == seconds
