"""
Accounts of the report engine, for the console: look up, reset to an enrolment link, disable (ours).

Part of `EngineClient`; see there. The endpoints take the service token only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.engine_client.replies import Unreadable, moment
from bridge.engine_client.transport import Transport

_PATH: Final = "/api/account"


@dataclass(frozen=True, slots=True)
class Account:
    """An account; `enrolled`: its owner has set a password once, or came in by the provider."""

    account_id: str
    email: str
    disabled: bool
    enrolled: bool
    sites: frozenset[str] = frozenset()
    second_factor: bool = False
    password: bool = False


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A one-time link for the owner; None where a provider signs people in. Time in ms."""

    link: str | None
    expires_at: int | None


class AccountAdministration:
    """Endpoints below `/api/account`."""

    def __init__(self, transport: Transport) -> None:
        """Share one transport."""
        self._transport = transport

    async def administer_account(
        self,
        method: str,
        path: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Call an endpoint in our own name; give status and body of the answer."""
        return await self._transport.relay(method, f"{_PATH}{path}", "", body=body, query=query)


def account(value: object) -> Account:
    """Read an account. Raises Unreadable."""
    if not isinstance(value, dict) or not isinstance(value.get("accountId"), str):
        raise Unreadable("accountId")
    if not value["accountId"] or not isinstance(value.get("email"), str):
        raise Unreadable("email")
    return Account(
        value["accountId"],
        value["email"],
        disabled=value.get("disabled") is not False,
        enrolled=value.get("enrolled") is True,
        sites=frozenset(map(str, value.get("sites") or ())),
        second_factor=value.get("secondFactor") is True,
        password=value.get("password") is True,
    )


def enrolment(value: object) -> Enrolment:
    """Read an enrolment. Raises Unreadable."""
    if not isinstance(value, dict):
        raise Unreadable("enrolment")
    link, until = value.get("link"), value.get("expiresAt")
    return Enrolment(str(link) if link else None, moment(until, "expiresAt"))
