"""The same work where browsers and hosts make it hard, and that they really do make it hard."""

import pytest

from tests.browser.embedding.house import Viewer
from tests.browser.embedding.kinds import HostKind

EVERY_KIND = pytest.mark.parametrize("kind", list(HostKind), indirect=True)
PLANT = """() => {
    document.cookie = "probe=1; Secure; SameSite=None; Path=/";
    return document.cookie.includes("probe=1");
}"""


@EVERY_KIND
def test_prewarmed_opened_written_signed_and_loaded_again(viewer: Viewer, kind: HostKind) -> None:
    """Pre-warm says nothing; the study opens in the same frame, and survives its reload."""
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
    partitioned = [each for each in jar if each.get("partitionKey")]
    assert bool(partitioned) is kind.secure
    assert len(jar) == len(partitioned)


@EVERY_KIND
def test_the_conditions_are_what_they_are_called(viewer: Viewer, kind: HostKind) -> None:
    """
    A frame's cookie is kept, and refused where third-party cookies are blocked.

    So is the one that its site got before in a tab. A cross-origin isolated host is isolated.
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


@EVERY_KIND
def test_a_launch_of_the_api_reaches_the_open_frame(viewer: Viewer) -> None:
    """Signing, releasing and unsigning by the API are the same events."""
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
