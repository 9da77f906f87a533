"""The same work where browsers and hosts make it hard: without cookies, partitioned, isolated."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.embedding.conftest import viewing
from tests.browser.embedding.house import Viewer, free_port, hosting, reports


@pytest.fixture(scope="module")
def blocking_browser(start_browser: Callable[..., Browser]) -> Browser:
    """A browser that blocks third-party cookies."""
    return start_browser("--test-third-party-cookie-phaseout")


@pytest.fixture(
    params=["no cookies", "partitioned cookies", "blocked cookies", "isolated host"],
)
def condition(
    request: pytest.FixtureRequest, tmp_path: Path, browser: Browser, blocking_browser: Browser
) -> Iterator[tuple[str, Viewer]]:
    """The example host under each of the conditions."""
    kind: str = request.param
    port = free_port()
    secure = kind in ("partitioned cookies", "blocked cookies")
    using = blocking_browser if kind == "blocked cookies" else browser
    with (
        reports(tmp_path, [f"http://viewer.localhost:{port}"], secure=secure) as engine,
        hosting(engine.url, port, coep=kind == "isolated host"),
    ):
        for viewer in viewing(using, engine, port):
            yield kind, viewer


def test_prewarmed_opened_written_signed_and_loaded_again(condition: tuple[str, Viewer]) -> None:
    """Pre-warm says nothing; the study opens in the same frame, and survives its reload."""
    kind, viewer = condition
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
    frame = next(each for each in viewer.page.frames if "reports.localhost" in each.url)
    frame.evaluate("location.reload()")
    assert viewer.event("report_ready", 1)["status"] == "FINAL"
    jar = viewer.page.context.cookies()
    partitioned = [each for each in jar if each.get("partitionKey")]
    assert bool(partitioned) is (kind in ("partitioned cookies", "blocked cookies"))
    assert len(jar) == len(partitioned)
    assert viewer.page.evaluate("crossOriginIsolated") is (kind == "isolated host")


def test_a_launch_of_the_api_reaches_the_open_frame(condition: tuple[str, Viewer]) -> None:
    """Signing, releasing and unsigning by the API are the same events."""
    _, viewer = condition
    viewer.open()
    viewer.type("By the API.")
    viewer.act("save_report")
    viewer.event("report_saved")
    order = {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": "ACC-2001"}
    assert viewer.reports.api("sign", clinicalInfo=order).status_code == 200
    assert viewer.event("report_signed")["content"] == "By the API."
    assert viewer.reports.api("unsign", clinicalInfo=order).status_code == 200
    viewer.event("report_unsigned")
    signing = viewer.reports.api("sign", clinicalInfo=order, ignoreSignDelay=True)
    assert signing.status_code == 200
    viewer.event("report_finalized")
