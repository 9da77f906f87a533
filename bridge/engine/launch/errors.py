"""
Errors of launches and links.

    EngineError
    ├── BadLaunch           400  a value of the request is invalid; `code` names the kind
    ├── NoAuthority         403  only site administrators launch for other users
    ├── BadAuthority        403  `userInfo.Auth` is not a valid access token
    ├── FrameForbidden      403  the link opens in a tab or window only
    ├── LoginNeeded         401  the link names no user: its bearer must sign in
    └── LinkGone            404  unknown, expired or revoked: the response does not tell which
        └── LinkExpired     410  the handle was valid once
            └── ReportDeleted  410  its report was deleted
"""

from bridge.engine.errors import EngineError, Forbidden, NotFound


class BadLaunch(EngineError):  # noqa: N818  # named for what was sent
    """A launch with invalid values; the detail names places, never values."""

    status = 400

    def __init__(self, code: str, detail: str, *, pointer: str = "") -> None:
        self.code = code
        super().__init__(detail, pointer=pointer)


class NoAuthority(Forbidden):
    """The caller may launch, but not in the name of this user."""

    code = "user_not_permitted"
    text = "only a site administrator may launch for a user who is not a member of the site"


class BadAuthority(Forbidden):
    """`userInfo.Auth` is unknown, expired or revoked, and the header's token is not enough."""

    code = "auth_invalid"
    text = "userInfo.Auth is not a valid access token"


class LinkGone(NotFound):
    """The link never existed, or exists no longer."""

    code = "link_not_found"
    text = "this link does not exist"


class LinkExpired(LinkGone):
    """The link has expired."""

    status = 410
    code = "link_expired"
    text = "this link has expired"


class ReportDeleted(LinkExpired):
    """The report that the link led to, or would have created, was deleted."""

    code = "report_deleted"
    text = "this report no longer exists"


class FrameForbidden(Forbidden):
    """No administrator named the link's user, so it opens in no frame (Authentication 5)."""

    code = "frame_not_permitted"
    text = "this link does not open inside another page"


class LoginNeeded(EngineError):  # noqa: N818  # named for what happened
    """The link names no user: its bearer must sign in."""

    status = 401
    code = "login_needed"
    text = "sign in to open this report"
