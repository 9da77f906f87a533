"""Events and actions of the interface reference between two sites, for each kind of host."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer


def wait_for_content(viewer: Viewer, kind: str, content: str) -> None:
    """Wait for the event of the whole text; a pause of the keyboard saves a part of it first."""

    def has_content() -> bool:
        return viewer.events(kind)[-1:] != [] and viewer.events(kind)[-1]["content"] == content

    viewer.until(has_content, kind)


def test_a_report_from_ready_to_addendum(viewer: Viewer) -> None:
    """Each action of a report is followed by its events with their payloads."""
    ready = viewer.open()
    assert ready["status"] == "DRAFT"
    assert ready["clinicalInfo"] == viewer.reports.identity()
    viewer.type("Normal chest.")
    viewer.act("save_report")
    viewer.event("report_saved")
    wait_for_content(viewer, "report_content_updated", "Normal chest.")
    viewer.act("prelim_report")
    assert viewer.event("report_status_changed")["status"] == "PRELIMINARY"
    viewer.act("sign_report")
    signed = viewer.event("report_signed")
    assert (signed["content"], signed["html_content"]) == (
        "Normal chest.",
        "<p>Normal chest.</p>\n",
    )
    assert signed["signedAt"].endswith("Z")
    assert viewer.event("report_status_changed", 1)["status"] == "FINAL"
    viewer.act("unsign_report")
    viewer.event("report_unsigned")
    assert viewer.event("report_status_changed", 2)["status"] == "PRELIMINARY"
    viewer.act("sign_report")
    viewer.event("report_signed", 1)
    viewer.act("create_addendum")
    viewer.event("addendum_created")
    viewer.act("cancel_addendum")
    viewer.event("addendum_cancelled")
    kinds = [row["type"] for row in viewer.events()]
    assert kinds[0] == "report_ready"
    for event in viewer.events():
        assert event["reportId"] == ready["reportId"]
        assert event["clinicalInfo"] == viewer.reports.identity()
    assert viewer.reports.record()["userEmail"] == viewer.reports.reader


def test_an_addendum_from_draft_to_release(viewer: Viewer) -> None:
    """An addendum is written, signed, recalled, signed again and released by the API."""
    viewer.open()
    viewer.type("Normal.")
    viewer.act("sign_report")
    viewer.event("report_signed")
    viewer.act("create_addendum")
    viewer.event("addendum_created")
    box = viewer.frame.locator(".ProseMirror[contenteditable=true]").last
    box.click()
    viewer.page.keyboard.type("Compared with 2024.")
    viewer.act("save_report")
    wait_for_content(viewer, "addendum_content_updated", "Compared with 2024.")
    kinds = [event["type"] for event in viewer.events()]
    assert kinds[kinds.index("addendum_content_updated") - 1] == "report_content_updated"
    assert viewer.events("report_content_updated")[-1]["content"] == "Normal."
    viewer.act("sign_addendum")
    signed = viewer.event("addendum_signed")
    assert (signed["content"], signed["html_content"]) == (
        "Compared with 2024.",
        "<p>Compared with 2024.</p>\n",
    )
    assert viewer.events("report_status_changed")[-1]["status"] == "ADDENDUM"
    viewer.act("unsign_addendum")
    viewer.event("addendum_unsigned")
    viewer.act("sign_addendum")
    viewer.event("addendum_signed", 1)
    released = viewer.reports.api(
        "addendum/sign", clinicalInfo=viewer.reports.identity(), ignoreSignDelay=True
    )
    assert released.status_code == 200
    viewer.event("addendum_finalized")


def test_brackets_microphones_and_refusals(viewer: Viewer) -> None:
    """The host moves between brackets, lists and changes microphones, and gets action_failed."""
    viewer.open()
    viewer.type("Size [mm] of [side].")
    viewer.page.keyboard.press("Control+Home")
    for action, bracket in (
        ("select_next_bracket", "[mm]"),
        ("select_next_bracket", "[side]"),
        ("select_prev_bracket", "[mm]"),
    ):
        viewer.act(action)
        viewer.until(lambda wanted=bracket: viewer.selected() == wanted, what=bracket)  # type: ignore[misc]
    viewer.frame.locator("#text").press("3")
    expect(viewer.frame.locator("#text")).to_have_text("Size 3 of [side].")
    viewer.act("get_microphone_devices")
    devices = viewer.event("microphone_devices")["devices"]
    assert sum(device["isActive"] for device in devices) == 1
    other = next(device for device in devices if not device["isActive"])
    viewer.page.fill("#deviceId", other["deviceId"])
    viewer.act("change_microphone")
    viewer.act("get_microphone_devices")
    again = viewer.event("microphone_devices", 1)["devices"]
    assert [message["deviceId"] for message in again if message["isActive"]] == [other["deviceId"]]
    assert viewer.events("action_failed") == []
    viewer.act("unsign_report")
    failed = viewer.event("action_failed")
    assert (failed["action"], failed["code"]) == ("unsign_report", "not_signed")
    viewer.page.fill("#deviceId", "nowhere")
    viewer.act("change_microphone")
    assert viewer.event("action_failed", 1)["code"] == "unknown_device"
    viewer.expected = "status of 500"  # for not_signed


def test_billing_codes(viewer: Viewer) -> None:
    """billing_code_generated has cpt or null, and all icd10 codes, by the site's map."""
    code_map = "system,match,code,description\nicd10,nodule,R91.1,Solitary pulmonary nodule\n"
    viewer.reports.administer("code-map", csv=code_map)
    viewer.open()
    viewer.type("Nodule in the left lung.")
    viewer.frame.locator("#room-outside").click()
    viewer.frame.locator("#codes-make").click()
    found = {"Code": "R91.1", "Description": "Solitary pulmonary nodule"}
    generated = viewer.event("billing_code_generated")
    assert generated["billingCode"] == {"cpt": None, "icd10": [found]}
    code_map += "cpt,CT Chest,71250,CT chest\n"
    viewer.reports.administer("code-map", csv=code_map)
    named = {**viewer.reports.identity(), "StudyDescription": "CT Chest"}
    viewer.reports.launch(clinicalInfo=named)
    viewer.frame.locator("#codes-make").click()
    cpt = {"Code": "71250", "Description": "CT chest"}
    again = viewer.event("billing_code_generated", 1)
    assert again["billingCode"] == {"cpt": cpt, "icd10": [found]}


def test_a_deletion_by_the_api_closes_the_report(viewer: Viewer) -> None:
    """After a deletion by the API, the frame sends report_discarded and closes the report."""
    viewer.open()
    assert viewer.reports.api("delete", clinicalInfo=viewer.reports.identity()).status_code == 200
    viewer.event("report_discarded")
    viewer.frame.locator(".ProseMirror").wait_for(state="detached")
    viewer.expected = "status of 404"  # a request at the moment of the deletion


def test_an_unassignment_by_the_api_sends_an_event(viewer: Viewer) -> None:
    """A status change by the API sends report_status_changed."""
    viewer.open()
    assert viewer.reports.api("unassign", **viewer.reports.identity()).status_code == 200
    assert viewer.event("report_status_changed")["status"] == "ORDERED"


ALL_KINDS = pytest.mark.parametrize("kind", list(HostKind), indirect=True)
PLANT = """() => {
    document.cookie = "probe=1; Secure; SameSite=None; Path=/";
    return document.cookie.includes("probe=1");
}"""


@ALL_KINDS
def test_a_report_from_prewarm_to_reload(viewer: Viewer, kind: HostKind) -> None:
    """A prewarmed frame sends no events, opens the study, and shows it again after a reload."""
    viewer.page.click("#prewarm")
    viewer.frame.get_by_role("heading", name="Waiting for a study").wait_for()
    viewer.act("save_report")
    viewer.page.wait_for_timeout(300)
    assert viewer.events() == []
    assert viewer.open()["status"] == "DRAFT"
    viewer.type("Seen.")
    viewer.act("save_report")
    viewer.event("report_saved")
    viewer.act("sign_report")
    assert viewer.event("report_signed")["content"] == "Seen."
    viewer.inside().evaluate("location.reload()")
    assert viewer.event("report_ready", 1)["status"] == "FINAL"
    jar = viewer.page.context.cookies()
    partitioned = [row for row in jar if row.get("partitionKey")]
    assert bool(partitioned) is kind.secure
    assert len(jar) == len(partitioned)


@ALL_KINDS
def test_each_kind_has_its_conditions(viewer: Viewer, kind: HostKind) -> None:
    """
    A frame keeps its cookie and that of its site in a tab, except with blocked third-party cookies.

    A cross-origin isolated host is isolated.
    """
    tab = viewer.page.context.new_page()
    tab.goto(viewer.reports.launch()["reportLink"])
    tab.evaluate("document.cookie = 'early=1; Secure; SameSite=None; Path=/'")
    viewer.open()
    frame = viewer.inside()
    keeps = kind is not HostKind.BLOCKED
    assert ("early=1" in frame.evaluate("document.cookie")) is keeps
    assert frame.evaluate(PLANT) is keeps
    assert frame.evaluate("document.hasStorageAccess()") is keeps
    assert viewer.page.evaluate("crossOriginIsolated") is (kind is HostKind.ISOLATED)


@ALL_KINDS
def test_actions_of_the_api_send_events_to_the_frame(viewer: Viewer) -> None:
    """Signing, unsigning and releasing by the API send the same events."""
    viewer.open()
    viewer.type("By the API.")
    viewer.act("save_report")
    viewer.event("report_saved")
    order = viewer.reports.identity()
    assert viewer.reports.api("sign", clinicalInfo=order).status_code == 200
    assert viewer.event("report_signed")["content"] == "By the API."
    assert viewer.reports.api("unsign", clinicalInfo=order).status_code == 200
    viewer.event("report_unsigned")
    signing = viewer.reports.api("sign", clinicalInfo=order, ignoreSignDelay=True)
    assert signing.status_code == 200
    viewer.event("report_finalized")


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
        found[:] = [row for row in viewer.page.evaluate("second") if row["type"] == kind]
        return bool(found)

    viewer.until(has_arrived, what=kind)
    return found[0]


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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
    kinds = [row["type"] for row in viewer.page.evaluate("second")]
    assert kinds == ["report_ready", "report_saved"]
    assert "report_saved" not in [event["type"] for event in viewer.events()]


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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
    kinds = [event["type"] for event in viewer.events() if event["type"].endswith(("ed", "failed"))]
    assert [kind for kind in kinds if "content" not in kind and "status" not in kind] == [
        "report_signed",
        "addendum_created",
        "addendum_cancelled",
        "report_unsigned",
        "report_signed",
    ]
    shown = [event["status"] for event in viewer.events("report_status_changed")]
    assert shown == ["FINAL", "DRAFT", "FINAL"]


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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
    failed = [(event["action"], event["code"]) for event in viewer.events("action_failed")]
    assert failed == [
        ("SAVE_REPORT", "not_available"),
        ("__proto__", "not_available"),
        ("prelim_report", "missing_parameter"),
        ("prelim_report", "missing_parameter"),
        ("change_microphone", "missing_parameter"),
    ]
    assert len(viewer.events()) == 1 + len(failed) + 1


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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
    other = next(device for device in devices if not device["isActive"])
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
