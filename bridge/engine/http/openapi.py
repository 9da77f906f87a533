"""
Complete the OpenAPI description: security schemes, problem responses, headers, field texts.

The examples of problems are built from the errors themselves, so that the description cannot
differ from the responses. `field_texts.json` describes fields, by name, that their model does not.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from pydantic.json_schema import models_json_schema

from bridge.engine import errors
from bridge.engine.errors import BadAuthority
from bridge.engine.http.models.responses import ProblemBody
from bridge.engine.http.requests.error_handlers import UNAVAILABLE, problem_of
from bridge.engine.http.requests.guard import TOKEN_HEADER
from bridge.engine.http.requests.problems import (
    MEDIA_TYPE,
    FieldError,
    Problem,
    too_large,
    unauthorized,
)
from bridge.engine.rules.lifecycle import Reason
from bridge.engine.rules.site_roles import ReportAction

_SCHEMES = {"/api/": "token", "/reporting/api/": "session"}
_REQUEST_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_REPEATABLE = frozenset({"Signing", "Orders", "Patients"})

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Chosen by the caller. A request that repeats a key is not executed again: it "
    "gets the first answer. Another request with the same key is 409 `key_reused`",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "example": "5f1c0a52-sign-ACC-2001",
}

_HEADERS: Mapping[str, Mapping[str, str]] = {
    "401": {"WWW-Authenticate": "How to authenticate"},
    "429": {
        "Retry-After": "Seconds until the next request is accepted",
        "RateLimit": 'The remaining quota: `"launches";r=0;t=12`',
        "RateLimit-Policy": 'The quota: `"launches";q=1200;w=60`',
    },
    "500": {"X-Error-Class": "`business`: a rule of the interface, no fault of the server"},
    "503": {"Retry-After": "Seconds"},
}

_SHAPE = Problem(
    400,
    "invalid_request",
    "/clinicalInfo: Field required",
    (FieldError("/clinicalInfo", "Field required"),),
)
_TOO_MANY = Problem(
    429, "too_many_requests", "more than 1200 requests in 60 seconds", retryable=True
)
_GENERAL: Mapping[str, tuple[Problem, ...]] = {
    "400": (_SHAPE,),
    "401": (unauthorized().problem,),
    "403": (problem_of(errors.Forbidden()),),
    "404": (problem_of(errors.SiteNotFound()), problem_of(errors.ReportNotFound())),
    "409": (problem_of(errors.OrderChanged()),),
    "413": (too_large(67_108_864).problem,),
    "429": (_TOO_MANY,),
    "503": (UNAVAILABLE,),
}

_RULES: Mapping[str, tuple[Reason, ...]] = {
    "launch/clinical": (Reason.PLACEHOLDER, Reason.UNKNOWN_LOCATION),
    "sign": (Reason.NOT_OWNED,),
    "prelim": (
        Reason.SIGNED,
        Reason.UNKNOWN_PRELIM_GROUP,
        Reason.UNKNOWN_PRELIM_TAG,
        Reason.NOT_PRELIM_MEMBER,
    ),
    "prelim/withdraw": (Reason.SIGNED, Reason.NOT_PRELIMINARY),
    "assign": (Reason.SIGNED, Reason.NOT_PRELIM_REVIEWER),
    "delete": (Reason.SIGNED,),
    "update-dicomsr": (Reason.SIGNED, Reason.NO_FILES),
    "reset-order": (Reason.SIGNED, Reason.NOT_FROM_ORDER, Reason.NOTHING_TO_RESET),
    "unassign": (Reason.SIGNED, Reason.NOT_DRAFT),
    "link-orders": (
        Reason.TOO_FEW_ORDERS,
        Reason.SIGNED,
        Reason.ANCHOR_IS_MEMBER,
        Reason.ANCHOR_HAS_CONTENT,
        Reason.ORDER_NOT_ORDERED,
        Reason.ORDER_HAS_CONTENT,
        Reason.PATIENTS_DIFFER,
    ),
    "unlink-orders": (Reason.GROUP_NOT_ORDERED, Reason.GROUP_HAS_CONTENT),
}
_ERRORS: Mapping[str, tuple[errors.EngineError, ...]] = {
    "launch/clinical": (
        errors.PatientNameMismatch(pointer="/clinicalInfo/PatientName"),
        BadAuthority(pointer="/userInfo/Auth"),
    ),
    "site/prelims": (errors.PrelimNotFound(),),
    "sign": (errors.AlreadySigned(), errors.AuthorNotPermitted(ReportAction.SIGN)),
    "prelim": (errors.AuthorNotPermitted(ReportAction.PRELIM),),
    "unsign": (errors.NoSignedReport(), errors.CoolingElapsed()),
    "addendum/sign": (
        errors.NoSignedAddendum(),
        errors.CoolingElapsed(),
        errors.SignDelayDisabled(),
    ),
    "addendum/unsign": (errors.NoSignedAddendum(), errors.CoolingElapsed()),
    "changes": (
        errors.CursorBeyondEnd(pointer="/after"),
        errors.CursorOfAnotherFeed(pointer="/after"),
    ),
}


def complete(description: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's description with our problem bodies and security schemes."""
    _, problem = models_json_schema(
        [(ProblemBody, "serialization")], ref_template="#/components/schemas/{model}"
    )
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(problem["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "token": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
        "session": {"type": "http", "scheme": "bearer"},
    }
    components["parameters"] = {"IdempotencyKey": IDEMPOTENCY_KEY}
    texts = json.loads((files(__package__) / "field_texts.json").read_text("utf-8"))
    for schema in schemas.values():
        for name, member in schema.get("properties", {}).items():
            _describe(member, texts.get(name))
    for path, operations in description["paths"].items():
        for operation in operations.values():
            _complete(path, operation)
            for parameter in operation.get("parameters", ()):
                _describe(parameter, texts.get(parameter.get("name")))
    return description


def _describe(field: dict[str, Any], text: str | None) -> None:
    if text and not field.get("description"):
        field["description"] = text


def _complete(path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    scheme = next((name for start, name in _SCHEMES.items() if path.startswith(start)), "")
    if scheme:
        operation["security"] = [{scheme: []}]
    if scheme == "token" and _REPEATABLE & set(operation.get("tags", ())):
        key = {"$ref": "#/components/parameters/IdempotencyKey"}
        operation["parameters"] = [*operation.get("parameters", ()), key]
    for status, response in operation["responses"].items():
        body = response.get("content", {}).get(MEDIA_TYPE)
        if body is not None:
            _add_examples(path, status, body)
            _add_headers(response, _HEADERS.get(status, {}))


def _add_examples(path: str, status: str, body: dict[str, Any]) -> None:
    found = {each.code: each for each in _problems(path) if str(each.status) == status}
    if found:
        body["examples"] = {
            code: {
                "summary": each.detail,
                "value": each.body(instance=path, request_id=_REQUEST_ID),
            }
            for code, each in found.items()
        }


def _problems(path: str) -> Iterator[Problem]:
    """Yield the known problems of a path, the specific ones first."""
    name = path.removeprefix("/api/report/")
    for reason in _RULES.get(name, ()):
        yield problem_of(errors.RuleBroken(reason))
    for error in _ERRORS.get(name, ()):
        yield problem_of(error)
    for problems in _GENERAL.values():
        yield from problems


def _add_headers(response: dict[str, Any], headers: Mapping[str, str]) -> None:
    named = {"X-Request-Id": "The request's id, as in the body", **headers}
    response["headers"] = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in named.items()
    }
