"""
Responses: fast JSON, and rendered reports in chunks.

A report is rendered completely before the first byte is sent, so that a failure gets its own
status.
"""

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from typing import Any

from pydantic_core import to_json
from starlette.responses import JSONResponse, Response, StreamingResponse
from typing_extensions import override


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
    view = memoryview(data)
    sent = (view[start : start + CHUNK] for start in range(0, len(data), CHUNK))
    return _response(sent, media_type, {**(headers or {}), "Content-Length": str(len(data))})


def base64_text_response(data: bytes) -> Response:
    """Return bytes in base64, as plain text."""
    headers = {"Content-Length": str((len(data) + 2) // 3 * 4)}
    return _response(_base64(data), "text/plain; charset=utf-8", headers)


def base64_json_response(name: str, data: bytes) -> Response:
    """Return a JSON object whose one member is bytes in base64."""
    return _response(_member(name, _base64(data)), "application/json")


def text_json_response(name: str, text: str) -> Response:
    """Return a JSON object whose one member is a text."""
    slices = (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
    escaped = (json.dumps(each, ensure_ascii=False)[1:-1].encode() for each in slices)
    return _response(_member(name, escaped), "application/json")


def json_response(value: Mapping[str, Any]) -> Response:
    """Return a JSON value."""
    written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(value)
    return _response(_chunked(each.encode() for each in written), "application/json")


def _base64(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    return (base64.b64encode(view[at : at + CHUNK]) for at in range(0, len(data), CHUNK))


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
