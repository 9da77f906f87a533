"""A page of a host that is not allowed cannot frame a report, control it or get its events."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page
from typing_extensions import override

from tests.browser.embedding.conftest import Installed, viewing
from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer, ask, hosting, origin_of

pytestmark = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)

PAGE = b"""<!doctype html><meta charset=utf-8><title>foreign</title><body></body><script>
window.received = [];
addEventListener("message", (event) => window.received.push([event.origin, event.data]));
</script>"""


class ForeignPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    @override
    def log_message(self, format: str, *args: object) -> None:  # the library's name
        """Print nothing."""


@pytest.fixture
def foreign(installed: Installed) -> Iterator[Page]:
    """A page of a host that is not allowed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ForeignPage)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    context = installed.browser.new_context(ignore_https_errors=True)
    try:
        page = context.new_page()
        page.goto(f"http://foreign.localhost:{server.server_port}/")
        yield page
    finally:
        context.close()
        server.shutdown()
        server.server_close()
        serving.join()


def framed(page: Page, link: str, policy: str = "") -> None:
    page.evaluate(
        """([link, policy]) => new Promise(done => {
            const frame = document.createElement("iframe");
            frame.referrerPolicy = policy;
            frame.onload = done;
            frame.src = link;
            document.body.append(frame);
        })""",
        [link, policy],
    )


def refused(page: Page) -> bool:
    """True if the browser shows its error page in every frame."""
    return {frame.url for frame in page.frames[1:]} == {"chrome-error://chromewebdata/"}


def test_a_foreign_page_cannot_frame_the_report(viewer: Viewer, foreign: Page) -> None:
    """frame-ancestors blocks the frame, and the page gets no message."""
    framed(foreign, viewer.reports.launch()["reportLink"])
    viewer.until(lambda: refused(foreign))
    assert foreign.evaluate("received") == []


def test_a_foreign_opener_receives_no_messages(viewer: Viewer, foreign: Page) -> None:
    """A tab that a foreign page opened sends it no events and ignores its actions."""
    link = viewer.reports.launch()["reportLink"]
    with foreign.context.expect_page() as opening:
        foreign.evaluate("link => { window.tab = window.open(link); }", link)
    tab = opening.value
    tab.focus(".ProseMirror[contenteditable=true]")
    tab.keyboard.type("Ready to be signed.")
    foreign.evaluate("tab.postMessage({action: 'sign_report'}, '*')")
    tab.wait_for_timeout(1000)
    assert viewer.reports.record()["status"] == "Draft"
    assert foreign.evaluate("received") == []


def test_a_frame_beside_the_report_cannot_command(viewer: Viewer) -> None:
    """The report ignores actions of another frame of the host's page."""
    viewer.open()
    viewer.page.evaluate(
        """() => {
            const other = document.createElement("iframe");
            const sign = "parent.frames[0].postMessage({action: 'sign_report'}, '*')";
            other.srcdoc = `<script>${sign}</script>`;
            document.body.append(other);
        }"""
    )
    viewer.page.wait_for_timeout(1000)
    assert [event["type"] for event in viewer.events()] == ["report_ready"]


def test_without_configured_hosts_the_framing_host_is_pinned(installed: Installed) -> None:
    """For a site without configured hosts, the frame works with the host that frames it."""
    with hosting(site="OPEN") as host:
        host.app = installed.reports.url
        origin = origin_of(host).replace("viewer", "anywhere")
        with viewing(installed.browser, installed.reports, origin) as viewer:
            assert viewer.open()["clinicalInfo"]["SiteID"] == "OPEN"
            viewer.type("Seen.")
            viewer.act("sign_report")
            viewer.event("report_signed")


def test_the_login_is_never_framed(installed: Installed, foreign: Page) -> None:
    """A link that requires sign-in does not open in a frame."""
    engine = installed.reports
    body = {
        "clinicalInfo": engine.identity("LOGIN"),
        "reportingApp": {},
        "response": {"type": "link"},
    }
    launched = ask(engine.url, "/api/report/launch/clinical", body, token=engine.reader_token)
    framed(foreign, launched.json()["reportLink"])
    frame = foreign.frames[1]
    assert frame.url.startswith("chrome-error:") or "password" not in frame.content()


def test_framing_by_a_foreign_page_changes_nothing(viewer: Viewer, foreign: Page) -> None:
    """A lazy launch in a frame of a foreign page is not opened, with any referrer policy."""
    link = viewer.reports.launch(lazyLaunch=True)["reportLink"]
    for policy in ("no-referrer", "unsafe-url"):
        framed(foreign, link, policy)
    viewer.until(lambda: refused(foreign))
    order = viewer.reports.identity()
    assert viewer.reports.api("status", clinicalInfo=[order]).status_code == 404


def test_a_host_without_a_referrer_can_embed(viewer: Viewer) -> None:
    """Without a referrer the frame shows the waiting page first, and then the report."""
    viewer.page.evaluate("document.querySelector('#stage iframe').referrerPolicy = 'no-referrer'")
    viewer.page.click("#prewarm")
    viewer.frame.get_by_role("heading", name="Waiting for a study").wait_for()
    assert viewer.open()["status"] == "DRAFT"
    viewer.act("save_report")
    viewer.event("report_saved")
    jar = viewer.page.context.cookies()
    assert [bool(row.get("partitionKey")) for row in jar] == [True]
