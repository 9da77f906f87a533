"""
The controls that the report page shows, by the report's status and the user's permissions.

Pure. Hidden controls are no access check: the use cases check permissions again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from bridge.engine.rules.lifecycle import SIGNED, Status
from bridge.engine.rules.site_roles import ReportAction


class Control(StrEnum):
    """A control of the page."""

    EDIT = "edit"
    SIGN = "sign"
    SIGN_NOW = "sign-now"
    UNSIGN = "unsign"
    PRELIM = "prelim"
    DISCARD = "discard"
    ADDENDUM_CREATE = "addendum-create"
    ADDENDUM_UNSIGN = "addendum-unsign"
    ADDENDUM_SIGN_NOW = "addendum-sign-now"


def controls(page: Mapping[str, Any]) -> list[Control]:
    """Return the controls for a page that `service.signing.page_state.load` describes."""
    status, permitted = Status(page["status"]), frozenset(page["permitted"])
    found = _signed(page) if status in SIGNED else _unsigned(status, writable=page["writable"])
    return [control for control, action in found.items() if action in permitted]


def _unsigned(status: Status, *, writable: bool) -> dict[Control, ReportAction]:
    found = {Control.EDIT: ReportAction.EDIT} if writable else {}
    if status is Status.ORDERED:
        return found
    found |= {Control.SIGN: ReportAction.SIGN, Control.PRELIM: ReportAction.PRELIM}
    return found | ({Control.DISCARD: ReportAction.DISCARD} if status is Status.DRAFT else {})


def _signed(page: Mapping[str, Any]) -> dict[Control, ReportAction]:
    found: dict[Control, ReportAction] = {}
    if page["unsignUntil"] is not None:
        found |= {Control.UNSIGN: ReportAction.SIGN, Control.SIGN_NOW: ReportAction.SIGN}
    if not any(each["state"] == "draft" for each in page["addenda"]):
        found[Control.ADDENDUM_CREATE] = ReportAction.ADDEND
    if page["addendumUnsignUntil"] is not None:
        found |= {
            Control.ADDENDUM_UNSIGN: ReportAction.ADDEND,
            Control.ADDENDUM_SIGN_NOW: ReportAction.ADDEND,
        }
    return found
