"""Rendered reports are sent in chunks and arrive unchanged."""

import asyncio
import base64
import json
from typing import Any

import pytest
from starlette.responses import Response

from bridge.engine.http.requests import response_bodies
from bridge.engine.http.requests.response_bodies import CHUNK

LENGTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 2)
TEXT = '\u4e2d\u6587 \U0001f600 "quoted" \\ \n\t\x01 </script> '


def sent(response: Response) -> tuple[dict[str, str], list[bytes]]:
    """Return the headers and the pieces of a body, as the server gets them."""
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(dict(message))

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.4"}}
    asyncio.run(response(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    bodies = [bytes(each["body"]) for each in messages[1:] if each["body"]]
    assert all(len(each) <= 8 * CHUNK for each in bodies)
    return headers, bodies


@pytest.mark.parametrize("length", LENGTHS)
def test_bytes(length: int) -> None:
    """export/rtf: the binary payload with its length, in chunks."""
    data = bytes(index % 251 for index in range(length))
    headers, bodies = sent(response_bodies.bytes_response(data, "application/rtf", {"X-More": "1"}))
    assert b"".join(bodies) == data
    assert (headers["content-length"], headers["x-more"]) == (str(length), "1")
    assert len(bodies) == -(-length // CHUNK)


@pytest.mark.parametrize("length", LENGTHS)
def test_base64(length: int) -> None:
    """export/rtf: base64 in JSON, or as plain text."""
    data = bytes(index % 251 for index in range(length))
    headers, bodies = sent(response_bodies.base64_text_response(data))
    assert base64.b64decode(b"".join(bodies), validate=True) == data
    assert headers["content-length"] == str(len(b"".join(bodies)))
    headers, bodies = sent(response_bodies.base64_json_response("rtf", data))
    assert base64.b64decode(json.loads(b"".join(bodies))["rtf"], validate=True) == data
    assert headers["content-type"] == "application/json"
    assert len(bodies) >= length // CHUNK


@pytest.mark.parametrize("length", LENGTHS)
def test_text_and_records(length: int) -> None:
    """export/html, export/json: the joined chunks are the complete JSON."""
    text = (TEXT * (length // len(TEXT) + 1))[:length]
    value = {"html": text}
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    _, bodies = sent(response_bodies.text_json_response("html", text))
    assert b"".join(bodies) == expected
    assert len(bodies) >= length // CHUNK
    record = {"a": None, "list": [{"b": 1, "text": text}], "yes": True}
    _, bodies = sent(response_bodies.json_response(record))
    assert json.loads(b"".join(bodies)) == record
