"""Users with passwords, orders, and sign-in, for tests of the signed-in pages."""

from typing import Any

from playwright.sync_api import Page

from tests.browser.engine_server import EngineServer

PASSWORD = "correct horse battery"
ADA, REA = "ada@site1.test", "rea@site1.test"


def enrol(engine: EngineServer) -> None:
    for email, name, role in (
        (ADA, "Ada Reader", "administrator"),
        (REA, "Rea Der", "user"),
    ):
        body = {"email": email, "name": name, "role": role}
        engine.call("POST", "admin/sites/SITE1/users", body)
        engine.enrol(email, PASSWORD)


def order(engine: EngineServer, number: int, **tags: Any) -> None:
    """Register an order for the worklist."""
    given = {"PatientName": f"PATIENT^{number:03}", "Modality": "CT", **tags}
    engine.launch(f"A{number}", mrn=f"P{number}", lazyLaunch=True, registerOrder=True, tags=given)


def open_signed_in(
    page: Page, engine: EngineServer, email: str = ADA, path: str = "worklist"
) -> None:
    page.context.add_cookies(engine.cookies(email, PASSWORD))  # type: ignore[arg-type]
    page.goto(f"{engine.url}/reporting/{path}")
    page.locator("header .who").wait_for()


def sign_in(page: Page, engine: EngineServer, email: str = ADA, path: str = "worklist") -> None:
    page.goto(f"{engine.url}/reporting/{path}")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password", exact=True).press("Enter")
    page.wait_for_url(f"**/reporting/{path}")
    page.get_by_text("Sign out").wait_for()
