"""
Scheduled procedure steps as workitems of the Unified Procedure Step (PS3.3 annex CC.2.5). Pure.

A workitem has all of its attributes, without a value where the step has none.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bridge.dicom.matching import START_DATE, START_TIME, STEPS, Item
from bridge.store.records.scheduled_steps import ScheduledStep, StepStatus

UPS_PUSH: Final = "1.2.840.10008.5.1.4.34.6.1"
STATE: Final = "00741000"
UID: Final = "00080018"
STATES: Final = {
    StepStatus.SCHEDULED: "SCHEDULED",
    StepStatus.ARRIVED: "SCHEDULED",
    StepStatus.READY: "SCHEDULED",
    StepStatus.STARTED: "IN PROGRESS",
    StepStatus.COMPLETED: "COMPLETED",
    StepStatus.DISCONTINUED: "CANCELED",
    StepStatus.CANCELLED: "CANCELED",
}
"""Procedure Step State by the status of a step; one on hold or expired is no workitem."""
_PRIORITIES: Final = {"STAT": "HIGH", "HIGH": "HIGH", "LOW": "LOW"}
_COPIED: Final = {
    "00100010": "PN",
    "00100020": "LO",
    "00100021": "LO",
    "00100024": "SQ",
    "00100030": "DA",
    "00100040": "CS",
    "00101002": "SQ",
    "00380010": "LO",
    "00380014": "SQ",
    "0020000D": "UI",
}
"""Attributes that stay as they are."""
_REQUEST: Final = {
    "0020000D": "UI",
    "00080050": "SH",
    "00080051": "SQ",
    "00401001": "SH",
    "00321060": "LO",
    "00321064": "SQ",
    "00402016": "LO",
    "00402017": "LO",
    "00321032": "PN",
    "00321033": "LO",
}
"""Attributes of Referenced Request Sequence."""


def workitem(step: ScheduledStep, item: Item) -> dict[str, Any]:
    """Return the workitem of a step."""
    scheduled: Item = next(iter(item.get(STEPS, {}).get("Value", ())), {})
    protocol = scheduled.get("00400008") or item.get("00321064") or {"vr": "SQ"}
    label = _text(scheduled, "00400007") or _text(item, "00321060")
    priority = _PRIORITIES.get(_text(item, "00401003").upper(), "MEDIUM")
    request = {tag: item.get(tag, {"vr": vr}) for tag, vr in _REQUEST.items()}
    changed = datetime.fromtimestamp(step.changed_at / 1000, UTC)
    return {
        "00080005": _element("CS", "ISO_IR 192"),
        "00080016": _element("UI", UPS_PUSH),
        UID: _element("UI", step.workitem_uid),
        **{tag: item.get(tag, {"vr": vr}) for tag, vr in _COPIED.items()},
        "00400400": scheduled.get("00400400", {"vr": "LT"}),
        "00404005": _element("DT", _text(scheduled, START_DATE) + _text(scheduled, START_TIME)),
        "00404010": _element("DT", changed.strftime("%Y%m%d%H%M%S+0000")),
        "00404018": protocol,
        "00404025": _codes(scheduled, "00400001", "99AET"),
        "00404026": _codes(scheduled, "00080060", "DCM"),
        "00404027": _codes(scheduled, "00400011", "99LOC"),
        "00404041": _element("CS", "READY"),
        "0040A370": _element("SQ", request),
        STATE: _element("CS", STATES[step.status]),
        "00741200": _element("CS", priority),
        "00741202": _element("LO", _text(scheduled, "00080060")),
        "00741204": _element("LO", label),
    }


ATTRIBUTES: Final = frozenset(
    {
        *("00080005", "00080016", UID, *_COPIED, "00400400", "00404005", "00404010", "00404018"),
        *("00404025", "00404026", "00404027", "00404041", "0040A370", STATE, "00741200"),
        *("00741202", "00741204"),
    }
)
"""The tags of a workitem."""


def _element(vr: str, *values: Any) -> dict[str, Any]:
    kept = [value for value in values if value]
    return {"vr": vr, "Value": kept} if kept else {"vr": vr}


def _text(item: Mapping[str, Mapping[str, Any]], tag: str) -> str:
    values: Sequence[Any] = item.get(tag, {}).get("Value", ())
    return str(values[0] or "") if values else ""


def _codes(item: Item, tag: str, scheme: str) -> dict[str, Any]:
    """Return the values of an attribute as codes of a scheme."""
    codes = [
        {
            "00080100": _element("SH", value),
            "00080102": _element("SH", scheme),
            "00080104": _element("LO", value),
        }
        for value in item.get(tag, {}).get("Value", ())
        if value
    ]
    return _element("SQ", *codes)
