"""
Outcomes of launches, with the members of the response (interface document, launch).

Pure values: HTTP adds the link and its QR code.
"""

from dataclasses import dataclass
from enum import StrEnum

from bridge.engine.rules.lifecycle import SIGNED, Status


class LaunchStatus(StrEnum):
    """The `status` of a launch response."""

    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    PRE_LAUNCH = "PreLaunch"


class LaunchWarning(StrEnum):
    """A warning of a launch that was executed nevertheless."""

    UNKNOWN_TEMPLATE = "unknown_template"
    REPORT_SIGNED = "report_signed"
    AUTH_IGNORED = (
        "auth_ignored"  # userInfo.Auth is not an administrator's, but the header's token is
    )
    SYNC_REFUSED = "sync_refused"  # the user's window did not follow and shows the reason
    SYNC_PENDING = "sync_pending"  # the window has not followed yet
    SR_OTHER_PATIENT = "dicom_sr_other_patient"  # a file of another patient was set aside
    FILES_NOT_ADDED = "files_not_added"  # the report is signed, so it did not get the files


@dataclass(frozen=True, slots=True)
class AwaitedWindow:
    """An open window that should follow the launch, and the launch's sequence number."""

    site_id: str
    account_id: int
    sequence: int


@dataclass(frozen=True, slots=True)
class SetAsideFile:
    """A DICOM SR file of another patient, and the tags that contradict the order."""

    sop_instance_uid: str
    contradicts: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the file as responses show it."""
        return {"sopInstanceUID": self.sop_instance_uid, "contradicts": list(self.contradicts)}


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The outcome of one launch; `owner` is None if the report has none."""

    status: LaunchStatus
    report_status: Status | None
    report_id: str | None
    owner: tuple[str, str] | None  # name, e-mail
    handle: str = ""
    warnings: tuple[LaunchWarning, ...] = ()
    awaited: AwaitedWindow | None = None
    set_aside: tuple[SetAsideFile, ...] = ()


def launch_status(status: Status | None, *, lazy: bool) -> LaunchStatus:
    """Return the `status` of a launch response; a status of None means no report yet."""
    if status is None or (status is Status.ORDERED and lazy):
        return LaunchStatus.PRE_LAUNCH
    return LaunchStatus.FINAL if status in SIGNED else LaunchStatus(status.value)
