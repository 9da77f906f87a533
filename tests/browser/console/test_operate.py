"""Daily work with the console in Chromium, with traffic of every kind."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.console.hospital import ANALYST, Hospital, opened
from tests.browser.console.presses import PRESSES, answers_held
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with opened(tmp_path_factory.mktemp("hospital")) as hospital:
        yield hospital


@pytest.mark.parametrize("name", PRESSES)
def test_a_press_shows_before_any_answer(hospital: Hospital, page: Page, name: str) -> None:
    """Each kind of control changes the page although the server does not answer."""
    press = PRESSES[name]
    enter(page, hospital, ANALYST, press.path)
    press.ready(page)
    with answers_held(page):
        press.make(page)
        press.shows(page)
