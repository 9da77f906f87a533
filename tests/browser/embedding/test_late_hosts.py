"""Hosts whose script comes after the report, and frames that never show a page of the app."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.embedding.conftest import Installed
from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer, origin_of

pytestmark = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)

ALLOW = "microphone; screen-wake-lock; clipboard-read; clipboard-write; hid"
SHOW = """([link, allow]) => {
    window.raw = [];
    addEventListener("message", (event) => raw.push(event.data.type));
    document.body.replaceChildren(Object.assign(document.createElement("iframe"), { allow }));
    document.querySelector("iframe").style = "width: 900px; height: 600px";
    if (link) document.querySelector("iframe").src = link;
}"""
CONNECT = """([app]) => import(`${app}/reporting/host-sdk/index.js`).then(({ connect }) => {
    window.heard = [];
    window.report = connect(document.querySelector("iframe"), { origin: app });
    report.on("*", (event) => heard.push(event));
})"""
NEXT = """(kind) => report.next(kind).then(
    ({ type, clinicalInfo, status }) => ({ type, accession: clinicalInfo.Accession, status }),
    (problem) => ({ code: problem.code, message: problem.message }))"""


@dataclass(frozen=True)
class PlainHost:
    """A host's page with a frame in its HTML; `raw` are the events that a plain listener gets."""

    page: Page
    app: str

    def show(self, link: str, origin: str) -> None:
        """Open a page of an origin, with a frame that shows a link, and no SDK."""
        self.page.goto(origin)
        self.page.wait_for_selector("body[data-ready]")
        self.page.evaluate(SHOW, [link, ALLOW])

    def connect(self) -> None:
        """Load the SDK and connect it to the frame."""
        self.page.evaluate(CONNECT, [self.app])

    def next(self, kind: str = "report_ready") -> dict[str, Any]:
        """Return the next event, or the code and message of the rejection."""
        result: dict[str, Any] = self.page.evaluate(NEXT, kind)
        return result

    def wait_for_text(self) -> None:
        """Wait until the frame shows the report and the plain listener has its first event."""
        text = self.page.frame_locator("iframe").locator(".ProseMirror").first
        expect(text).to_be_visible()
        self.page.wait_for_function("raw.includes('report_ready')")

    def heard(self) -> list[str]:
        """Return the kinds of events that the SDK has delivered."""
        kinds: list[str] = self.page.evaluate("heard.map(event => event.type)")
        return kinds


@pytest.fixture
def host(viewer: Viewer) -> PlainHost:
    viewer.expected = "postMessage"  # the browser logs a request to a page of another origin
    return PlainHost(viewer.page, viewer.reports.url)


def test_a_host_that_connects_late_gets_report_ready_once(
    host: PlainHost, viewer: Viewer, installed: Installed
) -> None:
    """Also a later handler; a listener without the SDK gets no event twice."""
    host.show(viewer.reports.launch()["reportLink"], origin_of(installed.host))
    host.wait_for_text()
    host.connect()
    ready = {"type": "report_ready", "accession": viewer.reports.accession, "status": "DRAFT"}
    both = f"Promise.all([0, 1].map(() => ({NEXT})('report_ready')))"
    assert host.page.evaluate(both) == [ready, ready]
    host.page.evaluate("report.send('save_report')")
    host.page.wait_for_function("raw.includes('report_saved')")
    assert host.heard() == ["report_ready", "report_saved"]
    assert host.page.evaluate("raw") == ["report_ready", "report_saved"]


def test_a_late_host_gets_the_present_status(
    host: PlainHost, viewer: Viewer, installed: Installed
) -> None:
    """A report that was signed meanwhile is FINAL; a second connection gets the event too."""
    host.show(viewer.reports.launch()["reportLink"], origin_of(installed.host))
    host.wait_for_text()
    viewer.reports.api("sign", clinicalInfo=viewer.reports.identity(), ignoreSignDelay=True)
    host.page.wait_for_function("raw.includes('report_status_changed')")
    for _connection in range(2):
        host.connect()
        assert host.next()["status"] == "FINAL"
        assert host.heard() == ["report_ready"]


def test_a_connection_made_before_the_page_gets_report_ready_once(
    host: PlainHost, viewer: Viewer, installed: Installed
) -> None:
    """From an empty frame over a pre-warmed session to the report, and after a reload."""
    host.show("", origin_of(installed.host))
    host.connect()
    host.page.evaluate(
        "window.first = null; void report.next('report_ready').then(event => { first = event })"
    )
    user = {"UserEmail": viewer.reports.reader, "UserName": "Rea Der"}
    session = viewer.reports.api("init", clinicalInfo={"SiteID": "SITE1"}, userInfo=user).json()
    host.page.evaluate("link => report.load(link)", session["sessionLink"])
    assert host.page.evaluate("raw") == []  # a pre-warmed session sends no event
    host.page.evaluate("link => report.load(link)", viewer.reports.launch()["reportLink"])
    host.page.wait_for_function("first !== null")
    host.wait_for_text()
    host.page.evaluate("report.send('save_report')")
    host.page.wait_for_function("raw.includes('report_saved')")
    assert host.heard() == ["report_ready", "report_saved"]
    viewer.inside().evaluate("location.reload()")
    assert host.next()["accession"] == viewer.reports.accession
    assert host.heard() == ["report_ready", "report_saved", "report_ready"]


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and answers nothing; yields its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://reports.localhost:{listener.getsockname()[1]}/reporting/launch-report/clinical"


@pytest.mark.parametrize("fault", ["not a host origin", "refused", "silent", "no such link"])
def test_without_a_page_of_the_app_the_promises_reject(
    host: PlainHost, viewer: Viewer, installed: Installed, fault: str
) -> None:
    """`load` and `next` reject within ten seconds, whatever the browser shows in the frame."""
    viewer.expected = ""  # the browser logs the blocked page
    with contextlib.ExitStack() as stack:
        origin = origin_of(installed.host)
        if fault == "not a host origin":
            origin = origin.replace("viewer", "foreign")
            link = viewer.reports.launch()["reportLink"]
        elif fault == "refused":
            link = "http://reports.localhost:1/reporting/launch-report/clinical?token=x"
        elif fault == "silent":
            link = stack.enter_context(silent_server())
        else:
            link = f"{host.app}/reporting/launch-report/clinical?token=none"
        host.show("", origin)
        host.connect()
        script = """link => {
            const started = performance.now();
            const seen = report.next("report_ready").then(() => "ready", (p) => p.code);
            const loaded = report.load(link).then(() => "there", (p) => p.message);
            return Promise.all([seen, loaded]).then((all) => [...all, performance.now() - started]);
        }"""
        code, message, took = host.page.evaluate(script, link)
        assert code == "no_page"
        assert message.startswith("No page of the reporting app answered within 8 s")
        assert took < 10_000  # the limit that the guide names
        host.page.evaluate("link => void report.load(link)", viewer.reports.launch()["reportLink"])
        if fault != "not a host origin":
            assert host.next()["type"] == "report_ready"
