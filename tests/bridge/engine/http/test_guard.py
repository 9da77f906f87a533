"""Checks before the routes, and problem responses."""

import hashlib
import json
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from bridge.engine.settings import EngineSettings, Quota, RateLimits, SizeLimits
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    READER,
    Service,
    identity,
    launch_body,
)

ONE = {"clinicalInfo": identity()}
LINK = {
    "SiteID": "SITE1",
    "clinicalInfo": [
        {"PatientMRN": "P1", "Accession": "A1"},
        {"PatientMRN": "P1", "Accession": "A2"},
    ],
}
ADMINISTRATIVE: dict[str, Any] = {
    "report/status": {"clinicalInfo": [identity()]},
    "report/export/html": ONE,
    "report/export/json": ONE,
    "report/export/rtf": ONE,
    "report/sign": ONE,
    "report/unsign": ONE,
    "report/addendum/sign": {**ONE, "ignoreSignDelay": True},
    "report/addendum/unsign": ONE,
    "report/prelim": {**ONE, "prelimGroup": "G", "prelimTag": "T"},
    "report/delete": ONE,
    "report/reset-order": identity(),
    "report/unassign": identity(),
    "report/link-orders": LINK,
    "report/unlink-orders": LINK,
    "patient/update": {"SiteID": "SITE1", "PatientMRN": "P1"},
    "patient/merge": {"SiteID": "SITE1", "PatientMRN": "P1", "PriorPatientMRN": "P2"},
}


@pytest.mark.parametrize("path", [*ADMINISTRATIVE, "report/launch/clinical", "report/init"])
def test_a_request_without_a_valid_token_fails(service: Service, path: str) -> None:
    """Authentication 1: a request without a valid token fails, whatever its body is."""
    for who in (None, "rbt_unknown"):
        answer = service.call("POST", f"/api/{path}", who, content=b"{ not json")
        assert answer.status_code == 401
        assert answer.json()["code"] == "unauthorized"


@pytest.mark.parametrize("path", ADMINISTRATIVE)
def test_only_administrators_of_the_site_may(service: Service, path: str) -> None:
    """Authentication 4: all endpoints other than launch require a site administrator."""
    for who in (READER, FOREIGN):
        assert service.post(path, ADMINISTRATIVE[path], who).status_code == 403


@pytest.mark.parametrize("path", ADMINISTRATIVE)
def test_a_foreign_administrator_learns_nothing(service: Service, path: str) -> None:
    """Per-site isolation: the answer is the same whether or not the report exists."""
    before = service.post(path, ADMINISTRATIVE[path], FOREIGN)
    assert service.launch().status_code == 200
    after = service.post(path, ADMINISTRATIVE[path], FOREIGN)
    assert after.status_code == before.status_code
    assert {**after.json(), "requestId": ""} == {**before.json(), "requestId": ""}


@pytest.mark.parametrize("path", ADMINISTRATIVE)
def test_an_unknown_site_is_404_before_the_role_is_looked_at(service: Service, path: str) -> None:
    """Errors: 404 site not found."""
    body = json.loads(json.dumps(ADMINISTRATIVE[path]).replace("SITE1", "NOWHERE"))
    for who in (ADMIN, READER):
        answer = service.post(path, body, who)
        assert (answer.status_code, answer.json()["code"]) == (404, "site_not_found")


def test_a_problem_body_has_all_members(service: Service) -> None:
    """Problem bodies follow RFC 9457 with additional members."""
    answer = service.post("report/sign", {})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) == {
        *("type", "title", "status", "detail", "instance", "code"),
        *("errors", "requestId", "message", "retryable"),
    }
    assert problem["status"] == answer.status_code == 400
    assert problem["errors"][0]["pointer"] == "/clinicalInfo"
    assert problem["requestId"] == answer.headers["x-request-id"]
    assert answer.headers["x-api-version"] == "1"


HOSTILE = {
    "not JSON": b"{",
    "empty": b"",
    "a list": b"[]",
    "a number": b"12",
    "null": b"null",
    "not UTF-8": b'{"clinicalInfo": "\xff"}',
    "NaN": b'{"clinicalInfo": NaN}',
    "infinity": b'{"clinicalInfo": 1e999}',
    "a number of 5000 digits": b'{"clinicalInfo": ' + b"9" * 5000 + b"}",
    "10,000 deep": b'{"clinicalInfo": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "deep Metadata": json.dumps(
        launch_body(tags={"Metadata": json.loads('{"a":' * 12 + "1" + "}" * 12)})
    ).encode(),
    "NUL": b'{"clinicalInfo": {"SiteID": "\\u0000"}}',
    "a lone surrogate": b'{"clinicalInfo": {"SiteID": "\\ud800"}}',
}


def test_no_body_is_a_fault_of_the_server(service: Service) -> None:
    """Whatever is sent, the answer is a 400 with a reason."""
    headers = {"content-type": "application/json"}
    for path in ("report/launch/clinical", "report/launch/clinical/batch", "report/status"):
        for name, body in HOSTILE.items():
            answer = service.call("POST", f"/api/{path}", ADMIN, content=body, headers=headers)
            if (path, name) != ("report/launch/clinical/batch", "a list"):
                assert answer.status_code == 400, (path, name, answer.text)
                assert answer.json()["detail"]


def test_a_body_that_is_not_declared_as_json_is_400(service: Service) -> None:
    """Endpoints: every request sends Content-Type: application/json where a body exists."""
    answer = service.call(
        "POST", "/api/report/sign", ADMIN, content=b"{}", headers={"content-type": "text/plain"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "not_json")


def test_a_refusal_never_repeats_what_was_sent(service: Service) -> None:
    """No value of a request in a problem body."""
    tags = {"PatientName": {"Canary": "CANARY"}, "Modality": ["CANARY"]}
    answer = service.launch(tags=tags, response={"type": "CANARY"})
    assert answer.status_code == 400
    assert "CANARY" not in answer.text


def test_a_business_failure_is_500_on_purpose(service: Service) -> None:
    """Errors: unsign of a Draft is 500; the header tells it from a crash."""
    service.launch()
    answer = service.post("report/unsign", ONE)
    assert (answer.status_code, answer.json()["code"]) == (500, "not_signed")
    assert answer.headers["x-error-class"] == "business"


def test_unknown_paths_and_methods_are_problems_too(service: Service) -> None:
    """Every error is a problem body."""
    assert service.get("nowhere").json()["code"] == "no_such_path"
    assert service.get("report/sign").json()["code"] == "method_not_allowed"


def test_quotas_are_counted_and_announced(service: Service) -> None:
    """Limits: 429 with Retry-After and RateLimit headers, by token; a service token is exempt."""
    engine = service.application.state.engine
    rates = RateLimits(launches=Quota(2))
    engine.settings = EngineSettings(engine.settings.link_keys, rates=rates)
    answers = [service.launch(accession=f"A{number}") for number in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[0].headers["ratelimit"] == '"launches";r=1;t=60'
    assert answers[2].headers["retry-after"] == "60"
    assert service.launch("service", lazyLaunch=True).status_code == 200
    service.clock.pass_seconds(61)
    assert service.launch(accession="A9").status_code == 200


def test_unknown_tokens_of_one_network_count_together(service: Service) -> None:
    """An IPv6 host has a whole /64: other addresses of it are refused, other networks are not."""
    engine = service.application.state.engine
    rates = RateLimits(failed_authentications=Quota(4))
    engine.settings = EngineSettings(engine.settings.link_keys, rates=rates)
    tried = [from_address(service, f"2001:db8::{number + 1}") for number in range(6)]
    assert tried == [401] * 4 + [429] * 2
    assert from_address(service, "2001:db8:0:1::1") == 401


def from_address(service: Service, address: str) -> int:
    """Send one request with an unknown token."""

    async def one() -> int:
        transport = httpx.ASGITransport(app=service.application, client=(address, 4000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            answer = await client.post("/api/report/sign", headers={"x-access-token": "rbt_guess"})
        return answer.status_code

    return service.runner.run(one())


def test_a_body_beyond_the_limit_is_413(service: Service) -> None:
    """Limits: the size is checked before the syntax, and after the token."""
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys, sizes=SizeLimits(body=1000))
    headers = {"content-type": "application/json"}
    large = b"{" + b" " * 2000
    answer = service.call("POST", "/api/report/sign", ADMIN, content=large, headers=headers)
    assert answer.status_code == 413
    answer = service.call("POST", "/api/report/sign", None, content=large, headers=headers)
    assert answer.status_code == 401


def test_a_scope_limits_a_token(service: Service) -> None:
    """A token for launching only launches."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN, "scopes": ["launch"]}).json()[
        "token"
    ]
    assert service.launch(made).status_code == 200
    assert service.post("report/sign", ONE, made).status_code == 403


def test_an_expired_or_revoked_token_fails(service: Service) -> None:
    """Authentication 1: only a valid token counts."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN, "expiresDays": 1}).json()
    assert service.launch(made["token"]).status_code == 200
    listed = service.get("admin/sites/SITE1/tokens").json()
    assert made["token"] not in json.dumps(listed)
    service.clock.pass_seconds(25 * 3600)
    assert service.launch(made["token"]).status_code == 401
    other = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()
    path = f"/api/admin/sites/SITE1/tokens/{other['id']}"
    assert service.call("DELETE", path, FOREIGN).status_code == 403
    assert service.call("DELETE", path).status_code == 200
    assert service.launch(other["token"]).status_code == 401


def test_a_repeat_with_an_idempotency_key_changes_nothing(service: Service) -> None:
    """The second sign would be a 500; with the key it gets the first answer again."""
    service.launch()
    headers = {"Idempotency-Key": "k1"}
    first = service.post("report/sign", ONE, headers=headers)
    again = service.post("report/sign", ONE, headers=headers)
    assert (first.status_code, again.status_code) == (200, 200)
    assert service.post("report/sign", ONE).status_code == 500
    other = service.post("report/sign", {"clinicalInfo": identity("A2")}, headers=headers)
    assert other.status_code == 409


def test_what_is_kept_of_a_repeat_is_sealed(service: Service) -> None:
    """Neither the link nor a digest of the request can be read where the answer is kept."""
    headers = {"Idempotency-Key": "k1"}
    body = {"email": ADMIN, "label": "machine"}
    first = service.post("admin/sites/SITE1/tokens", body, headers=headers)
    assert first.status_code == 200, first.text
    assert service.post("admin/sites/SITE1/tokens", body, headers=headers).json() == first.json()
    with service.database.read() as connection:
        kept = str(connection.execute(text("SELECT * FROM engine_idempotency")).all())
    assert "sealed" in kept
    assert first.json()["token"] not in kept
    assert hashlib.sha256(first.request.content).hexdigest() not in kept
    other = service.post("admin/sites/SITE1/tokens", {**body, "label": "other"}, headers=headers)
    assert other.status_code == 409


def test_the_description_lists_every_endpoint_and_no_422(service: Service) -> None:
    """OpenAPI: problem bodies for all errors; FastAPI's own 422 is nowhere."""
    description = service.call("GET", "/openapi.json", None).json()
    assert {f"/api/{path}" for path in ADMINISTRATIVE} <= set(description["paths"])
    for operations in description["paths"].values():
        for operation in operations.values():
            assert "422" not in operation["responses"]


def test_cross_origin_requests_get_no_permission(service: Service) -> None:
    """CORS is off: a browser of another origin may not call the API."""
    headers = {"origin": "https://elsewhere.test", "access-control-request-method": "POST"}
    answer = service.call("OPTIONS", "/api/report/sign", None, headers=headers)
    assert "access-control-allow-origin" not in answer.headers


def test_health_and_docs_need_no_token(service: Service) -> None:
    """Operators' probes and readers of the description come without one."""
    for path in ("/healthz", "/readyz", "/docs", "/reporting/assets/docs.js"):
        assert service.call("GET", path, None).status_code == 200
