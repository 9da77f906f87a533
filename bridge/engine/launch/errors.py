"""
Why a launch or a link is refused.

    EngineError
    ├── BadLaunch           400  a value of the request makes no sense; `code` says which kind
    ├── NoAuthority         403  only site administrators launch for people they name
    ├── BadAuthority        403  `userInfo.Auth` is no valid access token
    ├── FrameForbidden      403  the link opens in a tab or window only
    ├── LoginNeeded         401  the link names nobody: its bearer signs in first
    └── LinkGone            404  unknown, expired or revoked: strangers cannot tell which
        └── LinkExpired     410  a handle that was good once; its bearer may know
            └── ReportDeleted  410  its report was deleted
"""

from bridge.engine.errors import EngineError, Forbidden, NotFound


class BadLaunch(EngineError):  # noqa: N818  # named for what was sent
    """A launch whose values make no sense; the detail names places, never values."""

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
    """There is no such link, or none any more."""

    code = "link_not_found"
    text = "this link does not exist"


class LinkExpired(LinkGone):
    """The link was real and its time is over."""

    status = 410
    code = "link_expired"
    text = "this link has expired"


class ReportDeleted(LinkExpired):
    """The report that the link led to, or would have created, was deleted."""

    code = "report_deleted"
    text = "this report no longer exists"


class FrameForbidden(Forbidden):
    """Interface document, Authentication 5: no frame without userInfo and an administrator."""

    code = "frame_not_permitted"
    text = "this link does not open inside another page"


class LoginNeeded(EngineError):  # noqa: N818  # named for what happened
    """The link does not say who opens it."""

    status = 401
    code = "login_needed"
    text = "sign in to open this report"
