"""
Errors of the use cases of operators; each has an HTTP status and a stable code.

    OperatorError
    ├── PermissionDenied  403  the role lacks the permission
    ├── SessionRefused    403  the session does not open the console
    ├── ReauthRequired    403  the user must confirm the password again
    ├── NoSuchItem        404  the row, listener, destination or account does not exist
    ├── InvalidState      409  the present state does not permit the action
    ├── GrantRefused      4xx  a rule about accounts and grants forbids the action
    ├── ChangeConflict    409  another user has changed the same thing
    ├── InvalidEdit       400  an edited message cannot be encoded
    ├── InvalidContent    422  a definition or a connection has errors
    ├── Overloaded        503  too many requests are in progress
    ├── EngineRefusal     4xx  the report engine refused the request
    └── EngineUnreachable 503  the report engine does not respond

`bridge.console.http.guard` has those about the HTTP request itself.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from bridge.errors import BridgeError

_PASSED_ON = frozenset({400, 404, 409, 413, 429})
"""Statuses of the report engine that are about the user's request, not about our token."""


class OperatorError(BridgeError):
    """A use case refuses the request of an operator."""

    status: int
    code: str
    more: Mapping[str, Any] = MappingProxyType({})
    """Additional members of the response body."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class PermissionDenied(OperatorError):
    """The user's role lacks a permission."""

    status = 403
    code = "not_permitted"

    def __init__(self, permission: str) -> None:
        super().__init__(f"this needs the permission '{permission}'")


class SessionRefused(OperatorError):
    """The user has a role, but the session does not open the console; `code` is the reason."""

    status = 403

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class ReauthRequired(OperatorError):
    """The user must confirm the password; then the same request succeeds."""

    status = 403
    code = "reauthentication_required"

    def __init__(self) -> None:
        super().__init__("confirm your password to do this, and try again")


class GrantRefused(OperatorError):
    """A rule about accounts and grants forbids the action; `code` names the rule."""

    def __init__(self, code: str, detail: str, status: int = 403) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status


class NoSuchItem(OperatorError):
    """The message, delivery, listener, destination or account does not exist."""

    status = 404
    code = "unknown"

    def __init__(self, detail: str = "there is no such row") -> None:
        super().__init__(detail)


class InvalidState(OperatorError):
    """The present state does not permit the action."""

    status = 409
    code = "impossible"


class ChangeConflict(OperatorError):
    """Another user has changed the same thing; `more` describes that change."""

    status = 409

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.more = more


class InvalidContent(OperatorError):
    """A definition or a connection has errors; `more` lists all of them with their places."""

    status = 422
    code = "mistakes"

    def __init__(self, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.more = more


class InvalidEdit(OperatorError):
    """An edited message cannot be encoded without loss; `place` is the segment or field."""

    status = 400
    code = "bad_edit"

    def __init__(self, place: str, detail: str) -> None:
        self.more = {"place": place}
        super().__init__(f"{place}: {detail}")


class Overloaded(OperatorError):
    """Too many requests are in progress; the user may try again."""

    status = 503
    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("too many requests are in progress; try again in a moment")


class EngineRefusal(OperatorError):
    """
    The report engine refused the request; `detail` is its own text.

    `pointer` is the place of the fault in the body of the request. Only commands show it.
    """

    def __init__(self, status: int, code: str, detail: str = "", pointer: str = "") -> None:
        # A 401 or 403 is about our own token. To the user it would look like their session.
        self.status = status if status in _PASSED_ON else 502
        self.code = code
        self.pointer = pointer
        super().__init__(detail or f"the report service refused the request: {code}")

    @override
    def __str__(self) -> str:
        is_named = not self.pointer or self.detail.startswith(self.pointer)
        return self.detail if is_named else f"{self.detail} ({self.pointer})"


class EngineUnreachable(OperatorError):
    """The report engine does not respond."""

    status = 503
    code = "engine_unreachable"

    def __init__(self) -> None:
        super().__init__("the report service does not answer")
