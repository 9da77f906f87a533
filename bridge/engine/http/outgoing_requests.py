"""
Requests of the engine to services of others: an identity provider, a model's endpoint.

The response is bounded in size, in time and in values: the service may be faulty, or taken over.
"""

import asyncio
import ssl
from typing import Any, Final

import httpx

from bridge.request_body import TooManyValues, require_few_values
from parsers import json
from parsers.errors import DocumentRefused

LARGEST: Final = 2**20
"""Bytes of the largest response. A key set with 100 certificates has a quarter of it."""


class RequestFailed(Exception):
    """There was no response in time, or no JSON object within the limits with status 2xx."""


async def request_object(
    method: str, url: str, *, seconds: float, tls: ssl.SSLContext | None = None, **content: Any
) -> dict[str, Any]:
    """
    Return the JSON object of a response. Raises RequestFailed.

    `seconds` is for the whole exchange; `content` are arguments of httpx (`json`, `data`, `auth`).
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
        found = json.read(body)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, TooManyValues, DocumentRefused):
        raise RequestFailed from None
    if not isinstance(found, dict):
        raise RequestFailed
    return found


async def _read(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LARGEST:
            raise RequestFailed
        parts.append(part)
    return b"".join(parts)
