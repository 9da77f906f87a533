"""
What a launch came to, in the words of its response (interface document, launch).

Pure values: the link itself and its QR code are added by HTTP.
"""

from dataclasses import dataclass
from enum import StrEnum

from bridge.engine.rules.status import SIGNED, Status


class LaunchStatus(StrEnum):
    """The `status` of a launch response."""

    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    PRE_LAUNCH = "PreLaunch"


class LaunchWarning(StrEnum):
    """What a launch could not do, and why it was launched nevertheless."""

    UNKNOWN_TEMPLATE = "unknown_template"
    REPORT_SIGNED = "report_signed"
    AUTH_IGNORED = "auth_ignored"  # userInfo.Auth is no administrator's; the header's token is
    SYNC_REFUSED = "sync_refused"  # the user's window stays where it is, and says so there
    SYNC_PENDING = "sync_pending"  # it has not followed yet
    SR_OTHER_PATIENT = "dicom_sr_other_patient"  # a file was set aside
    FILES_NOT_ADDED = "files_not_added"  # the report is signed and does not have them


@dataclass(frozen=True, slots=True)
class AwaitedWindow:
    """A window that stands open and is to follow the launch: whose, and the launch's number."""

    site_id: str
    account_id: int
    sequence: int


@dataclass(frozen=True, slots=True)
class SetAsideFile:
    """A DICOM SR file of another patient, and the tags by which it contradicts the order."""

    sop_instance_uid: str
    contradicts: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as responses show it."""
        return {"sopInstanceUID": self.sop_instance_uid, "contradicts": list(self.contradicts)}


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The outcome of one launch; `owner` is None while nobody owns the report."""

    status: LaunchStatus
    report_status: Status | None
    report_id: str | None
    owner: tuple[str, str] | None  # name, e-mail
    handle: str = ""
    warnings: tuple[LaunchWarning, ...] = ()
    awaited: AwaitedWindow | None = None
    set_aside: tuple[SetAsideFile, ...] = ()


def launch_status(status: Status | None, *, lazy: bool) -> LaunchStatus:
    """Return the word of the response for where a report stands; None is no report yet."""
    if status is None or (status is Status.ORDERED and lazy):
        return LaunchStatus.PRE_LAUNCH
    return LaunchStatus.FINAL if status in SIGNED else LaunchStatus(status.value)
