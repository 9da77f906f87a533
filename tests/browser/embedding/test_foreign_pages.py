"""A page of a host that is not allowed cannot frame, command or listen."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page
from typing_extensions import override

from tests.browser.embedding.conftest import Installed, viewing
from tests.browser.embedding.house import Viewer, ask, hosting, origin_of
from tests.browser.embedding.kinds import HostKind

pytestmark = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)

PAGE = b"""<!doctype html><meta charset=utf-8><title>stranger</title><body></body><script>
window.heard = [];
addEventListener("message", (event) => window.heard.push([event.origin, event.data]));
</script>"""


class Stranger(BaseHTTPRequestHandler):
    """A page that listens."""

    def do_GET(self) -> None:
        """Serve it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    @override
    def log_message(self, format: str, *args: object) -> None:  # the library's name
        """Say nothing."""


@pytest.fixture
def stranger(installed: Installed) -> Iterator[Page]:
    """A page of a site that nobody has allowed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    context = installed.browser.new_context(ignore_https_errors=True)
    try:
        page = context.new_page()
        page.goto(f"http://stranger.localhost:{server.server_port}/")
        yield page
    finally:
        context.close()
        server.shutdown()
        server.server_close()
        serving.join()


def framed(page: Page, link: str, policy: str = "") -> None:
    """Load a link into a frame, with a referrer policy."""
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
    """Tell whether the browser shows its own page in every frame."""
    return {each.url for each in page.frames[1:]} == {"chrome-error://chromewebdata/"}


def test_a_foreign_page_cannot_frame_the_report(viewer: Viewer, stranger: Page) -> None:
    """frame-ancestors of the site: nothing of the report is in the frame, and nothing is sent."""
    framed(stranger, viewer.reports.launch()["reportLink"])
    viewer.until(lambda: refused(stranger))
    assert stranger.evaluate("heard") == []


def test_a_foreign_opener_receives_no_messages(viewer: Viewer, stranger: Page) -> None:
    """A tab that a stranger opened says nothing to it, and does not do what it says."""
    link = viewer.reports.launch()["reportLink"]
    with stranger.context.expect_page() as opening:
        stranger.evaluate("link => { window.tab = window.open(link); }", link)
    tab = opening.value
    tab.focus(".ProseMirror[contenteditable=true]")
    tab.keyboard.type("Ready to be signed.")
    stranger.evaluate("tab.postMessage({action: 'sign_report'}, '*')")
    tab.wait_for_timeout(1000)
    assert viewer.reports.record()["status"] == "Draft"
    assert stranger.evaluate("heard") == []


def test_a_frame_beside_the_report_cannot_command(viewer: Viewer) -> None:
    """Neither another frame of the host's page, nor the report's own frames, are the host."""
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
    assert [each["type"] for each in viewer.events()] == ["report_ready"]


def test_without_configured_hosts_the_framing_one_is_pinned(installed: Installed) -> None:
    """A site that has not said who its hosts are: the frame speaks to whoever frames it, only."""
    with hosting(site="OPEN") as host:
        host.app = installed.reports.url
        origin = origin_of(host).replace("viewer", "anywhere")
        with viewing(installed.browser, installed.reports, origin) as viewer:
            assert viewer.open()["clinicalInfo"]["SiteID"] == "OPEN"
            viewer.type("Seen.")
            viewer.act("sign_report")
            viewer.event("report_signed")


def test_the_login_is_never_framed(installed: Installed, stranger: Page) -> None:
    """A link that needs a login does not open in a frame, whoever frames it."""
    engine = installed.reports
    body = {
        "clinicalInfo": engine.identity("LOGIN"),
        "reportingApp": {},
        "response": {"type": "link"},
    }
    launched = ask(engine.url, "/api/report/launch/clinical", body, token=engine.reader_token)
    framed(stranger, launched.json()["reportLink"])
    frame = stranger.frames[1]
    assert frame.url.startswith("chrome-error:") or "password" not in frame.content()


def test_framing_by_a_foreign_page_changes_nothing(viewer: Viewer, stranger: Page) -> None:
    """A lazy launch that a stranger frames is not opened, under whatever referrer."""
    link = viewer.reports.launch(lazyLaunch=True)["reportLink"]
    for policy in ("no-referrer", "unsafe-url"):
        framed(stranger, link, policy)
    viewer.until(lambda: refused(stranger))
    order = viewer.reports.identity()
    assert viewer.reports.api("status", clinicalInfo=[order]).status_code == 404


def test_a_host_that_says_nothing_of_itself_still_embeds(viewer: Viewer) -> None:
    """Without a referrer the browser shows a page of ours first, and the report then."""
    viewer.page.evaluate("document.querySelector('#stage iframe').referrerPolicy = 'no-referrer'")
    viewer.page.click("#prewarm")
    viewer.frame.get_by_role("heading", name="Waiting for a study").wait_for()
    assert viewer.open()["status"] == "DRAFT"
    viewer.act("save_report")
    viewer.event("report_saved")
    jar = viewer.page.context.cookies()
    assert [bool(each.get("partitionKey")) for each in jar] == [True]
