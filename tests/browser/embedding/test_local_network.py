"""A viewer with a public address embeds a report server of the local network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from docs.guides.example_host.host import Host
from tests.browser.embedding.origins import Reports, hosting, origin_of, reports
from tests.programs import CHROMIUM

FIRST_CHROMIUM = 142
"""The first version that asks for the permission."""

CONNECT = """async ([source, app, link]) => {
    document.body.replaceChildren(document.createElement("iframe"));
    const module = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { connect } = await import(module);
    const report = connect(document.querySelector("iframe"), { origin: app });
    report.load(link);
    return report.next("report_ready").then((event) => event.type, (problem) => problem.code);
}"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosting() as host:
        yield host


@pytest.fixture(scope="module")
def engine(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    folder = tmp_path_factory.mktemp("local")
    with reports(folder, [origin_of(host)], secure=True) as engine:
        host.app = engine.url
        yield engine


@pytest.fixture(scope="module")
def browser(host: Host, driver: Playwright) -> Iterator[Browser]:
    public = f"--ip-address-space-overrides=127.0.0.1:{host.server_port}=public"
    browser = driver.chromium.launch(executable_path=CHROMIUM.path, args=["--no-sandbox", public])
    if int(browser.version.split(".")[0]) < FIRST_CHROMIUM:
        browser.close()
        pytest.skip(f"Chromium before {FIRST_CHROMIUM} does not protect the local network")
    yield browser
    browser.close()


@pytest.fixture
def page(browser: Browser, host: Host) -> Iterator[Page]:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(origin_of(host))
    yield page
    context.close()


def ready(page: Page, engine: Reports) -> str:
    """Return `report_ready`, or the code of the SDK, whose source is the host's own copy."""
    built = Path(__file__).parents[3] / "bridge/engine/app/assets/built/host-sdk/index.js"
    link = engine.launch()["reportLink"]
    answer: str = page.evaluate(CONNECT, [built.read_text("utf-8"), engine.url, link])
    return answer


def test_without_the_permission_the_host_learns_it(page: Page, engine: Reports) -> None:
    """The browser blocks the frame, and `next` rejects."""
    assert ready(page, engine) == "no_page"


def test_with_the_permission_the_report_opens(page: Page, host: Host, engine: Reports) -> None:
    """The permission of the host's origin is enough one frame deep."""
    page.context.grant_permissions(["local-network-access"], origin=origin_of(host))
    assert ready(page, engine) == "report_ready"


def test_a_tab_needs_no_permission(page: Page, engine: Reports) -> None:
    """The way out that the guide names."""
    with page.context.expect_page() as opening:
        page.evaluate("link => void window.open(link, 'report')", engine.launch()["reportLink"])
    expect(opening.value.locator(".ProseMirror").first).to_be_visible()
