"""One call of an OpenAI-compatible endpoint. Logs neither what is asked nor what is answered."""

import asyncio
from typing import Any

import httpx

from bridge.engine.assistance.errors import ModelFailed
from bridge.engine.settings import ModelEndpoint


async def call(endpoint: ModelEndpoint, **content: Any) -> Any:
    """
    Return the JSON answer of a POST; `content` is what httpx takes (`json`, `files`, `data`).

    Raises ModelFailed for anything but a JSON object with status 200. Proxies of the
    environment are not used: the address is the installation's own choice.
    """
    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    try:
        async with (
            asyncio.timeout(endpoint.seconds),  # httpx counts from byte to byte only
            httpx.AsyncClient(timeout=endpoint.seconds, trust_env=False) as client,
        ):
            answer = await client.post(endpoint.url, headers=headers, **content)
        found = answer.json() if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, TimeoutError, ValueError):
        raise ModelFailed from None
    if not isinstance(found, dict):
        raise ModelFailed
    return found
