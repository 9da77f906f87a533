"""
Who is signed in at the service, asked with the cookies that their browser sent (ours).

No token of ours goes along: the answer is about the browser's session and nothing else.
"""

from dataclasses import dataclass

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable, moment
from bridge.engine_client.transport import Transport
from bridge.queue.states import Failure

_PATH = "/reporting/api/account"
_SIGNED_OUT = 401


@dataclass(frozen=True, slots=True)
class Visitor:
    """
    A signed-in person, their session, and how they like their pages.

    `site` is the one site that the session is good for; None: all of the account's.
    `authenticated_at`, in ms, is when the person last proved who they are. `second_factor`: they
    did so with a one-time code or at an identity provider.
    """

    account_id: str
    email: str
    name: str
    theme: str
    site: str | None
    authenticated_at: int
    second_factor: bool


class Visiting:
    """Part of `EngineClient`; see there."""

    def __init__(self, transport: Transport) -> None:
        """Share one transport."""
        self._transport = transport

    async def visitor(self, cookies: str, *, unattended: bool = False) -> Visitor | None:
        """Say who is there; None: nobody. `unattended` keeps nobody signed in."""
        try:
            response = await self._transport.visit(_PATH, cookies, unattended=unattended)
            return _visitor(response.json())
        except EngineFailure as failure:
            if failure.status == _SIGNED_OUT:
                return None
            raise
        except (Unreadable, ValueError, RecursionError):
            raise EngineFailure(_PATH, Failure.PERMANENT, "unreadable") from None


def _visitor(value: object) -> Visitor:
    """Read a profile. What says how far the session reaches must be there."""
    if not isinstance(value, dict):
        raise Unreadable("profile")
    site, since = value.get("site", ""), moment(value.get("authenticatedAt"), "authenticatedAt")
    account_id, email = value.get("accountId"), value.get("email")
    if not isinstance(account_id, str) or not account_id:
        raise Unreadable("accountId")
    if not isinstance(email, str):
        raise Unreadable("email")
    if site == "" or not isinstance(site, str | None):
        raise Unreadable("site")
    if since is None:
        raise Unreadable("authenticatedAt")
    name, theme = (str(value.get(each) or "") for each in ("name", "theme"))
    return Visitor(account_id, email, name, theme, site, since, value.get("secondFactor") is True)
