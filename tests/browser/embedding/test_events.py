"""Every event and action of the interface document, between two sites."""

from tests.browser.embedding.house import Viewer, identity


def test_a_report_from_ready_to_addendum(viewer: Viewer) -> None:
    """Each action of the report and the events that follow, with their payloads."""
    ready = viewer.open()
    assert ready["status"] == "DRAFT"
    assert ready["clinicalInfo"] == identity()
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
    assert {each["reportId"] for each in viewer.events()} == {ready["reportId"]}
