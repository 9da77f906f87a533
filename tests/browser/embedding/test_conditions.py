"""Embedding with each kind of host, and a check that each kind has its conditions."""

import pytest

from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer

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
    partitioned = [each for each in jar if each.get("partitionKey")]
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
