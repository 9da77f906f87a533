"""
Why the console refuses; each has its HTTP status and a stable code.

    ConsoleError
    ├── SignedOut        401  nobody is signed in
    ├── NotPermitted     403  the role does not allow it
    ├── SessionRefused   403  the session does not open the console
    ├── ReauthRequired   403  the password must be confirmed again
    ├── ForeignPage      403  a page of somebody else asked
    ├── Unknown          404  there is no such row or channel
    ├── Impossible       409  it does not follow from the present state
    ├── GrantRefused     4xx  a rule about accounts and grants forbids it
    ├── Conflict         409  somebody was faster
    ├── BadJson          400  the body is no JSON, or more than is read
    ├── BadEdit          400  an edited message cannot be written
    ├── Mistaken         422  a definition has mistakes
    ├── TooLarge         413  a request with more than any form of ours has
    ├── Overloaded       503  too much is in progress
    ├── NotTaken         4xx  the report service refuses it, in its own words
    └── Unreachable      503  the report service does not say who is there
"""

# ruff: noqa: N818  # named for what happened, as the field does

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bridge.errors import BridgeError

_ABOUT_THE_REQUEST = frozenset({400, 404, 409, 413, 429})


class ConsoleError(BridgeError):
    """A refusal."""

    status: int
    code: str
    more: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class SignInRequired(ConsoleError):
    """Nobody is signed in."""

    status = 401
    code = "signed_out"

    def __init__(self) -> None:
        super().__init__("sign in to do this")


class PermissionDenied(ConsoleError):
    """The person's role does not allow it."""

    status = 403
    code = "not_permitted"

    def __init__(self, permission: str) -> None:
        super().__init__(f"this needs the permission '{permission}'")


class SessionRefused(ConsoleError):
    """The person has a role, but their session does not open the console; `code` says why."""

    status = 403

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class ReauthRequired(ConsoleError):
    """The person must prove again who they are; the same request succeeds afterwards."""

    status = 403
    code = "reauthentication_required"

    def __init__(self) -> None:
        super().__init__("confirm your password to do this, and try again")


class GrantRefused(ConsoleError):
    """A rule about accounts and grants forbids it; `code` names the rule."""

    def __init__(self, code: str, detail: str, status: int = 403) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status


class ForeignOrigin(ConsoleError):
    """What changes something must come from a page of ours."""

    status = 403
    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("this request did not come from a page of this service")


class NoSuchItem(ConsoleError):
    """There is no such message, delivery, listener or destination."""

    status = 404
    code = "unknown"

    def __init__(self, detail: str = "there is no such row") -> None:
        super().__init__(detail)


class InvalidState(ConsoleError):
    """What was asked does not follow from the present state, or is refused still."""

    status = 409
    code = "impossible"


class ChangeConflict(ConsoleError):
    """Somebody was faster; `more` says what a person must know to go on."""

    status = 409

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code = code
        self.more = more


class InvalidContent(ConsoleError):
    """A definition has mistakes; `more` has them all, with their places."""

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
    """An edited message cannot be written as it was meant; `place` says where."""

    status = 400
    code = "bad_edit"

    def __init__(self, place: str, detail: str) -> None:
        self.more = {"place": place}
        super().__init__(f"{place}: {detail}")


class RequestTooLarge(ConsoleError):
    """A request brings more than any form of ours has."""

    status = 413
    code = "too_large"

    def __init__(self) -> None:
        super().__init__("the request is too large")


class ConsoleOverloaded(ConsoleError):
    """Too many requests are in progress; the person may try again."""

    status = 503
    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("too many requests are in progress; try again in a moment")


class EngineRefusal(ConsoleError):
    """The report service was asked, and refuses; its words are for whoever asked."""

    def __init__(self, status: int, code: str, detail: str = "") -> None:
        # Of what it says of our own token, a person is not told as if it were theirs.
        self.status = status if status in _ABOUT_THE_REQUEST else 502
        self.code = code
        super().__init__(detail or f"the report service refuses this: {code}")


class EngineUnreachable(ConsoleError):
    """The report service cannot be asked who is signed in."""

    status = 503
    code = "engine_unreachable"

    def __init__(self) -> None:
        super().__init__("the report service does not answer")
