"""Several reports and several actions at the same time, and actions on closed reports."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer

pytestmark = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)

SECOND_REPORT = """link => {
    const frame = document.createElement("iframe");
    frame.src = link;
    window.second = [];
    addEventListener("message", event => {
        if (event.source === frame.contentWindow) window.second.push(event.data);
    });
    const origin = new URL(link).origin;
    window.actOnSecond = action => frame.contentWindow.postMessage({ action }, origin);
    document.body.append(frame);
}"""


def event_of_second(viewer: Viewer, kind: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def has_arrived() -> bool:
        found[:] = [each for each in viewer.page.evaluate("second") if each["type"] == kind]
        return bool(found)

    viewer.until(has_arrived, what=kind)
    return found[0]


def test_two_reports_on_one_page_are_independent(viewer: Viewer) -> None:
    """Each report gets its own actions and sends its own events."""
    other = f"{viewer.reports.accession}-second"
    viewer.open()
    viewer.type("The first.")
    viewer.page.evaluate(SECOND_REPORT, viewer.reports.launch(other)["reportLink"])
    assert event_of_second(viewer, "report_ready")["clinicalInfo"] == viewer.reports.identity(other)
    viewer.page.evaluate("actOnSecond('save_report')")
    assert event_of_second(viewer, "report_saved")["clinicalInfo"] == viewer.reports.identity(other)
    viewer.act("sign_report")
    signed = viewer.event("report_signed")
    assert (signed["content"], signed["clinicalInfo"]) == ("The first.", viewer.reports.identity())
    viewer.event("report_status_changed")
    kinds = [each["type"] for each in viewer.page.evaluate("second")]
    assert kinds == ["report_ready", "report_saved"]
    assert "report_saved" not in [each["type"] for each in viewer.events()]


def test_simultaneous_actions_are_executed_in_order(viewer: Viewer) -> None:
    """The frame executes actions in order although the host does not wait for events."""
    viewer.open()
    viewer.type("Normal.")
    actions = ["sign_report", "create_addendum", "cancel_addendum", "unsign_report", "sign_report"]
    viewer.page.evaluate(
        "all => all.forEach(each => document.getElementById(each).click())", actions
    )
    viewer.event("report_signed", 1)
    viewer.event("report_status_changed", 2)
    kinds = [each["type"] for each in viewer.events() if each["type"].endswith(("ed", "failed"))]
    assert [each for each in kinds if "content" not in each and "status" not in each] == [
        "report_signed",
        "addendum_created",
        "addendum_cancelled",
        "report_unsigned",
        "report_signed",
    ]
    shown = [each["status"] for each in viewer.events("report_status_changed")]
    assert shown == ["FINAL", "DRAFT", "FINAL"]


def test_unknown_actions_and_bad_parameters_are_reported(viewer: Viewer) -> None:
    """
    A message without the name of an action has no effect; an unknown action is not available.

    A parameter of a wrong type counts as missing.
    """
    viewer.open()
    viewer.page.evaluate(
        """() => {
            const app = document.querySelector("#stage iframe").contentWindow;
            for (const each of ["x", 5, null, [], {}, { action: 1 }, { action: "SAVE_REPORT" },
                { action: "__proto__" }, { action: ["save_report"] }, { type: "save_report" },
                { action: "prelim_report", prelimGroup: 5, prelimTag: "Resident" },
                { action: "prelim_report", prelimGroup: "Night" },
                { action: "change_microphone", deviceId: null },
            ]) app.postMessage(each, "*");
        }"""
    )
    viewer.act("save_report")
    viewer.event("report_saved")
    failed = [(each["action"], each["code"]) for each in viewer.events("action_failed")]
    assert failed == [
        ("SAVE_REPORT", "not_available"),
        ("__proto__", "not_available"),
        ("prelim_report", "missing_parameter"),
        ("prelim_report", "missing_parameter"),
        ("change_microphone", "missing_parameter"),
    ]
    assert len(viewer.events()) == 1 + len(failed) + 1


@pytest.mark.parametrize("change", ["delete", "unassign"])
def test_actions_on_a_closed_report_are_refused(viewer: Viewer, change: str) -> None:
    """A page that is still open cannot sign a deleted or unassigned report."""
    viewer.open()
    viewer.type("Seen.")
    viewer.act("save_report")
    viewer.event("report_saved")
    order = viewer.reports.identity()
    body = {"clinicalInfo": order} if change == "delete" else order
    assert viewer.reports.api(change, **body).is_success
    viewer.event("report_discarded" if change == "delete" else "report_status_changed")
    expect(viewer.frame.locator(".ProseMirror[contenteditable=true]")).to_have_count(0)
    viewer.act("sign_report")
    assert viewer.event("action_failed")["action"] == "sign_report"
    assert viewer.events("report_signed") == []
    viewer.expected = "status of 40"  # for refused actions
