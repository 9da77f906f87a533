"""
Errors of HTTP requests that the console refuses itself; `bridge.admin.errors` has the others.

    OperatorError
    ├── SignInRequired    401  no user is signed in
    ├── ForeignOrigin     403  the request came from a page of another origin
    ├── InvalidJson       400  the body is not JSON, or exceeds a limit of JSON bodies
    └── RequestTooLarge   413  the body exceeds the limit
"""

from bridge.admin.errors import OperatorError


class SignInRequired(OperatorError):
    status = 401
    code = "signed_out"

    def __init__(self) -> None:
        super().__init__("sign in to do this")


class ForeignOrigin(OperatorError):
    """A request that changes data did not come from a page of this service (CSRF)."""

    status = 403
    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("this request did not come from a page of this service")


class InvalidJson(OperatorError):
    """The body is not JSON, or exceeds a limit of JSON bodies."""

    status = 400
    code = "bad_request"


class RequestTooLarge(OperatorError):
    """The body exceeds the limit of the route."""

    status = 413
    code = "too_large"

    def __init__(self) -> None:
        super().__init__("the request is too large")
