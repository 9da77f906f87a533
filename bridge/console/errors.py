"""
Errors of the console; each has an HTTP status and a stable code.

    ConsoleError
    ├── SignInRequired    401  no user is signed in
    ├── PermissionDenied  403  the role lacks the permission
    ├── SessionRefused    403  the session does not open the console
    ├── ReauthRequired    403  the user must confirm the password again
    ├── ForeignOrigin     403  the request came from a page of another origin
    ├── NoSuchItem        404  the row, listener, destination or account does not exist
    ├── InvalidState      409  the present state does not permit the action
    ├── GrantRefused      4xx  a rule about accounts and grants forbids the action
    ├── ChangeConflict    409  another user has changed the same thing
    ├── InvalidJson       400  the body is not JSON, or exceeds a limit of JSON bodies
    ├── InvalidEdit       400  an edited message cannot be encoded
    ├── InvalidContent    422  a definition or a connection has errors
    ├── RequestTooLarge   413  the body exceeds the limit
    ├── ConsoleOverloaded 503  too many requests are in progress
    ├── EngineRefusal     4xx  the report engine refused the request
    └── EngineUnreachable 503  the report engine does not respond
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bridge.errors import BridgeError

_PASSED_ON = frozenset({400, 404, 409, 413, 429})
"""Statuses of the report engine that are about the user's request, not about our token."""


class ConsoleError(BridgeError):
    """The console refuses a request."""

    status: int
    code: str
    more: Mapping[str, Any] = MappingProxyType({})
    """Additional members of the response body."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class SignInRequired(ConsoleError):
    """No user is signed in."""

    status = 401
    code = "signed_out"

    def __init__(self) -> None:
        super().__init__("sign in to do this")


class PermissionDenied(ConsoleError):
    """The user's role lacks a permission."""

    status = 403
    code = "not_permitted"

    def __init__(self, permission: str) -> None:
        super().__init__(f"this needs the permission '{permission}'")


class SessionRefused(ConsoleError):
    """The user has a role, but the session does not open the console; `code` is the reason."""

    status = 403

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class ReauthRequired(ConsoleError):
    """The user must confirm the password; then the same request succeeds."""

    status = 403
    code = "reauthentication_required"

    def __init__(self) -> None:
        super().__init__("confirm your password to do this, and try again")


class GrantRefused(ConsoleError):
    """A rule about accounts and grants forbids the action; `code` names the rule."""

    def __init__(self, code: str, detail: str, status: int = 403) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status


class ForeignOrigin(ConsoleError):
    """A request that changes data did not come from a page of this service (CSRF)."""

    status = 403
    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("this request did not come from a page of this service")


class NoSuchItem(ConsoleError):
    """The message, delivery, listener, destination or account does not exist."""

    status = 404
    code = "unknown"

    def __init__(self, detail: str = "there is no such row") -> None:
        super().__init__(detail)


class InvalidState(ConsoleError):
    """The present state does not permit the action."""

    status = 409
    code = "impossible"


class ChangeConflict(ConsoleError):
    """Another user has changed the same thing; `more` describes that change."""

    status = 409

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.more = more


class InvalidContent(ConsoleError):
    """A definition or a connection has errors; `more` lists all of them with their places."""

    status = 422
    code = "mistakes"

    def __init__(self, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.more = more


class InvalidJson(ConsoleError):
    """The body is not JSON, or exceeds a limit of JSON bodies."""

    status = 400
    code = "bad_request"


class InvalidEdit(ConsoleError):
    """An edited message cannot be encoded without loss; `place` is the segment or field."""

    status = 400
    code = "bad_edit"

    def __init__(self, place: str, detail: str) -> None:
        self.more = {"place": place}
        super().__init__(f"{place}: {detail}")


class RequestTooLarge(ConsoleError):
    """The body exceeds the limit of the route."""

    status = 413
    code = "too_large"

    def __init__(self) -> None:
        super().__init__("the request is too large")


class ConsoleOverloaded(ConsoleError):
    """Too many requests are in progress; the user may try again."""

    status = 503
    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("too many requests are in progress; try again in a moment")


class EngineRefusal(ConsoleError):
    """The report engine refused the request; `detail` is its own text."""

    def __init__(self, status: int, code: str, detail: str = "") -> None:
        # A 401 or 403 is about our own token. To the user it would look like their session.
        self.status = status if status in _PASSED_ON else 502
        self.code = code
        super().__init__(detail or f"the report service refuses this: {code}")


class EngineUnreachable(ConsoleError):
    """The report engine does not respond."""

    status = 503
    code = "engine_unreachable"

    def __init__(self) -> None:
        super().__init__("the report service does not answer")
