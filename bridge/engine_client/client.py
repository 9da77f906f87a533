"""
The report service as the interface document describes it, one method an endpoint.

A `Caller` carries its calls to our engine in the same process or to any service over a socket.
Every outcome is a value, or an `EngineFailure` that says if retrying helps.
"""

from urllib.parse import quote, urlencode

from bridge.engine_client.admin_endpoints import AdminEndpoints
from bridge.engine_client.bulk_endpoints import BulkEndpoints
from bridge.engine_client.report_endpoints import ReportEndpoints
from bridge.engine_client.transport import AccessTokens, EngineCaller, EngineTransport, omit_none


class EngineClient(ReportEndpoints, BulkEndpoints, AdminEndpoints):
    """Every endpoint of the interface document and of DESIGN chapter 6."""

    def __init__(self, caller: EngineCaller, tokens: AccessTokens | str) -> None:
        """Take what carries calls to the service, and its access tokens."""
        known = tokens if isinstance(tokens, AccessTokens) else AccessTokens(tokens)
        super().__init__(EngineTransport(caller, known))

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear; a batch of launches has one."""
        return self.tokens.of(site)

    @property
    def tokens(self) -> AccessTokens:
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
