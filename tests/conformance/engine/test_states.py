"""States and transitions: every status with every event, on both databases."""

import base64
from collections.abc import Callable, Mapping

import httpx
import pytest

from tests.bridge.engine.documents.test_structured_report import file_of, item, report
from tests.bridge.engine.http.engine_service import OTHER, identity
from tests.conformance.engine.cases import STATES, Case, ok
from tests.conftest import database_url

__all__ = ["database_url"]  # both databases

Outcome = tuple[int, str, str | None]  # status code, code of the problem, new status of the report

UNSIGNED = ("ordered", "unassigned", "draft", "draft-of-order", "preliminary")
SIGNED = tuple(name for name, (_, status) in STATES.items() if status in ("Final", "Addendum"))
ABSENT = ("none", "prelaunch")


def _files(case: Case, name: str) -> httpx.Response:
    data = base64.b64encode(file_of(report(item("TEXT", "Finding", TextValue="From SR")))).decode()
    return case.post("update-dicomsr", name, dicomSR=[{"fileData": data}])


def _anchor(case: Case, name: str) -> httpx.Response:
    case.order(f"{name}-other")
    return _refused_at(case.orders("link-orders", name, f"{name}-other"), "/clinicalInfo/0")


def _member(case: Case, name: str) -> httpx.Response:
    case.order(f"{name}-other")
    return _refused_at(case.orders("link-orders", f"{name}-other", name), "/clinicalInfo/1")


def _refused_at(response: httpx.Response, place: str) -> httpx.Response:
    if response.status_code == 400:
        assert response.json()["errors"][0]["pointer"] == place
    return response


EVENTS: Mapping[str, Callable[[Case, str], httpx.Response]] = {
    "launch": lambda case, name: case.service.launch(OTHER, accession=name),
    "sign": lambda case, name: case.post("sign", name),
    "sign now": lambda case, name: case.post("sign", name, ignoreSignDelay=True),
    "unsign": lambda case, name: case.post("unsign", name),
    "addendum sign": lambda case, name: case.post("addendum/sign", name, ignoreSignDelay=True),
    "addendum unsign": lambda case, name: case.post("addendum/unsign", name),
    "prelim": lambda case, name: case.post("prelim", name, prelimGroup="G", prelimTag="T"),
    "delete": lambda case, name: case.post("delete", name),
    "reset": lambda case, name: case.flat("reset-order", name),
    "unassign": lambda case, name: case.flat("unassign", name),
    "update-dicomsr": _files,
    "link as anchor": _anchor,
    "link as member": _member,
    "unlink": lambda case, name: case.orders("unlink-orders", name),
}

# The new status by event and state, if the event is allowed; None: the report is deleted.
ALLOWED: Mapping[str, Mapping[str, str | None]] = {
    "launch": {
        **dict.fromkeys((*ABSENT, "ordered", "unassigned", "draft", "draft-of-order"), "Draft"),
        "preliminary": "Preliminary",
        **{name: STATES[name][1] for name in SIGNED},
    },
    "sign": dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Final"),
    "sign now": {
        **dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Final"),
        **dict.fromkeys(("cooling", "cooling-after-prelim"), "Final"),
        "addendum-to-cooling": "Addendum",
    },
    "unsign": {
        "cooling": "Draft",
        "cooling-after-prelim": "Preliminary",
        "addendum-to-cooling": "Draft",
    },
    "addendum sign": dict.fromkeys(("addendum", "addenda", "addendum-to-cooling"), "Addendum"),
    "addendum unsign": {"addendum": "Final", "addenda": "Addendum", "addendum-to-cooling": "Final"},
    "prelim": dict.fromkeys(("draft", "draft-of-order", "preliminary"), "Preliminary"),
    "delete": dict.fromkeys(UNSIGNED),
    "reset": dict.fromkeys(("draft-of-order", "unassigned"), "Ordered"),
    "unassign": dict.fromkeys(("draft", "draft-of-order"), "Ordered"),
    "update-dicomsr": {name: STATES[name][1] for name in UNSIGNED},
    "link as anchor": {"ordered": "Ordered", "draft": "Draft", "draft-of-order": "Draft"},
    "link as member": {"ordered": "Ordered"},
    "unlink": {name: STATES[name][1] for name in (*UNSIGNED, *SIGNED)},
}

# The refusal in other states: by state, or "signed", or "" for all others.
REFUSED: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "launch": {},
    "sign": {
        "ordered": (400, "report_not_assigned"),
        "unassigned": (400, "report_not_assigned"),
        "": (500, "already_signed"),
    },
    "sign now": {
        "ordered": (400, "report_not_assigned"),
        "unassigned": (400, "report_not_assigned"),
        "": (500, "already_signed"),
    },
    "unsign": {"signed": (500, "cooling_elapsed"), "": (500, "not_signed")},
    "addendum sign": {
        "addendum-elapsed": (500, "cooling_elapsed"),
        "": (500, "no_signed_addendum"),
    },
    "addendum unsign": {
        "addendum-elapsed": (500, "cooling_elapsed"),
        "": (500, "no_signed_addendum"),
    },
    "prelim": {"signed": (400, "report_signed"), "": (400, "report_not_assigned")},
    "delete": {"signed": (400, "report_signed")},
    "reset": {
        "signed": (400, "report_signed"),
        "ordered": (400, "nothing_to_reset"),
        "draft": (400, "report_not_from_order"),
        "preliminary": (400, "report_not_draft"),
    },
    "unassign": {"signed": (400, "report_signed"), "": (400, "report_not_draft")},
    "update-dicomsr": {"signed": (400, "report_signed")},
    "link as anchor": {
        "signed": (400, "report_signed"),
        "unassigned": (400, "anchor_has_content"),
        "preliminary": (400, "anchor_not_ordered_or_draft"),
    },
    "link as member": {
        "signed": (400, "report_signed"),
        "unassigned": (400, "order_has_content"),
        "": (400, "order_not_ordered"),
    },
    "unlink": {},
}


def expected(event: str, state: str) -> Outcome:
    """Read one cell of the tables above."""
    if state in ALLOWED[event]:
        return 200, "", ALLOWED[event][state]
    if state in ABSENT:
        return 404, "report_not_found", None
    rows = REFUSED[event]
    keys = (state, *(("signed",) if state in SIGNED else ()), "")
    status, code = next(rows[key] for key in keys if key in rows)
    return status, code, STATES[state][1]


def status_of(case: Case, name: str) -> str | None:
    """Return the status of a report, None if it does not exist."""
    response = case.service.post("report/status", {"clinicalInfo": [identity(name)]})
    if response.status_code == 404:
        return None
    status: str = ok(response).json()[0]["status"]
    return status


def outcome(case: Case, event: str, state: str) -> Outcome:
    """Send the request of the event; return its outcome."""
    response = EVENTS[event](case, state)
    code = "" if response.status_code == 200 else response.json()["code"]
    return response.status_code, code, status_of(case, state)


@pytest.mark.parametrize("event", EVENTS)
def test_each_event_in_each_state(case: Case, event: str) -> None:
    """States and transitions, Errors: the documented status code, and the new status."""
    for state, (bring, status) in STATES.items():
        bring(case, state)
        assert status_of(case, state) == status, state
    found = {state: outcome(case, event, state) for state in STATES}
    assert found == {state: expected(event, state) for state in STATES}
