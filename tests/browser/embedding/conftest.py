"""An example host and an engine on different sites in Chromium, for several kinds of host."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from playwright.sync_api import Browser, Playwright

from docs.guides.example_host.host import Host
from tests.browser.embedding.kinds import DEFAULT_KINDS, HostKind, browsing
from tests.browser.embedding.origins import Reports, Viewer, hosting, origin_of, reports

STUDIES = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/browser/embedding/"):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Installed:
    kind: HostKind
    reports: Reports
    host: Host
    browser: Browser


@pytest.fixture(scope="module", params=DEFAULT_KINDS)
def kind(request: pytest.FixtureRequest) -> HostKind:
    """Each default kind of host, unless a test names its own."""
    chosen: HostKind = request.param
    return chosen


@pytest.fixture(scope="module")
def installed(
    kind: HostKind, driver: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp(kind.name)
    with (
        hosting(coep=kind is HostKind.ISOLATED) as host,
        reports(folder, [origin_of(host)], secure=kind.secure) as engine,
        browsing(driver, kind, folder / "profile") as browser,
    ):
        host.app = engine.url
        yield Installed(kind, engine, host, browser)


@pytest.fixture
def viewer(installed: Installed) -> Iterator[Viewer]:
    """The example host in a fresh profile; each test has its own study and reader."""
    number = next(STUDIES)
    reader = f"reader-{number}@site1.test"
    installed.host.user = {"UserEmail": reader, "UserName": "Rea Der"}
    own = replace(installed.reports, accession=f"ACC-{number}", reader=reader)
    with viewing(installed.browser, own, origin_of(installed.host)) as viewer:
        yield viewer


@contextmanager
def viewing(browser: Browser, engine: Reports, host: str) -> Iterator[Viewer]:
    """A page of the example host in its own profile; script errors fail the test."""
    context = browser.new_context(
        ignore_https_errors=True,
        viewport={"width": 1400, "height": 900},
    )
    page = context.new_page()
    viewer = Viewer(page, engine)
    page.on("pageerror", lambda error: viewer.errors.append(str(error)))
    page.on(
        "console",
        lambda line: (
            viewer.errors.append(f"{line.text} {line.location['url'].partition('?')[0]}")
            if line.type == "error"
            else None
        ),
    )
    try:
        page.goto(host)
        page.wait_for_selector("body[data-ready]")
        yield viewer
    finally:
        context.close()
    wrong = [item for item in viewer.errors if viewer.expected not in item]
    # A request that the browser gave up and the page repeated is not an error of the page.
    assert [item for item in wrong if "ERR_TOO_MANY_RETRIES" not in item] == []
