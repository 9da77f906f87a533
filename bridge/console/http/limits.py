"""Refuse a request that brings more than any form of ours, before anything of it is read."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.console.errors import TooLarge
from bridge.console.http.problems import problem

LARGEST = 20 * 2**20  # bytes: a message of 16 MiB that was edited, as JSON


class SizeLimit:
    """Goes by the length that a request declares; one that declares none has no body here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        if scope["type"] == "http" and _too_large(Headers(scope=scope)):
            refusal = TooLarge()
            answer = problem(refusal.status, refusal.code, refusal.detail)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _too_large(headers: Headers) -> bool:
    declared = headers.get("content-length", "")
    if "transfer-encoding" in headers:
        return True
    return declared.isdigit() and int(declared) > LARGEST
