"""
No page shows a patient to a person who may not read the content of messages.

The person visits every page and searches, and neither a page nor an answer to it contains a name,
birth date or patient number of the hospital: also no accession for one who may not find orders.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.checked_pages import window
from tests.browser.console.addresses import addresses, settle, watch_requests
from tests.browser.console.hospital import (
    ANALYST,
    PATIENTS,
    REFUSED_ACCESSION,
    TECHNICIAN,
    VIEWER,
    Hospital,
    opened,
)
from tests.browser.console_client import enter

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = [part for name, _, _ in PATIENTS for part in re.split(r"[\^ ]", name)]
DATES = [
    written
    for _, born, _ in PATIENTS
    for written in (
        born,
        f"{born[:4]}-{born[4:6]}-{born[6:]}",
        f"{born[6:]}/{born[4:6]}/{born[:4]}",
    )
]
PATIENT = re.compile(
    rf"(?i)\b(?:{'|'.join(map(re.escape, NAMES))})\b|\b(?:{'|'.join(DATES)})\b|\bM80\d\d\b"
)
ACCESSION = re.compile(r"\bA80\d\d\b")
FORBIDDEN = {TECHNICIAN: [PATIENT], VIEWER: [PATIENT, ACCESSION]}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with opened(tmp_path_factory.mktemp("privacy")) as hospital:
        yield hospital


@pytest.fixture(scope="module")
def listed(hospital: Hospital) -> Mapping[str, Sequence[str]]:
    return addresses(hospital, hospital.prepare_change())


def visited(page: Page, hospital: Hospital, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Visit pages and search; return where each text was found: pages, titles, URLs, answers."""
    answers: list[tuple[str, str]] = []

    def keep(route: Route) -> None:
        answers.append(("the address of a request", route.request.url))
        if route.request.url.endswith("/api/live"):  # a stream
            route.fallback()
            return
        answer = route.fetch()
        if answer.headers.get("content-type", "").startswith("application/json"):
            answers.append((f"the answer of {answer.url}", answer.text()))
        route.fulfill(response=answer)

    page.route("**/console/api/**", keep)
    for path in paths:
        page.goto(f"{hospital.house.url}/console/{path}")
        settle(page)
        yield f"the page {path}", page.content()
        yield f"the title of {path}", page.title()
        yield f"the address of {path}", page.url
        yield from answers
        answers.clear()
    for text in ("A800", REFUSED_ACCESSION, "M8001", "ROSSI"):
        page.keyboard.press("/")
        page.keyboard.type(text)
        settle(page)
        found = page.locator("[role=listbox], [role=dialog]")
        for shown in found.all_inner_texts():
            yield f"the search for {text[:1]}", shown.replace(text, "")
        yield from answers
        answers.clear()
        page.keyboard.press("Escape")


@pytest.mark.parametrize("email", [TECHNICIAN, VIEWER])
def test_no_page_shows_a_patient(
    hospital: Hospital, listed: Mapping[str, Sequence[str]], chromium: Browser, email: str
) -> None:
    with window(chromium) as page:
        watch_requests(page)
        enter(page, hospital, email, "jobs")
        paths = [path for paths in listed.values() for path in paths]
        leaks = {
            f"{where}: {pattern.pattern[:12]}"
            for where, text in visited(page, hospital, paths)
            for pattern in FORBIDDEN[email]
            if pattern.search(text)
        }
    assert leaks == set()


def test_the_patterns_find_what_a_reader_of_content_sees(
    hospital: Hospital, listed: Mapping[str, Sequence[str]], chromium: Browser
) -> None:
    """A person who may read the message sees all of them, and the reading is audited."""
    path = listed["message"][0]
    with window(chromium) as page:
        watch_requests(page)
        enter(page, hospital, ANALYST, path)
        expect(page.get_by_role("tree", name="Message")).to_contain_text("PID-7")
        text = page.content()
    assert ACCESSION.search(text)
    assert {found.lower() for found in PATIENT.findall(text)} >= {"rossi", "m8001", "19711103"}
    rows = hospital.do("POST", "lists/audit", {})["rows"]
    events = {(row["email"], row["action"], row["subject"]) for row in rows}
    assert (ANALYST, "read", path.replace("messages/", "message ")) in events
    others = {what for who, action, what in events if action == "read" and who != ANALYST}
    assert not any(what.startswith(("message ", "delivery ")) for what in others)
