"""
Which controls the report page shows, from where the report stands and what its user may.

Pure. A convenience for people: the use cases check everything again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from bridge.engine.rules.site_roles import Deed
from bridge.engine.rules.status import SIGNED, Status


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
    """Return the controls for a page as `service.paging.load` describes it."""
    status, permitted = Status(page["status"]), frozenset(page["permitted"])
    found = _signed(page) if status in SIGNED else _unsigned(status, writable=page["writable"])
    return [control for control, deed in found.items() if deed in permitted]


def _unsigned(status: Status, *, writable: bool) -> dict[Control, Deed]:
    found = {Control.EDIT: Deed.EDIT} if writable else {}
    if status is Status.ORDERED:
        return found
    found |= {Control.SIGN: Deed.SIGN, Control.PRELIM: Deed.PRELIM}
    return found | ({Control.DISCARD: Deed.DISCARD} if status is Status.DRAFT else {})


def _signed(page: Mapping[str, Any]) -> dict[Control, Deed]:
    found: dict[Control, Deed] = {}
    if page["unsignUntil"] is not None:
        found |= {Control.UNSIGN: Deed.SIGN, Control.SIGN_NOW: Deed.SIGN}
    if not any(each["state"] == "draft" for each in page["addenda"]):
        found[Control.ADDENDUM_CREATE] = Deed.ADDEND
    if page["addendumUnsignUntil"] is not None:
        found |= {Control.ADDENDUM_UNSIGN: Deed.ADDEND, Control.ADDENDUM_SIGN_NOW: Deed.ADDEND}
    return found
