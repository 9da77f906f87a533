"""
Bodies of responses: problems, fast JSON, and rendered reports in chunks.

A report is rendered completely before the first byte is sent, so that a failure gets its own
status.
"""

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from itertools import chain
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import JSONResponse, Response, StreamingResponse
from typing_extensions import override

from bridge.contract import TOKEN_HEADER
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import PROBLEM_TYPE, ProblemBody
from bridge.engine.errors import EngineError

ERROR_CLASS_HEADER = "X-Error-Class"


def problem_of(error: EngineError, instance: str, request_id: str) -> ProblemBody:
    """Return the body of a problem; `instance` is the path of the request."""
    return ProblemBody.of(
        error.status,
        error.code,
        error.detail,
        request_id,
        instance=instance,
        errors=error.errors,
        retryable=error.code.retryable,
    )


def problem_response(error: EngineError, instance: str, request_id: str) -> Response:
    """Return the response; a 500 of a business rule carries `X-Error-Class: business`."""
    headers = dict(error.headers)
    if (
        error.status == HTTPStatus.INTERNAL_SERVER_ERROR
        and error.code is not ErrorCode.INTERNAL_ERROR
    ):
        headers[ERROR_CLASS_HEADER] = "business"
    content = json.dumps(problem_of(error, instance, request_id).model_dump())
    return Response(content, error.status, headers, PROBLEM_TYPE)


BY_TOKEN = f'AccessToken header="{TOKEN_HEADER}"'
BY_SESSION = "Bearer"


def unauthorized(detail: str = "", challenge: str = BY_TOKEN) -> EngineError:
    """Return a 401: the token is missing, unknown, expired or revoked (RFC 9110 §11.6)."""
    return EngineError(ErrorCode.UNAUTHORIZED, detail, headers={"WWW-Authenticate": challenge})


class FastJsonResponse(JSONResponse):
    """A JSON response of plain values, serialized by pydantic."""

    @override
    def render(self, content: Any) -> bytes:
        return to_json(content, inf_nan_mode="null")


CHUNK = 3 * 2**14
"""Bytes or characters of a chunk: 48 KiB, 64 KiB in base64 without padding."""


def bytes_response(
    data: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return bytes unchanged."""
    return _response(
        _slices(data), media_type, {**(headers or {}), "Content-Length": str(len(data))}
    )


def base64_text_response(data: bytes) -> Response:
    """Return bytes in base64, as plain text."""
    headers = {"Content-Length": str((len(data) + 2) // 3 * 4)}
    return _response(_base64(data), "text/plain; charset=utf-8", headers)


def base64_json_response(name: str, data: bytes) -> Response:
    """Return a JSON object whose one member is bytes in base64."""
    return _response(_member(name, _base64(data)), "application/json")


def text_json_response(name: str, text: str) -> Response:
    slices = (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
    escaped = (json.dumps(part, ensure_ascii=False)[1:-1].encode() for part in slices)
    return _response(_member(name, escaped), "application/json")


def json_response(body: BaseModel) -> Response:
    return _response(_slices(to_json(body)), "application/json")


def _slices(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[start : start + CHUNK] for start in range(0, len(data), CHUNK))


def _base64(data: bytes) -> Iterator[bytes]:
    return map(base64.b64encode, _slices(data))


def _member(name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    return _chunked(chain([b'{"%s":"' % name.encode("ascii")], pieces, [b'"}']))


def _chunked(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts to chunks."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= CHUNK:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _response(
    pieces: Iterator[bytes] | Iterator[memoryview],
    media_type: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a plain response for one chunk, else a streaming response."""
    first, second = next(pieces, b""), next(pieces, None)
    if second is None:
        return Response(first, headers=headers, media_type=media_type)
    return StreamingResponse(_sent(first, second, pieces), headers=headers, media_type=media_type)


async def _sent(
    first: bytes | memoryview,
    second: bytes | memoryview,
    rest: Iterator[bytes] | Iterator[memoryview],
) -> AsyncIterator[bytes | memoryview]:
    for piece in chain((first, second), rest):
        yield piece


_MEANINGS = {
    400: "The request is malformed or breaks a rule; `code` names the rule",
    401: "No valid access token",
    403: "The caller lacks the permission",
    404: "The site or the report does not exist",
    409: "Conflicts with the current state; `changed` may be retried",
    413: "The request is too large",
    429: "Too many requests; see Retry-After",
    500: "A business rule for which the interface reference defines 500 (X-Error-Class: business)",
    501: "A PDF writer, or a font for the text of this report, is not installed",
    503: "The database is not available at the moment",
}

Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Responses:
    """Return the OpenAPI error responses of a route: the usual statuses and these."""
    usual = (400, 401, 403, 404, 409, 413, 429, 503)
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {
        status: {"description": _MEANINGS[status], "content": content}
        for status in sorted({*usual, *statuses})
    }


NO_BODY: Responses = {200: {"description": "Done; no body", "content": {}}}
WARNINGS: Responses = {
    200: {
        **NO_BODY[200],
        "headers": {
            "X-Warnings": {
                "description": "Warnings; absent if there are none",
                "schema": {"type": "string"},
            }
        },
    }
}
PAGE_LEFT: Responses = {204: {"description": "Done; the user has left the page"}}
