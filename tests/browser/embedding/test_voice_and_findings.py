"""The recorder and the key findings, controlled by a host of another site."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer

RECOGNIZER = """
window.SpeechRecognition = class { start() {} stop() { this.onend?.(); } };
"""
FINDINGS = "Lungs: Nodule of 4 mm.\nHeart: enlarged"


def with_findings(viewer: Viewer) -> dict[str, Any]:
    """Register an order with key findings, open it, and type a text with their headings."""
    tags = {**viewer.reports.identity(), "KeyFindings": FINDINGS}
    viewer.reports.launch(clinicalInfo=tags, lazyLaunch=True, registerOrder=True)
    opened = viewer.open()
    viewer.type("x")
    viewer.page.keyboard.press("Control+a")
    viewer.page.keyboard.type("Findings:\nLungs:\nHeart:\nImpression:")
    return opened


def test_the_recorder_goes_on_and_off(viewer: Viewer) -> None:
    """toggle_recorder sends recorder_on and recorder_off; a new microphone restarts it."""
    viewer.page.add_init_script(RECOGNIZER)
    viewer.open()
    viewer.act("toggle_recorder")
    assert viewer.event("recorder_on")["clinicalInfo"] == viewer.reports.identity()
    viewer.act("get_microphone_devices")
    devices = viewer.event("microphone_devices")["devices"]
    other = next(each for each in devices if not each["isActive"])
    viewer.page.fill("#deviceId", other["deviceId"])
    viewer.act("change_microphone")
    viewer.event("recorder_off")
    viewer.event("recorder_on", 1)
    viewer.act("toggle_recorder")
    viewer.event("recorder_off", 1)
    assert viewer.events("action_failed") == []


@pytest.mark.parametrize("keep", [True, False])
def test_findings_are_suggestions_until_the_user_decides(viewer: Viewer, keep: bool) -> None:
    """apply_report_ai inserts suggestions once, unsigned; the user keeps or removes them."""
    with_findings(viewer)
    viewer.act("apply_report_ai")
    marks = viewer.frame.locator("#text .suggested")
    expect(marks).to_have_text(["Nodule of 4 mm.", "enlarged"])
    viewer.act("apply_report_ai")
    assert viewer.event("action_failed")["code"] == "nothing_new"
    viewer.frame.locator("#keep-all" if keep else "#remove-all").click()
    expect(marks).to_have_count(0)
    lines = ["Findings:", "Lungs:", "Heart:", "Impression:"]
    if keep:
        lines[2:2], lines[4:4] = ["Nodule of 4 mm."], ["enlarged"]
    expect(viewer.frame.locator("#text p")).to_have_text(lines)
    assert viewer.events("report_signed") == []


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
def test_a_signed_report_has_no_suggestions(viewer: Viewer) -> None:
    """The page of a signed report does not offer to keep or remove suggestions."""
    with_findings(viewer)
    viewer.act("apply_report_ai")
    viewer.frame.locator("#keep-all").wait_for()
    viewer.act("save_report")
    viewer.event("report_saved")
    assert viewer.reports.api("sign", clinicalInfo=viewer.reports.identity()).is_success
    viewer.event("report_signed")
    expect(viewer.frame.locator("#keep-all")).to_have_count(0)


def test_without_findings_the_action_fails(viewer: Viewer) -> None:
    """apply_report_ai without key findings fails with no_findings."""
    viewer.open()
    viewer.act("apply_report_ai")
    failed = viewer.event("action_failed")
    assert (failed["action"], failed["code"]) == ("apply_report_ai", "no_findings")
