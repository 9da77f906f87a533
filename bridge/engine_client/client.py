"""
The report service as the interface document describes it, one method an endpoint.

Works against our engine in the same process and against any service over a socket, by
whichever `Caller` it is given. Every outcome is a value, or an `EngineFailure`
that says if retrying helps.
"""

from urllib.parse import quote, urlencode

import httpx

from bridge.engine_client.accounts import AccountAdministration
from bridge.engine_client.administration import Administering
from bridge.engine_client.calling import Caller
from bridge.engine_client.feeds import Feeds
from bridge.engine_client.launching import Launching
from bridge.engine_client.over_httpx import OverHttpx
from bridge.engine_client.reports import Reports
from bridge.engine_client.requests import given
from bridge.engine_client.transport import Tokens, Transport
from bridge.engine_client.visiting import Visiting


class EngineClient(Launching, Reports, Feeds, Administering, AccountAdministration, Visiting):
    """Every endpoint of the interface document and of DESIGN chapter 6."""

    def __init__(self, http: httpx.AsyncClient | Caller, tokens: Tokens | str) -> None:
        """
        Take what carries calls to the service, and its access tokens.

        Of an httpx client the base address is the service's.

        Over `httpx.ASGITransport` pass `raise_app_exceptions=False`, so that a fault of the
        service is an answer here as it would be over a socket.
        """
        caller = OverHttpx(http) if isinstance(http, httpx.AsyncClient) else http
        known = tokens if isinstance(tokens, Tokens) else Tokens(tokens)
        super().__init__(Transport(caller, known))

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear; a batch of launches has one."""
        return self.tokens.of(site)

    @property
    def tokens(self) -> Tokens:
        """Which token goes with which site."""
        return self._transport.tokens


def browser_session_address(
    base_url: str,
    site: str,
    user_name: str = "",
    user_email: str = "",
    auth: str = "",
    *,
    location: str | None = None,
    app_language: str | None = None,
    speech_language: str | None = None,
) -> str:
    """
    Build the address of the browser route `GET /reporting/init`, values URL-encoded.

    It bears a live administrator token (interface document, rule 6): prefer
    `EngineClient.create_session`.
    """
    query = given(
        SiteID=site,
        SiteLocation=location,
        Auth=auth or None,
        UserName=user_name or None,
        UserEmail=user_email or None,
        AppLanguage=app_language,
        SpeechLanguage=speech_language,
    )
    return f"{base_url}/reporting/init?{urlencode(query, quote_via=quote)}"
