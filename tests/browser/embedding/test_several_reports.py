"""Several reports and several actions at the same time, and reports that close meanwhile."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.embedding.house import Viewer
from tests.browser.embedding.kinds import HostKind

pytestmark = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)

BESIDE = """link => {
    const frame = document.createElement("iframe");
    frame.src = link;
    window.beside = [];
    addEventListener("message", event => {
        if (event.source === frame.contentWindow) window.beside.push(event.data);
    });
    window.actBeside = action => frame.contentWindow.postMessage({ action }, new URL(link).origin);
    document.body.append(frame);
}"""


def beside(viewer: Viewer, kind: str) -> dict[str, Any]:
    """Return the event of a kind that the second report sent."""
    found: list[dict[str, Any]] = []

    def came() -> bool:
        found[:] = [each for each in viewer.page.evaluate("beside") if each["type"] == kind]
        return bool(found)

    viewer.until(came, what=kind)
    return found[0]


def test_two_reports_on_one_page_are_two_reports(viewer: Viewer) -> None:
    """Each is sent its own actions and tells of itself; signing one leaves the other."""
    other = f"{viewer.reports.accession}-beside"
    viewer.open()
    viewer.type("The first.")
    viewer.page.evaluate(BESIDE, viewer.reports.launch(other)["reportLink"])
    assert beside(viewer, "report_ready")["clinicalInfo"] == viewer.reports.identity(other)
    viewer.page.evaluate("actBeside('save_report')")
    assert beside(viewer, "report_saved")["clinicalInfo"] == viewer.reports.identity(other)
    viewer.act("sign_report")
    signed = viewer.event("report_signed")
    assert (signed["content"], signed["clinicalInfo"]) == ("The first.", viewer.reports.identity())
    viewer.event("report_status_changed")
    kinds = [each["type"] for each in viewer.page.evaluate("beside")]
    assert kinds == ["report_ready", "report_saved"]
    assert "report_saved" not in [each["type"] for each in viewer.events()]


def test_actions_that_are_sent_at_once_are_carried_out_in_order(viewer: Viewer) -> None:
    """Each finds the report as the one before left it; nobody waits for events in between."""
    viewer.open()
    viewer.type("Normal.")
    actions = ["sign_report", "create_addendum", "cancel_addendum", "unsign_report", "sign_report"]
    viewer.page.evaluate(
        "all => all.forEach(each => document.getElementById(each).click())", actions
    )
    viewer.event("report_signed", 1)
    viewer.event("report_status_changed", 2)
    told = [each["type"] for each in viewer.events() if each["type"].endswith(("ed", "failed"))]
    assert [each for each in told if "content" not in each and "status" not in each] == [
        "report_signed",
        "addendum_created",
        "addendum_cancelled",
        "report_unsigned",
        "report_signed",
    ]
    shown = [each["status"] for each in viewer.events("report_status_changed")]
    assert shown == ["FINAL", "DRAFT", "FINAL"]


def test_unknown_messages_are_ignored_and_bad_parameters_reported(viewer: Viewer) -> None:
    """Unknown actions and no actions at all change nothing; a wrong type is a missing value."""
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
        ("prelim_report", "missing_parameter"),
        ("prelim_report", "missing_parameter"),
        ("change_microphone", "missing_parameter"),
    ]
    assert len(viewer.events()) == 1 + len(failed) + 1


@pytest.mark.parametrize("gone", ["delete", "unassign"])
def test_actions_on_a_closed_report_are_refused(viewer: Viewer, gone: str) -> None:
    """Deleted or given back elsewhere: nothing is signed or saved through a page left open."""
    viewer.open()
    viewer.type("Seen.")
    viewer.act("save_report")
    viewer.event("report_saved")
    order = viewer.reports.identity()
    body = {"clinicalInfo": order} if gone == "delete" else order
    assert viewer.reports.api(gone, **body).is_success
    viewer.event("report_discarded" if gone == "delete" else "report_status_changed")
    expect(viewer.frame.locator(".ProseMirror[contenteditable=true]")).to_have_count(0)
    viewer.act("sign_report")
    assert viewer.event("action_failed")["action"] == "sign_report"
    assert viewer.events("report_signed") == []
    viewer.expected = "status of 40"  # what is refused
