"""How failures of the service are reported, classified, and limited in time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from bridge.engine_client.client import EngineClient, InProcess
from bridge.engine_client.errors import EngineFailure, classify, code_of, retry_after
from bridge.errors import FailureKind
from tests.bridge.engine_client.stub_service import ORDER, Service


async def test_a_failure_has_status_code_and_retry_after() -> None:
    service = Service(429, {"code": "rate_limited", "detail": "SECRET"}, retry_after="3")
    with pytest.raises(EngineFailure) as raised:
        await service.client().status([ORDER])
    failure = raised.value
    assert (failure.failure, failure.status, failure.code) == (
        FailureKind.TRANSIENT,
        429,
        "rate_limited",
    )
    assert failure.retry_after == 3.0
    assert "SECRET" not in str(failure)


async def test_a_missing_endpoint_differs_from_a_missing_report() -> None:
    """405 and a 404 without a report's code mean that the service has no such endpoint."""
    for status, code, expected in (
        (405, "x", True),
        (404, "not_found", True),
        (404, "http_404", True),
        (404, "report_not_found", False),
    ):
        response = None if code.startswith("http") else {"code": code}
        with pytest.raises(EngineFailure) as raised:
            await Service(status, response).client().changes(0)
        assert raised.value.is_unsupported is expected


async def test_a_violated_rule_is_final() -> None:
    """The document reports a violated rule with status 500, and marks it in a header."""
    service = Service(500, {"code": "some_new_rule"}, x_error_class="business")
    with pytest.raises(EngineFailure) as raised:
        await service.client().status([ORDER])
    assert (raised.value.failure, raised.value.code) == (FailureKind.PERMANENT, "some_new_rule")


async def test_only_401_means_signed_out() -> None:
    """Any other failure of the profile is an error: the user may be signed in."""
    assert await Service(401, {"code": "unauthorized"}).client().signed_in_user("session=1") is None
    with pytest.raises(EngineFailure):
        await Service(503).client().signed_in_user("session=1")


ERRORS = {
    httpx.ConnectError: FailureKind.TRANSIENT,
    httpx.ConnectTimeout: FailureKind.TRANSIENT,
    httpx.PoolTimeout: FailureKind.TRANSIENT,
    httpx.ReadTimeout: FailureKind.AMBIGUOUS,
    httpx.ReadError: FailureKind.AMBIGUOUS,
    httpx.WriteError: FailureKind.AMBIGUOUS,
    httpx.RemoteProtocolError: FailureKind.AMBIGUOUS,
    httpx.UnsupportedProtocol: FailureKind.PERMANENT,
}


@pytest.mark.parametrize(("error", "expected"), list(ERRORS.items()))
async def test_no_response(error: type[Exception], expected: FailureKind) -> None:
    """Without a connection nothing was sent; after a broken one the effect is unknown."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise error("SECRET")

    http = httpx.AsyncClient(transport=httpx.MockTransport(refuse), base_url="http://engine")
    with pytest.raises(EngineFailure) as raised:
        await EngineClient(http, "T").delete(ORDER)
    assert raised.value.failure is expected
    assert raised.value.status is None
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "response",
    [
        {},
        [{"status": "Odd"}],
        [7],
        "text",
        [{"status": "Draft"}],
        [{"status": "Draft", "clinicalInfo": [], "unsignUntil": True}],
    ],
)
async def test_an_unreadable_response_is_ambiguous(response: Any) -> None:
    with pytest.raises(EngineFailure) as raised:
        await Service(response=response).client().status([ORDER])
    assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "unreadable")


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


BASE = "http://here.test"


async def test_a_long_poll_extends_the_deadline() -> None:
    """The read time-out and the deadline exceed the wait that the call requests."""
    requests = []

    async def respond_slowly(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        await asyncio.sleep(0.1)
        return httpx.Response(200, json={"changes": [], "cursor": 7})

    http = httpx.AsyncClient(transport=httpx.MockTransport(respond_slowly), base_url=BASE)
    client = EngineClient(http, "token", deadline=0.05)
    assert (await client.changes(7, wait=1)).cursor == 7
    assert requests[0].extensions["timeout"]["read"] > 1
    with pytest.raises(EngineFailure):
        await client.changes(7)


async def test_a_call_to_an_engine_that_hangs_ends() -> None:
    """The failure is ambiguous, so that the call is retried; the running request is cancelled."""
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def application(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        await hang()

    async def respond(request: httpx.Request) -> httpx.Response:
        await hang()
        raise AssertionError

    remote = httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url=BASE)
    for http in (remote, InProcess(application, BASE)):
        client = EngineClient(http, "token", deadline=0.05)
        for call in (
            lambda: client.delete(ORDER),  # noqa: B023
            lambda: client.administer("GET", "/sites", "SITE1"),  # noqa: B023
            lambda: client.signed_in_user("", unattended=True),  # noqa: B023
        ):
            cancelled.clear()
            with pytest.raises(EngineFailure) as failure:
                await call()
            assert failure.value.failure is FailureKind.AMBIGUOUS
            assert failure.value.code == "no_answer"
            assert cancelled.is_set()
