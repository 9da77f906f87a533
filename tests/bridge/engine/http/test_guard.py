"""Checks before the routes, problem responses, quotas and idempotency keys."""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text

from bridge.engine.service.sites.site_settings import is_origin
from bridge.engine.settings import EngineSettings, RateLimits
from bridge.quotas import Quota, QuotaMeter, monotonic_ms
from bridge.web.bodies import BUDGET, MAX_VALUES, SMALL
from parsers.limits import DocumentRefused
from parsers.readers import read_json as parse
from tests.bridge.engine.http.engine_service import ADMIN, OTHER, OURS, Clock, Service, identity
from tests.calls import counted
from tests.eventually import eventually_async
from tests.unread import METHODS, UnreadRequest, paths_of

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
    "report/elsewhere": {**ONE, "reported": True},
    "report/outside": {**identity(), "sender": "S", "number": "1", "reportStatus": "final"},
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
    assert [answer.status_code for answer in answers] == [404, 404]
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


def test_no_route_reads_an_unauthenticated_body(service: Service) -> None:
    """Each path and method, also an unknown one, refuses the request without reading it."""
    application = service.application
    read = []
    for path in [*paths_of(application.router.routes), "/", "/nowhere", "/api/nowhere"]:
        for method in METHODS:
            request = service.runner.run(UnreadRequest(method, path).send(application))
            assert 200 <= request.status < 600, (method, path)
            if request.reads:
                read.append((method, path))
            if request.status < 300 and method not in ("GET", "OPTIONS"):
                read.append((method, path))
    assert read == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x-access-token": "wrong"},
        {"authorization": "Bearer wrong"},
        {"cookie": "report_account=wrong; __Host-report_account=wrong"},
    ],
)
def test_no_route_reads_a_body_with_a_wrong_secret(
    service: Service, headers: dict[str, str]
) -> None:
    for path in paths_of(service.application.router.routes):
        request = UnreadRequest("POST", path, headers)
        assert not service.runner.run(request.send(service.application)).reads, path


def test_a_body_is_not_read_without_the_scope(service: Service) -> None:
    """A token without the scope is refused first."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN, "scopes": ["launch"]}).json()
    headers = {"x-access-token": made["token"]}
    request = UnreadRequest("POST", "/api/admin/sites", headers)
    service.runner.run(request.send(service.application))
    assert (request.status, request.reads) == (403, 0)


def test_only_files_and_launches_may_be_large(service: Service) -> None:
    """Requests that name orders are refused by their declared length."""
    headers = {"x-access-token": service.tokens[ADMIN]}
    for path, reads in (("/api/report/sign", 0), ("/api/report/launch/clinical", 1)):
        request = service.runner.run(UnreadRequest("POST", path, headers).send(service.application))
        assert bool(request.reads) is bool(reads), path


@pytest.mark.parametrize("form", ["[%s]", '{"a":[%s]}', '{"a":{"b":[%s]}}'])
@pytest.mark.parametrize("value", ["0", "[]", "{}", '""', "[[]]"])
def test_a_body_of_many_small_values_is_refused(service: Service, form: str, value: str) -> None:
    """Each value would need far more memory than its text; it is refused before it is parsed."""
    body = form % ",".join([value] * (MAX_VALUES + 1))
    headers = {"content-type": "application/json"}
    path = "/api/report/launch/clinical"
    response = service.call("POST", path, ADMIN, content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (413, "too_many_values")


def test_separators_in_a_text_are_not_counted_as_values(service: Service) -> None:
    """A long text within the limits is parsed."""
    body = json.dumps({"clinicalInfo": ',[{"\\' * MAX_VALUES})
    headers = {"content-type": "application/json"}
    path = "/api/report/launch/clinical"
    response = service.call("POST", path, ADMIN, content=body, headers=headers)
    assert response.json()["code"] == "invalid_request"


def test_bodies_in_progress_have_a_budget(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request beyond the memory budget gets 503 unread; the budget is released afterwards."""
    application = service.application
    monkeypatch.setattr(BUDGET, "size", 1000)
    headers = {"x-access-token": service.tokens[OTHER]}
    path = "/api/report/launch/clinical"
    large = {"content-type": "application/json"}
    BUDGET.take(900)
    try:
        refused = service.runner.run(UnreadRequest("POST", path, headers).send(application))
        response = service.call("POST", path, ADMIN, content=b" " * 2 * SMALL, headers=large)
        assert (response.status_code, response.json()["code"]) == (503, "overloaded")
        assert response.headers["retry-after"] == "1"
        assert service.launch().status_code == 200, "small bodies are exempt"
    finally:
        BUDGET.give_back(900)
    assert (refused.status, refused.reads) == (503, 0)
    assert BUDGET.used == 0


def test_a_single_body_may_be_larger_than_the_budget(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size limit larger than the memory budget does not refuse requests permanently."""
    monkeypatch.setattr(BUDGET, "size", 10)
    assert service.launch().status_code == 200


def assert_refused(
    response: httpx.Response, status: int = 400, code: str = "invalid_request"
) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert response.json()["requestId"] == response.headers["x-request-id"]


def test_no_route_accepts_nul_in_the_query(service: Service) -> None:
    for path in paths_of(service.application.router.routes):
        assert_refused(service.call("GET", f"{path}?SiteID=%00", None))
        assert_refused(service.call("POST", f"{path}?x=a%00b"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/admin/sites/%00/macros"),
        ("DELETE", "/api/admin/sites/SITE1/macros/a%00b"),
        ("DELETE", "/api/admin/sites/SITE1/users/a%00b"),
        ("GET", "/reporting/assets/%00.js"),
    ],
)
def test_no_path_has_nul(service: Service, method: str, path: str) -> None:
    """The path is unknown. The instance of the problem ends before the NUL."""
    response = service.call(method, path)
    assert_refused(response, 404, "no_such_path")
    assert "\x00" not in response.json()["instance"]


def test_an_escaped_escape_is_no_nul(service: Service) -> None:
    """`%2500` is the text `%00`."""
    assert service.call("GET", "/reporting/init?SiteID=%2500", None).status_code != 400
    assert service.call("GET", "/api/admin/sites/%2500/macros").status_code == 404


@pytest.mark.parametrize("path", ["/reporting/login", "/reporting/enrol"])
def test_no_form_accepts_nul(service: Service, path: str) -> None:
    for form in ("email=a%00b&password=x", "token=%00&password=x", "a%00=x", "email=a\x00b"):
        assert_refused(service.call("POST", path, None, content=form, headers=OURS))


def test_a_location_has_at_most_1024_bytes(service: Service) -> None:
    """Also in a query, whose characters may have two bytes."""
    service.launch()
    refused = service.get("report/content", SiteLocation="ä" * 600, **identity())
    assert_refused(refused)
    assert refused.json()["errors"][0]["pointer"] == "SiteLocation"
    assert service.get("report/content", SiteLocation="ä" * 512, **identity()).status_code == 200


def test_nesting_up_to_the_limit_is_read() -> None:
    """64 levels are read; one more is not."""
    assert parse(b"[" * 64 + b"]" * 64)
    with pytest.raises(DocumentRefused):
        parse(b"[" * 65 + b"]" * 65)


def test_escaped_text_is_read() -> None:
    """Escapes of characters, including surrogate pairs."""
    assert parse(b'"\\u00e9 \\ud83d\\ude00"') == "\u00e9 \U0001f600"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://viewer.test", True),
        ("http://localhost:3000", True),
        ("http://[::1]:3000", True),
        ("https://viewer.test/", False),
        ("https://viewer.test; script-src *", False),
        ("https://a.test https://b.test", False),
        ("https://*", False),
        ("ftp://viewer.test", False),
        ("viewer.test", False),
        ("", False),
    ],
)
def test_only_plain_origins_are_accepted_for_a_policy(text: str, good: bool) -> None:
    """frame-ancestors: no origin can add a directive."""
    assert is_origin(text) is good


QUOTA = Quota(2, 60)


def calls(meter: QuotaMeter, key: str) -> int:
    return counted(lambda: meter.take("reads", key, QUOTA))[1]


@pytest.mark.parametrize("passes", [0, 61])
def test_the_cost_does_not_depend_on_the_number_of_windows(passes: int) -> None:
    """For a new and a known caller, during the windows and after their end."""
    costs = []
    for count in (10, 100_000):
        clock = Clock()
        meter = QuotaMeter(clock)
        for number in range(count):
            meter.take("reads", str(number), QUOTA)
        clock.pass_seconds(passes)
        costs.append((calls(meter, "new"), calls(meter, "new"), calls(meter, str(count - 1))))
    assert costs[0] == costs[1]


def test_expired_windows_are_dropped() -> None:
    clock = Clock()
    meter = QuotaMeter(clock)
    for round_number in range(10):
        for number in range(1000):
            meter.take("reads", f"{round_number} {number}", QUOTA)
        clock.pass_seconds(61)
    assert len(meter) <= 1001


def test_the_number_of_windows_is_limited() -> None:
    """The oldest window is dropped for a new one; other policies are unaffected."""
    meter = QuotaMeter(Clock(), max_windows=100)
    meter.take("exports", "1", QUOTA)
    for number in range(1000):
        meter.take("reads", str(number), QUOTA)
    assert len(meter) <= 101
    again = meter.take("exports", "1", QUOTA)
    assert again is not None
    assert again.remaining == 0


def test_a_change_of_the_wall_clock_moves_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = QuotaMeter()
    first = meter.take("reads", "1", QUOTA)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    second = meter.take("reads", "1", QUOTA)
    assert first is not None
    assert second is not None
    assert (first.remaining, second.remaining) == (1, 0)
    assert monotonic_ms() > 0


WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)


@pytest.fixture
def locked(service: Service) -> Iterator[Connection]:
    service.launch()
    with service.database.write() as connection:
        connection.execute(text("SELECT pk FROM engine_report FOR UPDATE"))
        yield connection


async def wait_for_lock_waits(service: Service, count: int) -> None:
    """Wait until this many transactions wait for a lock."""

    def are_waiting() -> bool:
        with service.database.read() as connection:  # a new transaction each time
            return bool(connection.execute(WAITING).scalar_one() >= count)

    await eventually_async(are_waiting)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_concurrent_requests_with_one_key_are_executed_once(
    service: Service, locked: Connection
) -> None:
    headers = {"x-access-token": service.tokens[ADMIN], "idempotency-key": "k1"}
    body = {"clinicalInfo": identity()}

    async def sending() -> list[int]:
        async def one() -> int:
            response = await service.http.post("/api/report/sign", json=body, headers=headers)
            return response.status_code

        both = []
        for count in (1, 2):
            both.append(asyncio.create_task(one()))
            await wait_for_lock_waits(service, count)
        locked.commit()
        return await asyncio.gather(*both)

    assert service.runner.run(sending()) == [200, 200]
    events = [change["event"] for change in service.get("report/changes").json()["changes"]]
    assert events.count("report_signed") == 1


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_key_of_another_request_is_refused(service: Service) -> None:
    """A request with another body does not get the response of the first one."""
    responses = []
    for accession in ("A1", "A2", "A1"):
        service.launch(accession=accession)
        body = {"clinicalInfo": identity(accession)}
        responses.append(service.post("report/sign", body, headers={"idempotency-key": "k1"}))

    assert [response.status_code for response in responses] == [200, 409, 200]
    assert responses[1].json()["code"] == "key_reused"
    assert service.status("A2")["status"] == "Draft"
