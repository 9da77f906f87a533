"""Errors, Limits, addresses, keys: what holds for every endpoint alike."""

import base64
import json
import re
import secrets
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.engine.links import KeyRing
from bridge.engine.service import links
from bridge.engine.settings import Quota
from tests.bridge.engine.http.house import ADMIN, BASE, READER, Service, identity, launch_body, user
from tests.bridge.engine.http.test_guard import ADMINISTRATIVE
from tests.conformance.engine.cases import Case, ok

POSTS = {
    **ADMINISTRATIVE,
    "report/launch/clinical": launch_body(),
    "report/init": {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": {}},
    "report/launch/clinical/batch": [launch_body()],
}
PROBLEM = {
    *("type", "title", "status", "detail", "instance", "code", "errors", "requestId", "message")
}


def is_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Insist on a problem body that is complete; return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) == PROBLEM
    assert body["status"] == status
    assert body["message"] == body["detail"] != ""
    assert body["requestId"] == answer.headers["x-request-id"]
    assert re.fullmatch(r"[a-z_]+", body["code"])
    assert body["type"].endswith(body["code"])
    for each in body["errors"]:
        assert set(each) == {"pointer", "message"}
    return body


BODIES = [
    b"", b"{", b"null", b"[]", b"5", b'"x"', b"true", b"{}", b"\xff\xfe", b'{"clinicalInfo":',
    b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e999}', b'{"a": "\\u0000"}', b'{"a": "\\ud800"}',
    b'{"a":' * 5000, b"[" * 100_000, b"{}{}", b"/* c */ {}", b"{'a': 1}", b'{"a": 1,}',
    b'{"clinicalInfo": ' + b"9" * 5000 + b"}", b"\xef\xbb\xbf{}", b"\x00",
]  # fmt: skip


@pytest.mark.parametrize("path", POSTS)
def test_bodies_that_are_none(service: Service, path: str) -> None:
    """Errors: whatever is sent, the answer is a 400 that says why."""
    for body in BODIES:
        headers = {"content-type": "application/json"}
        answer = service.call("POST", f"/api/{path}", content=body, headers=headers)
        is_problem(answer, 400)


@pytest.mark.parametrize("path", POSTS)
def test_content_types(service: Service, path: str) -> None:
    """Endpoints: Content-Type: application/json where a body exists."""
    content = json.dumps(POSTS[path]).encode()
    for media_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ):
        answer = service.call(
            "POST", f"/api/{path}", content=content, headers={"content-type": media_type}
        )
        is_problem(answer, 400)
    for media_type in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"):
        answer = service.call(
            "POST", f"/api/{path}", content=content, headers={"content-type": media_type}
        )
        assert b'"not_json"' not in answer.content


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods(service: Service, path: str, method: str) -> None:
    """Endpoints: one method each; the answer names it (RFC 9110 §15.5.6)."""
    answer = service.call(method, f"/api/{path}")
    is_problem(answer, 405)
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/", "/api/report", "/api/report/sign/", "/api//report/sign", "/x",
             "/api/report/Sign", "/.env", "/api/report/sign%00"]
)  # fmt: skip
def test_paths_that_are_none(service: Service, path: str) -> None:
    """Errors: 404 as a problem body, and no redirect."""
    is_problem(service.call("POST", path, json={}), 404)


def test_hostile_values_come_back_in_no_problem(service: Service) -> None:
    """Error bodies repeat nothing of what was sent."""
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
        answer = service.post("report/launch/clinical", body)
        assert answer.status_code in (400, 404)
        assert canary not in answer.text


@pytest.mark.parametrize("rate", ["reads", "launches", "exports"])
def test_rate_limits(service: Service, rate: str) -> None:
    """Rate limits: 429 with Retry-After, RateLimit headers on every answer, by token."""
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
        answer = ask(ADMIN)
        assert answer.status_code != 429
        assert f"r={left};" in answer.headers["ratelimit"]
        assert "q=3;w=60" in answer.headers["ratelimit-policy"]
    refused = ask(ADMIN)
    assert is_problem(refused, 429)["code"] == "too_many_requests"
    assert refused.headers["retry-after"] == "60"
    assert ask(READER).status_code != 429  # each token has its own
    service.clock.pass_seconds(60)
    assert ask(ADMIN).status_code != 429


def test_body_size(service: Service) -> None:
    """Limits: 413 beyond the size, whether it is declared or not; after the token is checked."""
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
    answer = service.call(
        "POST", "/api/report/sign", "nobody", content=b" " * 1001, headers=headers
    )
    is_problem(answer, 401)


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
    """Limits: to the last character, and one more."""
    assert service.launch(READER, tags=tags).status_code == status


def test_counts(service: Service) -> None:
    """Limits: numbers of files, of orders in a question, of launches in a batch."""
    data = base64.b64encode(b"x").decode()
    for changes in (
        {"dicomSR": [{"fileData": data}] * 21},
        {"keyImages": [{"imageData": data, "contentType": "image/png"}] * 51},
    ):
        assert service.launch(**changes).json()["code"] == "too_many_files"
    many = {"clinicalInfo": [identity()] * 501}
    assert service.post("report/status", many).json()["code"] == "too_many_orders"
    assert (
        len(
            ok(
                service.post(
                    "report/status", {"clinicalInfo": [identity(str(n)) for n in range(500)]}
                )
            ).json()
        )
        == 0
    )


@pytest.mark.parametrize("path", ["sign", "delete", "prelim", "unassign", "reset-order"])
def test_idempotency_keys(case: Case, path: str) -> None:
    """Idempotency-Key: the same request gets the first answer again; another one is refused."""
    case.order("A1")
    case.draft("A1")
    body: dict[str, Any] = {"clinicalInfo": identity(), "prelimGroup": "G", "prelimTag": "T"}
    body = identity() if path in ("unassign", "reset-order") else body
    headers = {"Idempotency-Key": "k-1"}
    for _ in range(3):
        answer = case.service.post(f"report/{path}", body, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
    other = {**body, "clinicalInfo": identity("A2")} if "clinicalInfo" in body else identity("A2")
    answer = case.service.post(f"report/{path}", other, headers=headers)
    assert 400 <= answer.status_code < 500
    assert answer.json()["code"] != "report_not_found"


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä".encode("latin-1")])
def test_keys_that_are_none(case: Case, key: Any) -> None:
    """Idempotency-Key: 1 to 255 visible characters."""
    case.draft("A1")
    headers = {"Idempotency-Key": key}
    answer = case.service.post("report/sign", {"clinicalInfo": identity()}, headers=headers)
    is_problem(answer, 400)
    assert case.record("A1")["status"] == "Draft"


def test_a_refusal_is_not_remembered(case: Case) -> None:
    """Idempotency-Key: what failed may be tried again with its key."""
    headers = {"Idempotency-Key": "k"}
    body = {"clinicalInfo": identity()}
    assert case.service.post("report/sign", body, headers=headers).status_code == 404
    case.draft("A1")
    assert case.service.post("report/sign", body, headers=headers).status_code == 200


def test_regional_addresses(service: Service) -> None:
    """Base address: a second regional one serves the same path; links carry their own."""
    engine = service.application.state.engine
    regional = "https://au.reports.test"
    engine.addresses = type(engine.addresses)(BASE, [regional], ["127.0.0.1/32"])
    forwarded = {"x-forwarded-host": "au.reports.test", "x-forwarded-proto": "https"}
    cases = [
        (forwarded, regional),
        ({"host": "au.reports.test"}, BASE),  # over http it is not that address
        ({"x-forwarded-host": "evil.test", "x-forwarded-proto": "https"}, BASE),
        ({**forwarded, "x-forwarded-host": "au.reports.test:444"}, BASE),
        ({**forwarded, "x-forwarded-host": "au.reports.test@evil.test"}, BASE),
        ({"host": "evil.test/?"}, BASE),
        ({"host": ""}, BASE),
    ]
    for headers, base in cases:
        answer = service.post("report/launch/clinical", launch_body(), headers=headers)
        assert answer.json()["reportLink"].startswith(f"{base}/reporting/"), headers
        body = {
            "clinicalInfo": {"SiteID": "SITE1"},
            "userInfo": {"UserName": "N", "UserEmail": "n@x.test"},
        }
        answer = service.post("report/init", body, headers=headers)
        assert answer.json()["sessionLink"].startswith(f"{base}/reporting/init?"), headers
    engine.addresses = type(engine.addresses)(BASE, [regional], ["10.0.0.0/8"])
    answer = service.post("report/launch/clinical", launch_body(), headers=forwarded)
    assert answer.json()["reportLink"].startswith(f"{BASE}/reporting/")


@pytest.mark.parametrize("origin", ["https://evil.test", "null", BASE])
def test_cross_origin_requests_get_no_leave(service: Service, origin: str) -> None:
    """CORS is off on /api: no header lets a browser's script read the answer."""
    ok(service.launch())
    for method, path in (("OPTIONS", "/api/report/status"), ("GET", "/api/worklist?SiteID=SITE1")):
        headers = {"origin": origin, "access-control-request-method": "POST"}
        answer = service.call(method, path, headers=headers)
        assert not [each for each in answer.headers if each.startswith("access-control")]


def test_rotating_keys(service: Service) -> None:
    """Links: an old key still opens, resealing moves to the newest, then the old one may go."""
    engine = service.application.state.engine
    tags = {"KeyFindings": "Sealed."}
    linked = [
        ok(service.launch(accession=f"A{n}", tags=tags, lazyLaunch=True, userInfo=user())).json()
        for n in range(3)
    ]
    old = engine.settings.link_keys[0]
    new = ("2", secrets.token_bytes(32))
    engine.keys = KeyRing((new, old), engine.random)
    assert service.open(linked[0]["reportLink"]).status_code == 200
    with service.database.write() as connection:
        vault = links.Vault(engine.keys, engine.random)
        assert links.reseal(connection, vault, service.clock.now).moved == 3
        assert links.reseal(connection, vault, service.clock.now).moved == 0
    engine.keys = KeyRing((new,), engine.random)
    assert service.open(linked[1]["reportLink"]).status_code == 200
    assert Case(service).content("A1") == "Sealed."
    engine.keys = KeyRing((("3", secrets.token_bytes(32)),), engine.random)
    assert service.open(linked[2]["reportLink"]).status_code == 404


def test_headers_of_every_answer(service: Service) -> None:
    """Versioning: X-API-Version; no answer is stored, sniffed, or without a request id."""
    for answer in (service.launch(), service.post("report/sign", {}), service.call("GET", "/x")):
        assert answer.headers["x-api-version"] == "1"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"]


DOCUMENTED = {
    "/api/report/launch/clinical": "post", "/api/report/init": "post",
    "/api/report/status": "post", "/api/report/content": "get",
    "/api/report/export/html": "post", "/api/report/export/json": "post",
    "/api/report/export/rtf": "post", "/api/report/sign": "post", "/api/report/unsign": "post",
    "/api/report/addendum/sign": "post", "/api/report/addendum/unsign": "post",
    "/api/report/prelim": "post", "/api/report/delete": "post",
    "/api/report/site/prelims": "get", "/api/report/update-dicomsr": "post",
    "/api/report/reset-order": "post", "/api/report/unassign": "post",
    "/api/report/link-orders": "post", "/api/report/unlink-orders": "post",
}  # fmt: skip


@pytest.fixture
def description(service: Service) -> dict[str, Any]:
    """What /openapi.json says."""
    described: dict[str, Any] = ok(service.call("GET", "/openapi.json", None)).json()
    return described


@pytest.mark.parametrize("path", DOCUMENTED)
def test_every_endpoint_is_described(description: dict[str, Any], path: str) -> None:
    """OpenAPI: each endpoint, its summary, its errors with their body, an example of its body."""
    operation = description["paths"][path][DOCUMENTED[path]]
    assert operation["summary"]
    assert operation["description"]
    assert operation["security"] == [{"token": []}]
    for status in ("400", "401", "403", "404", "409", "413", "429", "503"):
        content = operation["responses"][status]["content"]["application/problem+json"]
        assert content["schema"]["$ref"].endswith("/ProblemBody")
    business = path.rpartition("report/")[2] in (
        "sign",
        "unsign",
        "addendum/sign",
        "addendum/unsign",
    )
    assert ("500" in operation["responses"]) == business
    assert "422" not in operation["responses"]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        assert examples(description, content), path


def examples(description: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    """Return the examples of a body: at the media type, or at its schema."""
    schema = content["schema"]
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found = [
        content.get("example"),
        *content.get("examples", {}).values(),
        *schema.get("examples", []),
    ]
    return [each for each in found if each]


@pytest.mark.parametrize("path", [each for each in DOCUMENTED if DOCUMENTED[each] == "post"])
def test_the_examples_can_be_sent(service: Service, description: dict[str, Any], path: str) -> None:
    """OpenAPI: an example is a request that is understood."""
    operation = description["paths"][path]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    for example in examples(description, content):
        answer = service.call("POST", path, json=example)
        assert answer.status_code == 200 or answer.json()["code"] not in (
            "invalid_request",
            "not_json",
        )
