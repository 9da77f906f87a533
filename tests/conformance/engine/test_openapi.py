"""The description: every endpoint, its errors, examples that can be sent."""

from typing import Any

import pytest

from tests.bridge.engine.http.house import Service
from tests.conformance.engine.cases import ok

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


def test_every_endpoint_is_described(description: dict[str, Any]) -> None:
    """OpenAPI: each endpoint, its summary, its errors with their body, an example of its body."""
    for path in DOCUMENTED:
        is_described(description, path)


def is_described(description: dict[str, Any], path: str) -> None:
    """Insist that one endpoint is described in full."""
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


def test_the_examples_can_be_sent(service: Service, description: dict[str, Any]) -> None:
    """OpenAPI: an example is a request that is understood."""
    for path in (each for each, method in DOCUMENTED.items() if method == "post"):
        content = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        for example in examples(description, content):
            answer = service.call("POST", path, json=example)
            assert b'"invalid_request"' not in answer.content, path
            business = answer.headers.get("x-error-class") == "business"
            assert answer.status_code in (200, 400, 404) or business, path
