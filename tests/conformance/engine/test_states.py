"""States and transitions: every status with every event."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from tests.bridge.engine.documents.test_structured_report import file_of, item, report
from tests.bridge.engine.http.engine_service import (
    OTHER,
    READER,
    Service,
    identity,
)
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


def test_signing_again_keeps_time_and_content(case: Case) -> None:
    """Sign with ignoreSignDelay within cooling: the original signature and time are kept."""
    case.draft("A1", "As signed.")
    case.sign("A1")
    before = case.export("A1")["reportInfo"]
    until = case.record("A1")["unsignUntil"]
    assert until == case.service.clock.now + 60_000
    case.service.clock.pass_seconds(10)
    case.sign("A1", now=True)
    assert case.export("A1")["reportInfo"] == before
    assert case.record("A1")["unsignUntil"] is None
    case.wait()
    case.deliver()
    assert releases(case) == [("final", 1)]


def changes(case: Case) -> list[dict[str, Any]]:
    return list(ok(case.service.get("report/changes", limit=1000)).json()["changes"])


def events(case: Case) -> list[str]:
    return [change["event"] for change in changes(case)]


def releases(case: Case) -> list[tuple[str, int]]:
    found = [change["release"] for change in changes(case) if change["release"]]
    return [(row["kind"], row["sequence"]) for row in found]


def test_without_cooling_a_signed_report_is_final(
    case: Case, set_delay: Callable[[int], None]
) -> None:
    """Draft, sign, no site cooling period: Final and released; it cannot be recalled."""
    set_delay(0)
    case.draft("A1")
    case.sign("A1")
    assert events(case)[-2:] == ["report_signed", "report_finalized"]
    assert releases(case) == [("final", 1)]
    assert case.record("A1")["unsignUntil"] is None
    assert case.post("unsign", "A1").json()["code"] == "cooling_elapsed"
    for early in (False, True):
        again = case.post("sign", "A1", ignoreSignDelay=early)
        assert (again.status_code, again.json()["code"]) == (500, "already_signed")
    case.addendum("A1", "More.")
    for path in ("addendum/sign", "addendum/unsign"):
        response = case.post(path, "A1", ignoreSignDelay=True)
        assert response.status_code == 500
    assert releases(case) == [("final", 1), ("addendum", 1)]


def test_addendum_sign_without_site_cooling(case: Case, set_delay: Callable[[int], None]) -> None:
    """Errors, addendum/sign: 500 when the site has no sign cooling enabled."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "More.")
    set_delay(0)
    response = case.post("addendum/sign", "A1", ignoreSignDelay=True)
    assert (response.status_code, response.json()["code"]) == (500, "sign_delay_disabled")


def test_the_last_millisecond_of_cooling(case: Case) -> None:
    """UnsignUntil: exclusive, by the clock of the server."""
    for name in ("A1", "A2"):
        case.draft(name)
        case.sign(name)
    case.service.clock.now = case.record("A1")["unsignUntil"] - 1
    assert case.post("unsign", "A1").status_code == 200
    case.service.clock.now += 1
    assert case.record("A2")["unsignUntil"] is None
    assert case.post("unsign", "A2").json()["code"] == "cooling_elapsed"


def test_an_addendum_released_early_is_released_once(case: Case) -> None:
    """Addendum sign: the pending release is cancelled, and the signature is kept."""
    case.draft("A1")
    case.sign("A1", now=True)
    case.addendum("A1", "First.")
    before = case.export("A1")["addendumInfo"]
    ok(case.post("addendum/sign", "A1", ignoreSignDelay=True))
    for path in ("addendum/sign", "addendum/unsign"):
        again = case.post(path, "A1", ignoreSignDelay=True)
        assert (again.status_code, again.json()["code"]) == (500, "cooling_elapsed")
    case.wait()
    case.deliver()
    assert events(case)[-1] == "addendum_finalized"
    assert releases(case) == [("final", 1), ("addendum", 1)]
    assert case.export("A1")["addendumInfo"] == before


def test_reset_removes_assignment_and_content(case: Case) -> None:
    """Reset order: Ordered; afterwards the order can be linked."""
    case.order("A1")
    case.draft("A1", "Text.")
    ok(case.flat("reset-order", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", False)
    assert case.content("A1") == ""
    case.order("A2")
    assert case.orders("link-orders", "A1", "A2").status_code == 200


def test_unassign_keeps_content_for_the_next_user(case: Case) -> None:
    """Unassign: the report becomes a Draft of the next user who launches the study."""
    case.draft("A1", "Dictated.")
    ok(case.flat("unassign", "A1"))
    record = case.record("A1")
    assert (record["status"], record["userEmail"], record["hasContent"]) == ("Ordered", "", True)
    body = ok(case.service.launch(OTHER)).json()
    assert (body["status"], body["owner"]["email"]) == ("Draft", OTHER)
    assert case.content("A1") == "Dictated."


def test_deleting_frees_the_triple(case: Case) -> None:
    """Delete: a new launch of the same triple creates a new report."""
    case.draft("A1", "Old.")
    old = case.record("A1")["reportId"]
    ok(case.post("delete", "A1"))
    assert status_of(case, "A1") is None
    last = changes(case)[-1]
    assert (last["event"], last["orders"][0]["Accession"]) == ("report_deleted", "A1")
    case.draft("A1", "New.")
    assert case.record("A1")["reportId"] != old
    assert case.content("A1") == "New."


@pytest.mark.parametrize("forced", [False, True])
def test_ownership_is_transferred_when_the_link_is_opened(service: Service, forced: bool) -> None:
    """A Draft of another user: after the prompt, or with forceOwnershipTransfer."""
    case = Case(service)
    case.draft("A1")
    who: dict[str, Any] = {
        "UserEmail": OTHER,
        "UserName": "Other",
        "forceOwnershipTransfer": forced,
    }
    body = ok(service.launch(userInfo=who)).json()
    assert body["owner"]["email"] == READER  # nothing happens before the link is opened
    page = service.session(service.open(body["reportLink"]))
    assert case.record("A1")["userEmail"] == (OTHER if forced else READER)
    ok(page("transfer", {}))
    assert case.record("A1")["userEmail"] == OTHER
    assert events(case)[-1] == "report_transferred"
