"""
Requests of the engine to external services: an identity provider, a model's endpoint.

The size, the duration and the number of values of a response are limited, because the service may
be faulty or under the control of an attacker.
"""

import asyncio
import ssl
from typing import Any, Final

import httpx

from bridge.web.bodies import TooManyValues, require_few_values
from parsers.limits import DocumentRefused
from parsers.readers import read_json

MAX_RESPONSE_BYTES: Final = 2**20
"""A key set with 100 certificates has a quarter of it."""


class RequestFailed(Exception):
    """There was no response in time, or no JSON object within the limits with status 2xx."""


async def request_object(
    method: str, url: str, *, seconds: float, tls: ssl.SSLContext | None = None, **content: Any
) -> dict[str, Any]:
    """
    Return the JSON object of a response. Raises RequestFailed.

    `seconds` limits the whole exchange; `content` are arguments of httpx (`json`, `data`, `auth`).
    Proxies of the environment are not used, because the installation chooses the address.
    """
    try:
        async with (
            asyncio.timeout(seconds),  # httpx limits each read, not the whole response
            httpx.AsyncClient(timeout=seconds, verify=tls or True, trust_env=False) as client,
            client.stream(method, url, **content) as response,
        ):
            body = await _read(response) if response.is_success else b""
        require_few_values(body)
        found = read_json(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, TooManyValues, DocumentRefused):
        raise RequestFailed from None
    if not isinstance(found, dict):
        raise RequestFailed
    return found


async def _read(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise RequestFailed
        parts.append(part)
    return b"".join(parts)
