"""The OpenAPI description: endpoints, errors, and valid examples."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import Service
from tests.conformance.engine.cases import Case, ok

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
    described: dict[str, Any] = ok(service.call("GET", "/openapi.json", None)).json()
    return described


def test_every_endpoint_is_described(description: dict[str, Any]) -> None:
    """OpenAPI: each endpoint has a summary, its errors with their body, and an example."""
    for path in DOCUMENTED:
        is_described(description, path)


def is_described(description: dict[str, Any], path: str) -> None:
    operation = description["paths"][path][DOCUMENTED[path]]
    assert operation["summary"]
    assert operation["description"]
    assert operation["security"] == [{"token": []}]
    for status in ("400", "401", "403", "404", "409", "413", "429", "503"):
        content = operation["responses"][status]["content"]["application/problem+json"]
        assert content["schema"]["$ref"].endswith("/ProblemBody")
    signing = ("sign", "unsign", "addendum/sign", "addendum/unsign")
    business = path.rpartition("report/")[2] in signing
    assert ("500" in operation["responses"]) == business
    assert "422" not in operation["responses"]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        assert examples(description, content), path


def examples(description: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    schema = content["schema"]
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found = [
        content.get("example"),
        *content.get("examples", {}).values(),
        *schema.get("examples", []),
    ]
    return [item for item in found if item]


def test_the_examples_can_be_sent(service: Service, description: dict[str, Any]) -> None:
    """OpenAPI: the example of a request is valid."""
    for path in (item for item, method in DOCUMENTED.items() if method == "post"):
        content = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        for example in examples(description, content):
            response = service.call("POST", path, json=example)
            assert b'"invalid_request"' not in response.content, path
            business = response.headers.get("x-error-class") == "business"
            assert response.status_code in (200, 400, 404) or business, path


def test_errors_have_examples(description: dict[str, Any]) -> None:
    """OpenAPI: each error body has its text, including the documented 500s and 409s."""
    for path, method in DOCUMENTED.items():
        operation = description["paths"][path][method]
        for status in (row for row in operation["responses"] if row != "200"):
            response = operation["responses"][status]
            assert "X-Request-Id" in response["headers"]
            shown = response["content"]["application/problem+json"]["examples"]
            for code, example in shown.items():
                body = example["value"]
                assert (body["code"], body["status"]) == (code, int(status))
                assert body["message"] == body["detail"]
    sign = description["paths"]["/api/report/addendum/sign"]["post"]["responses"]["500"]
    assert set(sign["content"]["application/problem+json"]["examples"]) == {
        *("no_signed_addendum", "cooling_elapsed", "sign_delay_disabled")
    }
    assert "X-Error-Class" in sign["headers"]
    launch = description["paths"]["/api/report/launch/clinical"]["post"]["responses"]
    conflict = launch["409"]["content"]["application/problem+json"]["examples"]
    assert "patient_name_mismatch" in conflict
    assert "Retry-After" in launch["429"]["headers"]


def test_responses_have_examples(description: dict[str, Any]) -> None:
    """OpenAPI: each response with a body has one."""
    ours = {"/api/report/changes": "get", "/api/worklist": "get"}
    for path, method in {**DOCUMENTED, **ours}.items():
        response = description["paths"][path][method]["responses"]["200"]
        for kind, content in response["content"].items():
            if kind == "application/json":
                schema = content["schema"].get("items", content["schema"])
                (example,) = examples(description, {**content, "schema": schema})
                known = description["components"]["schemas"].get(named(schema), {})
                assert set(known.get("required", ())) <= set(example), path


def named(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def test_the_described_export_record_is_complete(case: Case, description: dict[str, Any]) -> None:
    """JSON export record: the described members equal the members of a response."""
    case.draft("A1")
    ok(case.post("prelim", "A1", prelimGroup="G", prelimTag="T"))
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    record = case.export("A1")
    (example,) = description["components"]["schemas"]["ExportRecord"]["examples"]
    for member, shown in example.items():
        sent, like = record[member], shown
        if isinstance(shown, list):
            sent, like = sent[0], like[0]
        assert set(sent) == set(like), member
    assert set(record) == set(example)


def test_idempotency_keys_are_described(description: dict[str, Any]) -> None:
    """Idempotency keys: the description of a repeatable request has the header."""
    for name in ("sign", "prelim", "delete", "link-orders", "unassign"):
        (parameter,) = description["paths"][f"/api/report/{name}"]["post"]["parameters"]
        assert parameter["$ref"].endswith("/IdempotencyKey")
    assert description["components"]["parameters"]["IdempotencyKey"]["in"] == "header"


def test_every_field_has_a_description(description: dict[str, Any]) -> None:
    """OpenAPI: each member of each body, and each parameter."""
    missing = [
        f"{name}.{member}"
        for name, schema in description["components"]["schemas"].items()
        for member, field in schema.get("properties", {}).items()
        if not field.get("description")
    ]
    missing += [
        f"{method} {path} {parameter['name']}"
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if "$ref" not in parameter and not parameter.get("description")
    ]
    assert missing == []
