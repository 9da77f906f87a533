"""Problem bodies, limits and headers of all endpoints."""

import json
import re
from typing import Any

import httpx
import pytest

from tests.bridge.engine.http.engine_service import ADMIN, READER, Service, identity, launch_body
from tests.bridge.engine.http.test_guard import ADMINISTRATIVE

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
    for each in body["errors"]:
        assert set(each) == {"pointer", "message"}
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
        got, head = (service.call(each, path, who, params=query) for each in ("GET", "HEAD"))
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
