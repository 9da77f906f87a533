"""
Why the console refuses; each has its HTTP status and a stable code.

    ConsoleError
    ├── SignedOut        401  nobody is signed in
    ├── NotPermitted     403  the role does not allow it
    ├── ForeignPage      403  a page of somebody else asked
    ├── Unknown          404  there is no such row or channel
    ├── Impossible       409  it does not follow from the present state
    └── Unreachable      503  the report service does not say who is there
"""

# ruff: noqa: N818  # named for what happened, as the field does

from typing import ClassVar

from bridge.errors import BridgeError


class ConsoleError(BridgeError):
    """A refusal."""

    status: ClassVar[int]
    code: ClassVar[str]

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class SignedOut(ConsoleError):
    """Nobody is signed in."""

    status = 401
    code = "signed_out"

    def __init__(self) -> None:
        super().__init__("sign in to do this")


class NotPermitted(ConsoleError):
    """The person's role does not allow it."""

    status = 403
    code = "not_permitted"

    def __init__(self, permission: str) -> None:
        super().__init__(f"this needs the permission '{permission}'")


class ForeignPage(ConsoleError):
    """What changes something must come from a page of ours."""

    status = 403
    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("this request did not come from a page of this service")


class Unknown(ConsoleError):
    """There is no such message, delivery, listener or destination."""

    status = 404
    code = "unknown"


class Impossible(ConsoleError):
    """What was asked does not follow from the present state, or is refused still."""

    status = 409
    code = "impossible"


class Unreachable(ConsoleError):
    """The report service cannot be asked who is signed in."""

    status = 503
    code = "engine_unreachable"

    def __init__(self) -> None:
        super().__init__("the report service does not answer")
