"""
A press on each kind of control of the console, and what it changes on the page.

Nothing waits for the network: a press shows although no answer of the server arrives.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from playwright.sync_api import Locator, Page, Route, expect

API: Final = "**/api/**"


@dataclass(frozen=True)
class Press:
    """A press on the control `target` of a page, or of a key; `shows` waits for the change."""

    path: str
    target: Callable[[Page], Locator]
    shows: Callable[[Page], None]
    key: str = ""
    prepare: Callable[[Page], None] = lambda page: None

    def ready(self, page: Page) -> None:
        """Do what makes the control available, before answers are held back."""
        self.prepare(page)
        expect(self.target(page)).to_be_visible()

    def make(self, page: Page) -> None:
        if self.key:
            page.keyboard.press(self.key)
        else:
            self.target(page).click()


@contextmanager
def answers_held(page: Page) -> Iterator[list[Route]]:
    """Let no answer of the server arrive; yield the requests that wait."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(API, hold)
    yield held
    for route in held:
        route.abort()


def _grid(page: Page, name: str = "Messages") -> Locator:
    return page.get_by_role("grid", name=name, exact=True)


def _first_row(page: Page) -> Locator:
    return _grid(page).get_by_role("row").nth(1)


def _button(name: str) -> Callable[[Page], Locator]:
    return lambda page: page.get_by_role("button", name=name).first


def _heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(text)


def _activate_row(page: Page) -> None:
    expect(_first_row(page)).to_be_visible()
    _grid(page).focus()


def _select_row(page: Page) -> None:
    _first_row(page).get_by_role("checkbox").check()
    expect(page.get_by_role("group", name="Selection")).to_be_visible()


def _ask_replay(page: Page) -> None:
    _select_row(page)
    _replay(page).click()
    page.get_by_role("alertdialog").get_by_label("Reason").fill("measured")


def _replay(page: Page) -> Locator:
    return page.get_by_role("group", name="Selection").get_by_role("button", name="Replay")


PRESSES: Final[Mapping[str, Press]] = {
    "navigation": Press(
        "messages",
        lambda page: page.get_by_role("navigation").get_by_role("link", name="Deliveries"),
        lambda page: _heading(page, "Deliveries"),
    ),
    "row": Press(
        "messages",
        lambda page: _first_row(page).get_by_role("gridcell").nth(3),
        lambda page: expect(page.get_by_role("complementary")).to_be_visible(),
    ),
    "row, opened": Press(
        "messages",
        _first_row,
        lambda page: _heading(page, "Message"),
        key="o",
        prepare=_activate_row,
    ),
    "row, selected": Press(
        "messages",
        lambda page: _first_row(page).get_by_role("checkbox"),
        lambda page: expect(page.get_by_role("group", name="Selection")).to_be_visible(),
    ),
    "menu of a row": Press(
        "messages",
        lambda page: _first_row(page).get_by_role("button", name="Actions"),
        lambda page: expect(page.get_by_role("menu")).to_be_visible(),
    ),
    "tab of a list": Press(
        "orders",
        lambda page: page.get_by_role("tab", name="Held"),
        lambda page: expect(page.get_by_role("tab", name="Held")).to_have_attribute(
            "aria-selected", "true"
        ),
    ),
    "chip": Press(
        "messages?state=parked",
        lambda page: page.get_by_role("button", name="Filter State : parked"),
        lambda page: expect(page.get_by_role("button", name="Filter State : parked")).to_have_count(
            0
        ),
        key="Delete",
        prepare=lambda page: page.get_by_role("button", name="Filter State : parked").focus(),
    ),
    "new filter": Press(
        "messages",
        lambda page: page.get_by_role("button", name="Filter", exact=True),
        lambda page: expect(page.get_by_role("combobox", name="Add a filter")).to_be_visible(),
    ),
    "sort": Press(
        "messages",
        lambda page: _grid(page).get_by_role("columnheader", name="Listener").get_by_role("button"),
        lambda page: expect(
            _grid(page).get_by_role("columnheader", name="Listener")
        ).to_have_attribute("aria-sort", "ascending"),
    ),
    "dialog": Press(
        "messages",
        _replay,
        lambda page: expect(page.get_by_role("alertdialog")).to_be_visible(),
        prepare=_select_row,
    ),
    "start of a job": Press(
        "messages",
        lambda page: page.get_by_role("alertdialog").get_by_role("button", name="Replay"),
        lambda page: expect(page.get_by_role("alertdialog")).to_have_count(0),
        prepare=_ask_replay,
    ),
    "palette": Press(
        "overview",
        lambda page: page.get_by_role("grid", name="Connections"),
        lambda page: expect(page.get_by_role("dialog", name="Commands")).to_be_visible(),
        key="Control+k",
    ),
    "search": Press(
        "overview",
        _button("Search"),
        lambda page: expect(page.get_by_role("combobox", name="Search")).to_be_focused(),
    ),
    "views": Press(
        "messages",
        _button("Views"),
        lambda page: expect(page.get_by_role("option", name="Lost modality")).to_be_visible(),
    ),
    "columns": Press(
        "messages",
        _button("Columns"),
        lambda page: expect(page.get_by_role("combobox", name="Columns")).to_be_visible(),
    ),
    "part of the overview": Press(
        "overview",
        _button("Destinations"),
        lambda page: expect(_button("Destinations")(page)).to_have_attribute(
            "aria-pressed", "true"
        ),
    ),
    "span of a graph": Press(
        "connections/listener/orders",
        _button("7 d"),
        lambda page: expect(_button("7 d")(page)).to_have_attribute("aria-pressed", "true"),
    ),
    "tab of a page": Press(
        "connections/listener/orders",
        lambda page: page.get_by_role("tab", name="Specification"),
        lambda page: expect(page.get_by_role("tab", name="Specification")).to_have_attribute(
            "aria-selected", "true"
        ),
    ),
    "pause": Press(
        "connections/listener/orders",
        _button("Pause"),
        lambda page: expect(page.get_by_role("alertdialog")).to_be_visible(),
    ),
    "test": Press(
        "connections/destination/ris",
        _button("Test"),
        lambda page: expect(page.get_by_role("dialog")).to_be_visible(),
    ),
    "navigation, collapsed": Press(
        "overview",
        _button("Collapse"),
        lambda page: expect(_button("Expand the navigation")(page)).to_be_visible(),
    ),
    "cause": Press(
        "attention",
        _button("Mark as reviewed"),
        lambda page: expect(page.get_by_role("alertdialog")).to_be_visible(),
    ),
}
"""By the kind of control."""
