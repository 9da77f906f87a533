"""Limits: rates, sizes, counts; repeated requests."""

import base64
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.engine.settings import Quota
from tests.bridge.engine.http.engine_service import ADMIN, READER, Service, identity
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_problems import is_problem


@pytest.mark.parametrize("rate", ["reads", "launches", "exports"])
def test_rate_limits(service: Service, rate: str) -> None:
    """Rate limits: 429 with Retry-After, per token; every response has RateLimit headers."""
    engine = service.application.state.engine
    rates = replace(engine.settings.rates, **{rate: Quota(3, 60)})
    engine.settings = replace(engine.settings, rates=rates)
    ok(service.launch("service", lazyLaunch=True, registerOrder=True))

    def ask(who: str) -> httpx.Response:
        if rate == "launches":
            return service.launch(who, lazyLaunch=True)
        path = "report/export/json" if rate == "exports" else "report/unsign"
        return service.post(path, {"clinicalInfo": identity()}, who)

    for left in (2, 1, 0):
        response = ask(ADMIN)
        assert response.status_code != 429
        assert f"r={left};" in response.headers["ratelimit"]
        assert "q=3;w=60" in response.headers["ratelimit-policy"]
    refused = ask(ADMIN)
    assert is_problem(refused, 429)["code"] == "too_many_requests"
    assert refused.headers["retry-after"] == "60"
    assert ask(READER).status_code != 429  # each token has its own limit
    assert all(ask("service").status_code != 429 for _ in range(4))  # that of the bridge has none
    service.clock.pass_seconds(60)
    assert ask(ADMIN).status_code != 429


def test_body_size(service: Service) -> None:
    """Limits: 413 for a larger body, with and without declared length; 401 comes first."""
    engine = service.application.state.engine
    sizes = replace(engine.settings.sizes, body=1000)
    engine.settings = replace(engine.settings, sizes=sizes)

    def chunks() -> Any:
        async def sending() -> Any:
            for _ in range(200):
                yield b" " * 100

        return sending()

    headers = {"content-type": "application/json"}
    for content in (b" " * 1001, chunks()):
        is_problem(service.call("POST", "/api/report/sign", content=content, headers=headers), 413)
    response = service.call(
        "POST", "/api/report/sign", "unknown", content=b" " * 1001, headers=headers
    )
    is_problem(response, 401)


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        ({"Modality": "x" * 1024}, 200), ({"Modality": "x" * 1025}, 400),
        ({"KeyFindings": "x" * 100_000}, 200), ({"KeyFindings": "x" * 100_001}, 400),
        ({"Notes": "x" * 100_001}, 400), ({"ReasonForExam": "x" * 100_001}, 400),
        ({"Metadata": {"a": "x" * 65_000}}, 200), ({"Metadata": {"a": "x" * 65_536}}, 400),
        ({"Metadata": {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}}, 200),
        ({"Metadata": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {}}}}}}}}}}, 400),
        ({"Metadata": {str(n): n for n in range(4000)}}, 200),
    ],
)  # fmt: skip
def test_sizes_of_tags(service: Service, tags: dict[str, Any], status: int) -> None:
    """Limits: the maximum length is accepted, one more character is refused."""
    assert service.launch(READER, tags=tags).status_code == status


def test_counts(service: Service) -> None:
    """Limits: the number of files and of orders in a request."""
    data = base64.b64encode(b"x").decode()
    files: tuple[dict[str, Any], ...] = (
        {"dicomSR": [{"fileData": data}] * 21},
        {"keyImages": [{"imageData": data, "contentType": "image/png"}] * 51},
    )
    for changes in files:
        assert service.launch(**changes).json()["code"] == "too_many_files"
    many = {"clinicalInfo": [identity()] * 501}
    assert service.post("report/status", many).json()["code"] == "too_many_orders"
    most = {"clinicalInfo": [identity(str(n)) for n in range(500)]}
    assert ok(service.post("report/status", most)).json() == []


@pytest.mark.parametrize("path", ["sign", "delete", "prelim", "unassign", "reset-order"])
def test_idempotency_keys(case: Case, path: str) -> None:
    """Idempotency-Key: the same request gets the first response; another request is refused."""
    case.order("A1")
    case.draft("A1")
    body: dict[str, Any] = {"clinicalInfo": identity(), "prelimGroup": "G", "prelimTag": "T"}
    body = identity() if path in ("unassign", "reset-order") else body
    headers = {"Idempotency-Key": "k-1"}
    for _ in range(3):
        response = case.service.post(f"report/{path}", body, headers=headers)
        assert (response.status_code, response.content) == (200, b"")
    other = {**body, "clinicalInfo": identity("A2")} if "clinicalInfo" in body else identity("A2")
    response = case.service.post(f"report/{path}", other, headers=headers)
    assert response.status_code == 409


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä".encode("latin-1")])
def test_invalid_idempotency_keys_are_refused(case: Case, key: Any) -> None:
    """Idempotency-Key: 1 to 255 visible characters."""
    case.draft("A1")
    headers = {"Idempotency-Key": key}
    response = case.service.post("report/sign", {"clinicalInfo": identity()}, headers=headers)
    is_problem(response, 400)
    assert case.record("A1")["status"] == "Draft"


def test_a_failed_request_can_be_repeated_with_its_key(case: Case) -> None:
    """Idempotency-Key: failures are not stored."""
    headers = {"Idempotency-Key": "k"}
    body = {"clinicalInfo": identity()}
    assert case.service.post("report/sign", body, headers=headers).status_code == 404
    case.draft("A1")
    assert case.service.post("report/sign", body, headers=headers).status_code == 200
