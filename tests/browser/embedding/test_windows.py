"""Ownership, SyncLaunch, inactivity, tabs and WebView2."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.embedding.conftest import Installed
from tests.browser.embedding.kinds import HostKind
from tests.browser.embedding.origins import Viewer, origin_of

WITH_OPENERS = pytest.mark.parametrize("kind", [HostKind.PLAIN, HostKind.BLOCKED], indirect=True)
"""Browsers disconnect a cross-origin isolated page from windows that it opens."""
ONE_KIND = pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
"""For behaviour in a separate tab, where nothing is third-party."""
OTHER = {"UserEmail": "otto@site1.test", "UserName": "Otto Ther"}


def test_the_transfer_prompt_sends_events(viewer: Viewer) -> None:
    """The host gets an event for Cancel and for Proceed; the report opens after Proceed."""
    viewer.reports.launch(user=OTHER)
    viewer.study()
    viewer.page.click("#open")
    assert viewer.event("report_transfer_requested")["ownerName"] == "Otto Ther"
    viewer.frame.get_by_role("heading", name="This draft belongs to another user").wait_for()
    viewer.frame.locator("#cancel").click()
    cancelled = viewer.event("report_transfer_cancelled")
    assert cancelled["clinicalInfo"] == viewer.reports.identity()
    assert [event["type"] for event in viewer.events()] == [
        "report_transfer_requested",
        "report_transfer_cancelled",
    ]
    viewer.page.click("#open")
    viewer.frame.locator("#proceed").click()
    viewer.event("report_transfer_proceeded")
    assert viewer.event("report_ready")["status"] == "DRAFT"


def test_a_cancelled_transfer_lets_the_user_read(viewer: Viewer) -> None:
    """After Cancel the report can be read; nothing in it can be changed or signed."""
    viewer.reports.launch(user=OTHER)
    viewer.study()
    viewer.page.click("#open")
    viewer.frame.locator("#cancel").click()
    viewer.frame.locator("#read-only").click()
    assert viewer.event("report_ready")["status"] == "DRAFT"
    viewer.frame.locator("#not-owner").wait_for()
    assert viewer.frame.locator("#text").get_attribute("contenteditable") == "false"
    assert viewer.frame.locator("#sign:visible").count() == 0


def test_the_transfer_prompt_refuses_actions(viewer: Viewer) -> None:
    """At the prompt an action fails with not_open; a deletion closes the prompt."""
    viewer.reports.launch(user=OTHER)
    viewer.study()
    viewer.page.click("#open")
    viewer.frame.locator("#proceed").wait_for()
    viewer.act("sign_report")
    assert viewer.event("action_failed")["code"] == "not_open"
    assert viewer.reports.api("delete", clinicalInfo=viewer.reports.identity()).is_success
    viewer.event("report_discarded")
    viewer.frame.get_by_role("heading", name="The report is closed").wait_for()
    # The browser prints the 404 of a request at the moment of the deletion.
    viewer.expected = "Failed to load resource"


def test_report_transferred_names_the_new_owner(viewer: Viewer, installed: Installed) -> None:
    """A launch with forceOwnershipTransfer sends report_transferred to the previous editor."""
    viewer.open()
    viewer.type("Mine so far.")
    viewer.act("save_report")
    viewer.event("report_saved")
    taken = viewer.reports.launch(user={**OTHER, "forceOwnershipTransfer": True})
    page = installed.browser.new_page(ignore_https_errors=True)
    page.goto(taken["reportLink"])
    page.wait_for_selector(".ProseMirror")
    assert viewer.event("report_transferred")["newOwnerName"] == "Otto Ther"
    assert "Mine so far." in page.inner_text(".ProseMirror")
    page.context.close()


def study(viewer: Viewer, number: int) -> str:
    return f"{viewer.reports.accession}-{number}"


def persistent(viewer: Viewer) -> Page:
    viewer.study(study(viewer, 1), sync=True)
    with viewer.page.context.expect_page() as opening:
        viewer.page.click("#open-window")
    tab = opening.value
    tab.wait_for_selector(".ProseMirror")
    assert viewer.event("report_ready")["clinicalInfo"]["Accession"] == study(viewer, 1)
    return tab


def launch_only(viewer: Viewer, number: int) -> list[str]:
    viewer.study(study(viewer, number), sync=True)
    viewer.page.evaluate("delete document.getElementById('launch-only').dataset.warnings")
    viewer.page.click("#launch-only")
    viewer.page.wait_for_selector("#launch-only[data-warnings]")
    text = viewer.page.get_attribute("#launch-only", "data-warnings")
    warnings: list[str] = json.loads(text or "[]")
    return warnings


@WITH_OPENERS
def test_a_persistent_window_saves_and_follows(viewer: Viewer) -> None:
    """SyncLaunch: the window saves its text, shows the new study, and sends its events."""
    tab = persistent(viewer)
    tab.click(".ProseMirror")
    tab.keyboard.type("Typed just now.")
    assert launch_only(viewer, 2) == []
    assert viewer.event("report_ready", 1)["clinicalInfo"]["Accession"] == study(viewer, 2)
    launched = viewer.reports.launch(study(viewer, 1))
    assert launched["status"] == "Draft"
    tab.goto(launched["reportLink"])
    tab.get_by_text("Typed just now.").wait_for()


@pytest.mark.parametrize("kind", [HostKind.ISOLATED], indirect=True)
def test_the_window_of_an_isolated_host_follows(viewer: Viewer) -> None:
    """A window without opener (Cross-Origin-Opener-Policy) follows, but cannot send events."""
    viewer.study(study(viewer, 1), sync=True)
    with viewer.page.context.expect_page() as opening:
        viewer.page.click("#open-window")
    tab = opening.value
    tab.wait_for_selector(".ProseMirror")
    assert tab.evaluate("opener === null")
    assert launch_only(viewer, 2) == []
    tab.get_by_text(study(viewer, 2), exact=True).first.wait_for()
    assert viewer.events() == []


@ONE_KIND
def test_a_persistent_window_that_cannot_save_stays(viewer: Viewer) -> None:
    """The window shows a banner and the launch has a warning; it follows after a save."""
    tab = persistent(viewer)
    viewer.errors.clear()
    tab.route("**/session/save", lambda route: route.abort())
    tab.click(".ProseMirror")
    tab.keyboard.type("Cannot be saved.")
    assert launch_only(viewer, 2) == ["sync_refused"]
    tab.get_by_role("alert").get_by_text(study(viewer, 2)).wait_for()
    assert tab.inner_text(".ProseMirror").startswith("Cannot be saved.")
    tab.unroute("**/session/save")
    tab.get_by_role("button", name="Go there now").click()
    assert viewer.event("report_ready", 1)["clinicalInfo"]["Accession"] == study(viewer, 2)


@ONE_KIND
def test_an_offline_window_catches_up(viewer: Viewer) -> None:
    """A window that was offline follows the newest launch when it is online again."""
    tab = persistent(viewer)
    tab.context.set_offline(True)
    viewer.reports.launch(study(viewer, 2), app={"SyncLaunch": True})
    viewer.reports.launch(study(viewer, 3), app={"SyncLaunch": True})
    tab.context.set_offline(False)
    viewer.until(lambda: len(viewer.events("report_ready")) > 1, "the newest launch")
    assert viewer.events("report_ready")[1]["clinicalInfo"]["Accession"] == study(viewer, 3)


@ONE_KIND
def test_a_frame_does_not_follow_by_default(viewer: Viewer) -> None:
    """SyncLaunch inside an embedded frame is disabled by default."""
    viewer.open(study(viewer, 1), sync=True)
    assert launch_only(viewer, 2) == []
    viewer.page.wait_for_timeout(1000)
    assert len(viewer.events("report_ready")) == 1


def test_inactivity_saves_and_signs_out(viewer: Viewer) -> None:
    """The page warns a minute before, saves and signs out; user_activity of the host delays it."""
    viewer.page.clock.install()
    viewer.open()
    viewer.type("Kept.")
    with viewer.page.expect_request("**/session/activity"):
        viewer.page.clock.fast_forward("00:31")
    viewer.page.clock.fast_forward("28:29")
    with viewer.page.expect_request("**/session/activity"):  # the frame has received it
        viewer.act("user_activity")
    viewer.page.clock.fast_forward("05:00")
    viewer.frame.locator(".ProseMirror").wait_for()
    viewer.page.clock.fast_forward("24:20")
    viewer.frame.get_by_role("timer").wait_for()
    viewer.page.clock.fast_forward("01:00")
    require_signed_out_with_text(viewer)


@ONE_KIND
def test_an_interrupted_save_is_repeated_before_the_end_of_the_session(viewer: Viewer) -> None:
    """The browser cannot keep the text; the connection returns after the first attempts."""
    viewer.page.add_init_script("Object.defineProperty(window, 'indexedDB', { value: undefined });")
    ending = False
    attempts: list[str] = []

    def interrupt(route: Route) -> None:
        if ending:
            attempts.append(route.request.url)
        if len(attempts) < 3:
            route.abort()
        else:
            route.continue_()

    viewer.page.clock.install()
    viewer.page.route("**/session/save", interrupt)
    viewer.open()
    viewer.type("Kept.")
    viewer.page.clock.fast_forward("29:20")
    viewer.frame.get_by_role("timer").wait_for()
    ending = True
    viewer.page.clock.fast_forward("01:00")
    require_signed_out_with_text(viewer)
    assert len(attempts) == 3


def require_signed_out_with_text(viewer: Viewer) -> None:
    """The session has ended, the text `Kept.` is saved, and the report is a Draft."""
    # The browser prints requests that were interrupted, or refused after the end of the session.
    viewer.expected = "Failed to load resource"
    assert viewer.event("session_expired")["reason"] == "inactivity"
    viewer.frame.get_by_text("You are signed out").wait_for()
    assert viewer.reports.launch()["reportStatus"] == "Draft"
    exported = viewer.reports.api("export/json", clinicalInfo=viewer.reports.identity()).json()
    assert exported["reportInfo"]["content"] == "Kept."


WEBVIEW = """
window.sent = [];
const listeners = new Set();
window.chrome = window.chrome || {};
window.chrome.webview = {
  postMessage: (message) => window.sent.push(message),
  addEventListener: (kind, listener) => listeners.add(listener),
  removeEventListener: (kind, listener) => listeners.delete(listener),
};
window.deliver = (data) => listeners.forEach((listener) => listener({ data }));
"""


@ONE_KIND
@pytest.mark.parametrize("serialized", [True, False])
def test_webview2_messages(installed: Installed, *, serialized: bool) -> None:
    """In WebView2 events are serialized strings; actions may be objects or strings."""
    page = installed.browser.new_page(ignore_https_errors=True)
    page.add_init_script(WEBVIEW)
    order = f"WEBVIEW-{serialized}"
    page.goto(installed.reports.launch(order)["reportLink"])
    assert sent(page, "report_ready")["status"] == "DRAFT"
    action = {"action": "save_report"}
    page.evaluate("data => deliver(data)", json.dumps(action) if serialized else action)
    assert sent(page, "report_saved")["clinicalInfo"]["Accession"] == order
    page.context.close()


def sent(page: Page, kind: str) -> dict[str, Any]:
    for _ in range(600):
        for text in page.evaluate("window.sent"):
            event: dict[str, Any] = json.loads(text)
            if event["type"] == kind:
                return event
        page.wait_for_timeout(50)
    raise AssertionError(kind)


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
        self.page.evaluate(CONNECT, [self.app])

    def next(self, kind: str = "report_ready") -> dict[str, Any]:
        result: dict[str, Any] = self.page.evaluate(NEXT, kind)
        return result

    def wait_for_text(self) -> None:
        """Wait until the frame shows the report and the plain listener has its first event."""
        text = self.page.frame_locator("iframe").locator(".ProseMirror").first
        expect(text).to_be_visible()
        self.page.wait_for_function("raw.includes('report_ready')")

    def heard(self) -> list[str]:
        kinds: list[str] = self.page.evaluate("heard.map(event => event.type)")
        return kinds


@pytest.fixture
def host(viewer: Viewer) -> PlainHost:
    viewer.expected = "postMessage"  # the browser logs a request to a page of another origin
    return PlainHost(viewer.page, viewer.reports.url)


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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


@pytest.mark.parametrize("kind", [HostKind.PLAIN], indirect=True)
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
