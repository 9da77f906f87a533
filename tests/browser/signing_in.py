"""What tests of the signed-in pages share: people with passwords, and the way in."""

from typing import Any

from playwright.sync_api import Page

from tests.browser.reading_room import ReadingRoom

PASSWORD = "correct horse battery"
ADA, REA = "ada@site1.test", "rea@site1.test"


def enrol(room: ReadingRoom) -> None:
    """Put an administrator and a radiologist on the site."""
    for email, name, role in (
        (ADA, "Ada Reader", "administrator"),
        (REA, "Rea Der", "user"),
    ):
        body = {"email": email, "name": name, "role": role}
        room.call("POST", "admin/sites/SITE1/users", body)
        room.enrol(email, PASSWORD)


def order(room: ReadingRoom, number: int, **tags: Any) -> None:
    """Register an order, which stands on the worklist."""
    given = {"PatientName": f"PATIENT^{number:03}", "Modality": "CT", **tags}
    room.launch(f"A{number}", mrn=f"P{number}", lazyLaunch=True, registerOrder=True, tags=given)


def admit(page: Page, room: ReadingRoom, email: str = ADA, path: str = "worklist") -> None:
    """Open a page as somebody who has signed in before."""
    page.context.add_cookies(room.cookies(email, PASSWORD))  # type: ignore[arg-type]
    page.goto(f"{room.url}/reporting/{path}")
    page.locator("header .who").wait_for()


def sign_in(page: Page, room: ReadingRoom, email: str = ADA, path: str = "worklist") -> None:
    """Fill in the login form as a person does, and arrive."""
    page.goto(f"{room.url}/reporting/{path}")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password", exact=True).press("Enter")
    page.wait_for_url(f"**/reporting/{path}")
    page.get_by_text("Sign out").wait_for()
