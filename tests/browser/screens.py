"""Every screen of the app, each with something on it, for tests that go through all of them."""

from collections.abc import Callable, Mapping

from playwright.sync_api import Page

from tests.browser.reading_room import ReadingRoom
from tests.browser.signing_in import ADA, enrol, order

Show = Callable[[Page, ReadingRoom], None]

TEXT = {
    "type": "doc",
    "content": [
        {"type": "section", "title": "Findings"},
        {"type": "paragraph", "content": [{"type": "text", "text": "Lungs:"}]},
        {"type": "paragraph", "content": [{"type": "text", "text": "Heart: normal in size."}]},
        {"type": "section", "title": "Impression"},
        {
            "type": "paragraph",
            "content": [
                {"type": "text", "text": "Nodule of "},
                {"type": "field", "label": "size", "value": ""},
                {"type": "text", "text": ", follow-up in 6 months."},
            ],
        },
    ],
}
TAGS = {
    "PatientName": "SAMPLE^ADA",
    "PatientSex": "F",
    "PatientBirthDate": "19610204",
    "StudyDescription": "CT Chest without contrast",
    "StudyDate": "20260314",
    "Modality": "CT",
    "BodyPartExamined": "CHEST",
    "ReasonForExam": "Cough for six weeks.",
    "KeyFindings": "Lungs: Nodule of 4 mm in the left upper lobe.",
}


def furnish(room: ReadingRoom) -> None:
    """Give the site people, orders, a template, a group, and a patient with an earlier report."""
    enrol(room)
    for number in range(1, 8):
        order(room, number, StudyDescription=f"CT Abdomen {number}", StudyDate="20260313")
    room.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": TEXT})
    room.call(
        "POST", "admin/sites/SITE1/prelim-groups", {"name": "Night", "tags": ["Resident", "Fellow"]}
    )
    room.launch("A90", mrn="P90", who=ADA, tags={**TAGS, "StudyDate": "20250102"})


def _login(page: Page, room: ReadingRoom) -> None:
    page.goto(f"{room.url}/reporting/login")
    page.locator("input[type=password]").wait_for()


CAME = {
    "worklist": "[role=row][data-report]",
    "settings": "main select",
    "administration": "form.fields input[type=number]",
}
"""What comes last on the screens of somebody who is signed in."""


def _signed_in(path: str) -> Show:
    def show(page: Page, room: ReadingRoom) -> None:
        page.goto(f"{room.url}/reporting/{path}")
        page.locator(CAME[path]).first.wait_for()

    return show


def turn_to(page: Page, screen: str) -> None:
    """Go to another screen by its link, as people do; nothing is loaded anew."""
    page.locator(f"nav a[href='/reporting/{screen}']").click()
    page.locator(CAME[screen]).first.wait_for()


def report(page: Page, room: ReadingRoom, accession: str = "A91", **app: object) -> None:
    """Open a report with a text, findings, and a bracket to fill."""
    page.goto(
        room.launch(
            accession,
            mrn="P90",
            who=ADA,
            tags=TAGS,
            reportingApp={
                "ApplyTemplate": 7,
                **app,
            },
        )
    )
    page.wait_for_selector("#sign:visible")


def _waiting(page: Page, room: ReadingRoom) -> None:
    body = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": {"UserEmail": ADA, "UserName": "Ada"}}
    link = room.call("POST", "report/init", body).json()["sessionLink"]
    page.goto(link)
    page.locator("main h1").wait_for()


SCREENS: Mapping[str, Show] = {
    "login": _login,
    "worklist": _signed_in("worklist"),
    "settings": _signed_in("settings"),
    "administration": _signed_in("administration"),
    "report": report,
    "waiting": _waiting,
}
"""By name; all but the login for somebody who is signed in."""
