"""
Errors of the engine, each with an HTTP status and a stable code.

    EngineError
    ├── RuleBroken            400  a rule is broken; the reason is the code
    ├── BadLaunch             400  a value of a launch is invalid; `code` names the kind
    ├── LoginNeeded           401  a link names no user: the user who opens it must sign in
    ├── Forbidden             403  the caller may not do this
    │   ├── AuthorNotPermitted     the report's owner, in whose name the caller acts, may not
    │   ├── NoAuthority            only a site administrator launches for a non-member
    │   ├── BadAuthority           `userInfo.Auth` is not a valid access token
    │   └── FrameForbidden         the link opens in a tab or window only
    ├── NotFound              404
    │   ├── SiteNotFound
    │   ├── ReportNotFound
    │   ├── PrelimNotFound
    │   ├── PrelimReadNotFound
    │   └── LinkGone               unknown, or the payload cannot be opened
    │       └── LinkExpired   410  the link was valid once: it expired or its token was revoked
    │           └── ReportDeleted  the report of the link was deleted
    ├── StateConflict         409
    │   ├── OrderChanged           an order changed during processing; retry
    │   ├── ReportVersionConflict  saved by another session; load again
    │   ├── BeingEdited            another session writes
    │   ├── PatientNameMismatch    not retryable
    │   ├── MergeConflict          not retryable
    │   ├── CursorBeyondEnd        the change feed is shorter: read it again from 0
    │   └── CursorOfAnotherFeed    the change feed is another one: read it again from 0
    ├── NotBuilt              503  the web apps were not built
    └── BusinessFailure       500  the 500 responses that the interface reference defines (Errors)
        ├── AlreadySigned
        ├── NoSignedReport
        ├── CoolingElapsed
        ├── NoSignedAddendum
        └── SignDelayDisabled
"""

from typing import ClassVar

from bridge.contract import FeedFault
from bridge.engine.rules.lifecycle import REASON_TEXTS, Reason
from bridge.engine.rules.site_roles import ReportAction
from bridge.errors import BridgeError


class EngineError(BridgeError):
    """
    The base of all errors. `pointer` is the JSON pointer of the faulty part of the request, or
    empty.

    `more` are further faulty parts, each with its detail.
    """

    status: ClassVar[int] = 500
    text: ClassVar[str] = "the engine refused the request"
    retryable: ClassVar[bool] = False
    code: str = "refused"

    def __init__(self, detail: str = "", *, pointer: str = "") -> None:
        self.detail = detail or self.text
        self.pointer = pointer
        self.more: tuple[tuple[str, str], ...] = ()
        super().__init__(self.detail)


class RuleBroken(EngineError):
    """A rule of the interface reference is broken: its reason is the code."""

    status = 400

    def __init__(self, reason: Reason, *, pointer: str = "") -> None:
        self.reason = reason
        self.code = reason.value
        super().__init__(REASON_TEXTS[reason], pointer=pointer)


class NotBuilt(EngineError):
    """The web apps were not built into this installation; `make app` builds them."""

    status = 503
    code = "app_not_built"
    text = "the web apps are not built into this installation; run `make app`"


class Forbidden(EngineError):
    """The caller is authenticated but may not do this."""

    status = 403
    code = "forbidden"
    text = "the caller may not do this"


class AuthorNotPermitted(Forbidden):
    """The report's owner, in whose name the caller acts, may not do this, or has left the site."""

    def __init__(self, action: ReportAction) -> None:
        self.code = f"author_may_not_{action.value}"
        verb = "make preliminary reads" if action is ReportAction.PRELIM else action.value
        super().__init__(
            f"the report's owner may not {verb} on this site: "
            "the role does not permit it, or the owner has left the site"
        )


class NotFound(EngineError):
    """The object does not exist, or is not the caller's: the response is the same."""

    status = 404
    code = "not_found"
    text = "not found"


class SiteNotFound(NotFound):
    code = "site_not_found"
    text = "site not found"


class ReportNotFound(NotFound):
    """No report for this site, patient and accession."""

    code = "report_not_found"
    text = "no report for this SiteID, PatientMRN and Accession"


class PrelimNotFound(NotFound):
    """No such prelim group or tag on the site."""

    code = "prelim_not_found"
    text = "the site has no such prelim group or tag"


class PrelimReadNotFound(NotFound):
    """The report had no active preliminary read at that time."""

    code = "prelim_read_not_found"
    text = "the report has no preliminary read of that time"


class StateConflict(EngineError):
    """The request is valid but conflicts with the stored state."""

    status = 409
    code = "conflict"
    text = "the request conflicts with the current state"


class OrderChanged(StateConflict):
    """An order changed during processing: a repeated request may succeed."""

    code = "changed"
    text = "an order changed during processing; retry"
    retryable = True


class ReportVersionConflict(StateConflict):
    """The report was changed after the caller loaded it."""

    code = "version_conflict"
    text = "the report was changed after it was loaded; load it again"


class BeingEdited(StateConflict):
    """Another session is writing."""

    code = "being_edited"
    text = "another session is writing this report"


class PatientNameMismatch(StateConflict):
    """The patient is known by another name, and `forceUpdatePatientName` is false."""

    code = "patient_name_mismatch"
    text = "reports with this PatientMRN have another PatientName"


class MergeConflict(StateConflict):
    """Both patients have started reports for the same accession."""

    code = "merge_conflict"
    text = "both patients have started reports for the same accession"


class CursorBeyondEnd(StateConflict):
    """The cursor is beyond the newest change: the database was restored from a backup."""

    code = FeedFault.BEYOND_END.value
    text = "the cursor is beyond the end of the feed: it was restored or replaced; read it from 0"


class CursorOfAnotherFeed(StateConflict):
    """The change at the cursor is not the one for which the cursor was issued."""

    code = FeedFault.OTHER_FEED.value
    text = "the cursor belongs to another feed: it was restored or replaced; read it from 0"


class BusinessFailure(EngineError):
    """A state for which the interface reference defines a 500 response (Errors)."""

    status = 500


class AlreadySigned(BusinessFailure):
    """Sign: the report is already signed."""

    code = "already_signed"
    text = "the report is already signed"


class NoSignedReport(BusinessFailure):
    """Unsign: the report is Draft, Preliminary or Ordered."""

    code = "not_signed"
    text = "the report is not signed"


class CoolingElapsed(BusinessFailure):
    """The sign cooling period is over."""

    code = "cooling_elapsed"
    text = "the sign cooling period is over"


class NoSignedAddendum(BusinessFailure):
    code = "no_signed_addendum"
    text = "the report has no signed addendum"


class SignDelayDisabled(BusinessFailure):
    code = "sign_delay_disabled"
    text = "the site has no sign cooling period"


class BadLaunch(EngineError):
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
    """`userInfo.Auth` is unknown, expired or revoked, and the header's token is not sufficient."""

    code = "auth_invalid"
    text = "userInfo.Auth is not a valid access token"


class LinkGone(NotFound):
    """The link does not exist. The subclasses are for links that were valid once."""

    code = "link_not_found"
    text = "this link does not exist"


class LinkExpired(LinkGone):
    """The link has expired, its token was revoked, or its user has left the site."""

    status = 410
    code = "link_expired"
    text = "this link has expired"


class ReportDeleted(LinkExpired):
    code = "report_deleted"
    text = "this report no longer exists"


class FrameForbidden(Forbidden):
    """No administrator named the link's user, so it opens in no frame (Authentication 5)."""

    code = "frame_not_permitted"
    text = "this link does not open inside another page"


class LoginNeeded(EngineError):
    """The link names no user: the user who opens it must sign in."""

    status = 401
    code = "login_needed"
    text = "sign in to open this report"
