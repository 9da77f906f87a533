"""How failures of the service are reported."""

from typing import Any

import httpx
import pytest

from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
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
