"""A host and a report of different sites in a real Chromium, under several conditions."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from tests.browser.embedding.house import Reports, Viewer, free_port, hosting, reports

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no Chromium on this machine"))


@pytest.fixture(scope="module")
def start_browser(driver: Playwright) -> Iterator[Callable[..., Browser]]:
    """Starts browsers with further arguments; all of them end with the module."""
    media = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    started: list[Browser] = []

    def start(*arguments: str) -> Browser:
        options = ["--no-sandbox", *media, *arguments]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        started.append(browser)
        return browser

    yield start
    for browser in started:
        browser.close()


@pytest.fixture(scope="module")
def browser(start_browser: Callable[..., Browser]) -> Browser:
    """One browser for the module's tests."""
    return start_browser()


@pytest.fixture
def host_port() -> int:
    """The port of the example host, known before the engine is."""
    return free_port()


@pytest.fixture
def engine(tmp_path: Path, host_port: int) -> Iterator[Reports]:
    """The engine over plain HTTP: a frame of another site keeps no cookie at all."""
    with reports(tmp_path, [f"http://viewer.localhost:{host_port}"]) as started:
        yield started


@pytest.fixture
def viewer(engine: Reports, host_port: int, browser: Browser) -> Iterator[Viewer]:
    """The example host in a fresh profile; script errors fail the test."""
    with hosting(engine.url, host_port):
        yield from viewing(browser, engine, host_port)


def viewing(browser: Browser, engine: Reports, port: int) -> Iterator[Viewer]:
    """A page of the example host in a profile of its own."""
    context = browser.new_context(
        ignore_https_errors=True,
        viewport={"width": 1400, "height": 900},
    )
    page = context.new_page()
    viewer = Viewer(page, engine)
    page.on("pageerror", lambda error: viewer.errors.append(str(error)))
    page.on(
        "console",
        lambda line: viewer.errors.append(line.text) if line.type == "error" else None,
    )
    page.goto(f"http://viewer.localhost:{port}/")
    page.wait_for_selector("body[data-ready]")
    yield viewer
    context.close()
    assert [each for each in viewer.errors if viewer.expected not in each] == []
