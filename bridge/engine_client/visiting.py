"""
Who is signed in at the service, asked with the cookies that their browser sent (ours).

No token of ours goes along: the answer is about the browser's session and nothing else.
"""

from dataclasses import dataclass

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable
from bridge.engine_client.transport import Transport
from bridge.queue.states import Failure

_PATH = "/reporting/api/account"
_SIGNED_OUT = 401


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in person, and how they like their pages."""

    email: str
    name: str
    theme: str


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
    if not isinstance(value, dict) or not isinstance(value.get("email"), str):
        raise Unreadable("email")
    told = (value.get(each) or "" for each in ("email", "name", "theme"))
    return Visitor(*map(str, told))
