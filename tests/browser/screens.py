"""All screens of the app with sample data, for tests that visit each of them."""

from collections.abc import Callable, Mapping

from playwright.sync_api import Page

from tests.browser.engine_server import EngineServer
from tests.browser.signing_in import ADA, enrol, order

Show = Callable[[Page, EngineServer], None]

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


def add_sample_data(engine: EngineServer) -> None:
    """Add users, orders, a template, a prelim group, and a patient with an earlier report."""
    enrol(engine)
    for number in range(1, 8):
        order(engine, number, StudyDescription=f"CT Abdomen {number}", StudyDate="20260313")
    engine.call("PUT", "admin/sites/SITE1/templates/7", {"name": "Chest", "document": TEXT})
    engine.call(
        "POST", "admin/sites/SITE1/prelim-groups", {"name": "Night", "tags": ["Resident", "Fellow"]}
    )
    engine.launch("A90", mrn="P90", email=ADA, tags={**TAGS, "StudyDate": "20250102"})


def _login(page: Page, engine: EngineServer) -> None:
    page.goto(f"{engine.url}/reporting/login")
    page.locator("input[type=password]").wait_for()


LAST_ELEMENTS = {
    "worklist": "[role=row][data-report]",
    "settings": "main select",
    "administration": "form.fields input[type=number]",
}
"""The element that each screen of a signed-in user shows last."""


def _signed_in(path: str) -> Show:
    def show(page: Page, engine: EngineServer) -> None:
        page.goto(f"{engine.url}/reporting/{path}")
        page.locator(LAST_ELEMENTS[path]).first.wait_for()

    return show


def navigate(page: Page, screen: str) -> None:
    """Go to another screen by its link, without a page load."""
    page.locator(f"nav a[href='/reporting/{screen}']").click()
    page.locator(LAST_ELEMENTS[screen]).first.wait_for()


def report(page: Page, engine: EngineServer, accession: str = "A91", **app: object) -> None:
    """Open a report with text, findings and an empty bracket."""
    page.goto(
        engine.launch(
            accession,
            mrn="P90",
            email=ADA,
            tags=TAGS,
            reportingApp={
                "ApplyTemplate": 7,
                **app,
            },
        )
    )
    page.wait_for_selector("#sign:visible")


def _waiting(page: Page, engine: EngineServer) -> None:
    body = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": {"UserEmail": ADA, "UserName": "Ada"}}
    link = engine.call("POST", "report/init", body).json()["sessionLink"]
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
"""All screens by name; all except the login require a signed-in user."""
