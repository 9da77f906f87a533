"""Events and actions of the interface reference between two sites, for each kind of host."""

from playwright.sync_api import expect

from tests.browser.embedding.origins import Viewer


def test_a_report_from_ready_to_addendum(viewer: Viewer) -> None:
    """Each action of a report is followed by its events with their payloads."""
    ready = viewer.open()
    assert ready["status"] == "DRAFT"
    assert ready["clinicalInfo"] == viewer.reports.identity()
    viewer.type("Normal chest.")
    viewer.act("save_report")
    viewer.event("report_saved")
    assert viewer.event("report_content_updated")["content"] == "Normal chest."
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
    kinds = [each["type"] for each in viewer.events()]
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
    updated = viewer.event("addendum_content_updated")
    assert updated["content"] == "Compared with 2024."
    kinds = [each["type"] for each in viewer.events()]
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
    assert sum(each["isActive"] for each in devices) == 1
    other = next(each for each in devices if not each["isActive"])
    viewer.page.fill("#deviceId", other["deviceId"])
    viewer.act("change_microphone")
    viewer.act("get_microphone_devices")
    again = viewer.event("microphone_devices", 1)["devices"]
    assert [each["deviceId"] for each in again if each["isActive"]] == [other["deviceId"]]
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
