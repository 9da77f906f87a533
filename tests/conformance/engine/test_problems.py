"""Problem bodies, limits and headers of all endpoints."""

import base64
import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.quotas import Quota
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    READER,
    Service,
    identity,
    launch_body,
    user,
)
from tests.bridge.engine.http.test_guard import ADMINISTRATIVE
from tests.conformance.engine.cases import Case, ok

POSTS = {
    **ADMINISTRATIVE,
    "report/launch/clinical": launch_body(),
    "report/init": {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": {}},
    "report/launch/clinical/batch": [launch_body()],
}
PROBLEM = {
    *("type", "title", "status", "detail", "instance", "code", "errors", "requestId", "message"),
    "retryable",
}


def is_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """Assert that a problem body is complete; return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert set(body) == PROBLEM
    assert body["status"] == status
    assert body["message"] == body["detail"] != ""
    assert body["requestId"] == response.headers["x-request-id"]
    assert re.fullmatch(r"[a-z_]+", body["code"])
    assert body["retryable"] is (body["code"] in ("changed", "too_many_requests", "unavailable"))
    assert body["type"].endswith(body["code"])
    for error in body["errors"]:
        assert set(error) == {"pointer", "message"}
    return body


BODIES = [
    b"", b"{", b"null", b"[]", b"5", b'"x"', b"true", b"{}", b"\xff\xfe", b'{"clinicalInfo":',
    b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e999}', b'{"a": "\\u0000"}', b'{"a": "\\ud800"}',
    b'{"a":' * 5000, b"[" * 100_000, b"{}{}", b"/* c */ {}", b"{'a': 1}", b'{"a": 1,}',
    b'{"clinicalInfo": ' + b"9" * 5000 + b"}", b"\xef\xbb\xbf{}", b"\x00", b'{"a": "\xff"}',
]  # fmt: skip


@pytest.mark.parametrize("path", POSTS)
def test_invalid_bodies_are_400(service: Service, path: str) -> None:
    """Errors: the response contains the reason."""
    for body in BODIES:
        headers = {"content-type": "application/json"}
        response = service.call("POST", f"/api/{path}", content=body, headers=headers)
        is_problem(response, 400)


@pytest.mark.parametrize("path", POSTS)
def test_content_types(service: Service, path: str) -> None:
    """Endpoints: a body has the Content-Type application/json."""
    content = json.dumps(POSTS[path]).encode()
    for media_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ):
        response = service.call(
            "POST", f"/api/{path}", content=content, headers={"content-type": media_type}
        )
        assert is_problem(response, 400)["code"] == "not_json"
    for media_type in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"):
        response = service.call(
            "POST", f"/api/{path}", content=content, headers={"content-type": media_type}
        )
        assert b'"not_json"' not in response.content


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods(service: Service, method: str) -> None:
    """Endpoints: one method each; the response names it (RFC 9110 §15.5.6)."""
    for path in POSTS:
        response = service.call(method, f"/api/{path}")
        assert is_problem(response, 405)["code"] == "method_not_allowed"
        assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/report", "/api/report/sign/", "/api//report/sign", "/x",
             "/api/report/Sign", "/.env", "/api/report/sign%00"]
)  # fmt: skip
def test_unknown_paths_are_404(service: Service, path: str) -> None:
    """Errors: with a problem body, without a redirect."""
    assert is_problem(service.call("POST", path, json={}), 404)["code"] == "no_such_path"


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/healthz", "/reporting/init"])
def test_405_has_the_allowed_methods(service: Service, path: str) -> None:
    """Allow (RFC 9110 §15.5.6), on pages and descriptions too."""
    response = service.call("DELETE", path)
    is_problem(response, 405)
    assert "GET" in response.headers["allow"].split(", ")


def test_head_equals_get_without_the_body(service: Service) -> None:
    """RFC 9110 §9.1: the same headers and refusals."""
    service.launch()
    path = "/api/report/content"
    for who, query in ((ADMIN, identity()), (READER, identity()), (ADMIN, identity("A9"))):
        got, head = (service.call(item, path, who, params=query) for item in ("GET", "HEAD"))
        assert head.content == b""
        assert head.status_code == got.status_code
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]
    allowed = service.call("DELETE", path).headers["allow"]
    assert allowed == "GET, HEAD"
    assert service.call("HEAD", "/api/report/sign").headers["allow"] == "POST"


def test_a_very_long_path_is_not_repeated(service: Service) -> None:
    """Problem bodies: the length of `instance` is limited."""
    response = service.call("GET", "/" + "a" * 60_000)
    is_problem(response, 404)
    assert len(response.content) < 4096


def test_a_problem_does_not_contain_values_of_the_request(service: Service) -> None:
    """The values could be patient data."""
    canary = "CANARY-4711"
    bodies: list[Any] = [
        launch_body(canary, canary, tags={"Modality": {canary: canary}}),
        launch_body(canary, tags={"KeyFindings": [canary]}),
        launch_body(response={"type": canary}),
        launch_body(reportingApp={"AppLanguage": canary}),
        launch_body(userInfo={"UserEmail": canary}),
        launch_body(dicomSR=[{"fileData": canary}]),
        launch_body(keyImages=[{"imageData": canary, "contentType": canary}]),
        launch_body(site=canary),
    ]
    for body in bodies:
        response = service.post("report/launch/clinical", body)
        assert response.status_code in (400, 404)
        assert canary not in response.text


@pytest.mark.parametrize(
    "more",
    [
        {"lazyLaunch": None}, {"registerOrder": None}, {"forceUpdatePatientName": None},
        {"userInfo": None}, {"dicomSR": None}, {"keyImages": None},
        {"userInfo": {**user(), "Auth": None, "forceOwnershipTransfer": None}},
        {"reportingApp": {"SyncLaunch": None, "AutoComparePrior": None, "ApplyTemplate": None}},
        {"response": {"type": "link", "qrCodeOptions": None}},
        {"response": {"type": "all", "qrCodeOptions": {"size": None, "mode": None}}},
    ],
)  # fmt: skip
def test_optional_members_of_a_launch(service: Service, more: dict[str, Any]) -> None:
    """Launch request objects: the defaults false, standard and light apply to null too."""
    body = ok(service.launch(**more)).json()
    assert (body["status"], body["warnings"]) == ("Draft", [])


def test_optional_members_of_other_requests(case: Case) -> None:
    """rtf, sign: responseType, contentOnly, timeZone and ignoreSignDelay have defaults."""
    case.draft("A1")
    null: dict[str, Any] = {"responseType": None, "contentOnly": None, "timeZone": None}
    response = ok(case.post("export/rtf", "A1", **null))
    assert response.headers["content-type"] == "application/rtf"
    ok(case.post("sign", "A1", ignoreSignDelay=None, timeZone=None))
    assert case.record("A1")["unsignUntil"] is not None


@pytest.mark.parametrize("value", [None, False, "true", 1, {}, []])
def test_a_required_member_is_not_null(case: Case, value: Any) -> None:
    """addendum/sign: ignoreSignDelay is required and must be true; the error has its place."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    response = case.post("addendum/sign", "A1", ignoreSignDelay=value)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/ignoreSignDelay"
    assert "Value error" not in response.text
    assert case.record("A1")["addendumUnsignUntil"] is not None


def test_orders_of_one_request_have_one_site(case: Case) -> None:
    """link-orders: SiteID applies to all orders; an order with another SiteID is refused."""
    for name in ("A1", "A2"):
        case.order(name)
    stray = {**identity("A2"), "SiteID": "SITE2"}
    for path in ("link-orders", "unlink-orders"):
        body = {"SiteID": "SITE1", "clinicalInfo": [identity("A1"), stray]}
        assert case.service.post(f"report/{path}", body).status_code == 400
    assert case.record("A1")["reportId"] != case.record("A2")["reportId"]
    same = {"SiteID": "SITE1", "clinicalInfo": [identity("A1"), identity("A2")]}
    ok(case.service.post("report/link-orders", same))
    assert case.record("A1")["reportId"] == case.record("A2")["reportId"]


@pytest.mark.parametrize(
    "body",
    [
        '{"clinicalInfo": [], "clinicalInfo": [{"SiteID": "SITE1"}]}',
        '{"clinicalInfo": [{"PatientMRN": "P1", "PatientMRN": "P2", "Accession": "A1"}]}',
    ],
)
def test_a_duplicate_member_is_refused(service: Service, body: str) -> None:
    """Order identity: a request with two values of one identifier names no patient."""
    headers = {"content-type": "application/json"}
    response = service.call("POST", "/api/report/status", content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_json")
    assert "P2" not in response.text


def test_a_query_parameter_with_two_values_is_refused(case: Case) -> None:
    """content, site/prelims: one patient, one site. Equal values are accepted."""
    case.draft("A1")
    query = "SiteID=SITE1&PatientMRN=P1&Accession=A1"
    path = f"/api/report/content?{query}"
    ok(case.service.call("GET", path))
    ok(case.service.call("GET", f"{path}&PatientMRN=P1"))
    for more in ("PatientMRN=P2", "SiteID=SITE2", "Accession="):
        response = case.service.call("GET", f"{path}&{more}")
        assert response.status_code == 400, more
        assert response.json()["errors"][0]["pointer"] == more.partition("=")[0]
    prelims = "/api/report/site/prelims?SiteID=SITE1&prelimGroup=G&prelimTag=T&prelimTag=U"
    assert case.service.call("GET", prelims).status_code == 400


def test_site_and_role_are_checked_before_files(case: Case) -> None:
    """update-dicomsr: 404 and 403 come before the 400 of an invalid file."""
    case.draft("A1")
    files = {"dicomSR": [{"fileData": base64.b64encode(b"no DICOM").decode()}]}
    for who, site, status in (
        (FOREIGN, "SITE1", 403),
        (READER, "SITE1", 403),
        (ADMIN, "NOWHERE", 404),
        (ADMIN, "SITE1", 400),
    ):
        body = {"clinicalInfo": identity("A1", site=site), **files}
        assert case.service.post("report/update-dicomsr", body, who).status_code == status, who


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
