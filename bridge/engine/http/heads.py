"""
HEAD where there is GET (RFC 9110 §9.1): for the interface and the files of the pages.

The server leaves the body out. Links that browsers open have a HEAD of their own, and a page's
live stream has none.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

PLACES = ("/api/", "/reporting/assets/")


class Heads:
    """ASGI middleware that lets the routes below `PLACES` see GET where HEAD was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        asked = scope["type"] == "http" and scope["method"] == "HEAD"
        if asked and scope["path"].startswith(PLACES):
            scope = {**scope, "method": "GET"}  # a copy: the server still knows of HEAD
        await self._app(scope, receive, send)
