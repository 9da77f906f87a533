"""
Client of the report service, with one method for each endpoint of the interface document.

An `EngineCaller` sends the requests to our engine in this process or to a service over HTTP. Each
method returns a value or raises `EngineFailure`, which says whether a retry can help.
"""

from urllib.parse import quote, urlencode

from bridge.engine_client.admin_endpoints import AdminEndpoints
from bridge.engine_client.bulk_endpoints import BulkEndpoints
from bridge.engine_client.report_endpoints import ReportEndpoints
from bridge.engine_client.transport import AccessTokens, EngineCaller, EngineTransport, omit_none


class EngineClient(ReportEndpoints, BulkEndpoints, AdminEndpoints):
    """All endpoints of the interface document, and the additions of our own engine."""

    def __init__(self, caller: EngineCaller, tokens: AccessTokens | str) -> None:
        """`caller` sends the requests; `tokens` are the access tokens of the service."""
        known = tokens if isinstance(tokens, AccessTokens) else AccessTokens(tokens)
        super().__init__(EngineTransport(caller, known))

    def token_of(self, site: str) -> str:
        """Return the access token for a site; all launches of a batch use one token."""
        return self.tokens.of(site)

    @property
    def tokens(self) -> AccessTokens:
        """The access tokens by site."""
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
    Build the URL of the browser route `GET /reporting/init`.

    It contains an administrator's token (interface document, rule 6). Prefer
    `EngineClient.create_session`.
    """
    query = omit_none(
        SiteID=site,
        SiteLocation=location,
        Auth=auth or None,
        UserName=user_name or None,
        UserEmail=user_email or None,
        AppLanguage=app_language,
        SpeechLanguage=speech_language,
    )
    return f"{base_url}/reporting/init?{urlencode(query, quote_via=quote)}"
