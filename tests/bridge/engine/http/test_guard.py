"""Checks before the routes, problem responses, quotas and idempotency keys."""

import hashlib
from typing import Any

import pytest
from sqlalchemy import text

from bridge.engine.settings import EngineSettings, Quota, RateLimits
from tests.bridge.engine.http.engine_service import ADMIN, Service, identity

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
    "patient/unmerge": {"SiteID": "SITE1", "PatientMRN": "P1", "PriorPatientMRN": "P2"},
}


def test_a_business_failure_is_500_with_a_header(service: Service) -> None:
    """Errors: unsign of a Draft is 500; the header distinguishes it from a crash."""
    service.launch()
    response = service.post("report/unsign", ONE)
    assert (response.status_code, response.json()["code"]) == (500, "not_signed")
    assert response.headers["x-error-class"] == "business"


def test_unknown_tokens_of_one_network_count_together(service: Service) -> None:
    """An IPv6 host has a /64 network: all of its addresses share one count."""
    engine = service.application.state.engine
    rates = RateLimits(failed_authentications=Quota(4))
    engine.settings = EngineSettings(engine.settings.link_keys, rates=rates)
    tried = [from_address(service, f"2001:db8::{number + 1}") for number in range(6)]
    assert tried == [401] * 4 + [429] * 2
    assert from_address(service, "2001:db8:0:1::1") == 401


def from_address(service: Service, address: str) -> int:
    """Send one request with an unknown token."""
    headers = {"x-access-token": "rbt_guess"}
    sent = service.send_from(address, "POST", "/api/report/sign", headers=headers)
    return service.runner.run(sent).status_code


def test_an_idempotency_key_belongs_to_its_token(service: Service) -> None:
    """The same key with another token is a new request."""
    service.launch()
    headers = {"Idempotency-Key": "k1"}
    assert service.post("report/sign", ONE, headers=headers).status_code == 200
    other = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()["token"]
    assert service.post("report/sign", ONE, other, headers=headers).status_code == 500


def test_a_refused_deletion_is_executed_again(service: Service) -> None:
    """Only a success is stored: the order may have a report when the request is repeated."""
    headers = {"Idempotency-Key": "k1"}
    answers = [service.post("report/delete", ONE, headers=headers) for _ in range(2)]
    assert [each.status_code for each in answers] == [404, 404]
    service.launch()
    assert service.post("report/delete", ONE, headers=headers).status_code == 200
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404
    assert service.post("report/delete", ONE, headers=headers).status_code == 200


def test_stored_responses_are_sealed(service: Service) -> None:
    """The table of idempotency keys contains neither the token nor a digest of the request."""
    headers = {"Idempotency-Key": "k1"}
    body = {"email": ADMIN, "label": "machine"}
    first = service.post("admin/sites/SITE1/tokens", body, headers=headers)
    assert first.status_code == 200, first.text
    assert service.post("admin/sites/SITE1/tokens", body, headers=headers).json() == first.json()
    with service.database.read() as connection:
        stored = str(connection.execute(text("SELECT * FROM engine_idempotency")).all())
    assert "sealed" in stored
    assert first.json()["token"] not in stored
    assert hashlib.sha256(first.request.content).hexdigest() not in stored
    other = service.post("admin/sites/SITE1/tokens", {**body, "label": "other"}, headers=headers)
    assert other.status_code == 409


def test_the_description_lists_every_endpoint_and_no_422(service: Service) -> None:
    """OpenAPI: problem bodies for all errors; the 422 of FastAPI is removed."""
    description = service.call("GET", "/openapi.json", None).json()
    assert {f"/api/{path}" for path in ADMINISTRATIVE} <= set(description["paths"])
    for operations in description["paths"].values():
        for operation in operations.values():
            assert "422" not in operation["responses"]


def test_the_description_is_written_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of requests for the description costs the event loop no rendering."""
    first = service.call("GET", "/openapi.json", None)
    monkeypatch.setattr(service.application, "openapi", dict)
    again = service.call("GET", "/openapi.json", None)
    assert again.content == first.content
    assert again.headers["content-type"] == "application/json"


def test_health_and_docs_need_no_token(service: Service) -> None:
    """Probes and the description are public."""
    for path in ("/healthz", "/readyz", "/docs", "/reporting/assets/docs.js"):
        assert service.call("GET", path, None).status_code == 200


@pytest.mark.parametrize("header", ["origin", "referer", "host"])
@pytest.mark.parametrize("value", ["http://[", "http://[::1", "[", "http://x:y"])
def test_malformed_addresses_in_headers(service: Service, header: str, value: str) -> None:
    """A header that is no address causes no server error."""
    framed = {header: value, "sec-fetch-dest": "iframe"}
    for path in ("/reporting/login", "/reporting/report", "/api/worklist", "/reporting/unknown"):
        assert service.call("GET", path, None, headers=framed).status_code < 500
    answer = service.call("POST", "/reporting/login", None, headers={header: value})
    assert answer.status_code < 500
