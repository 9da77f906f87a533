"""Accounts in Chromium: login, preferences, tokens, and the administration of a site."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.browser.engine_server import EngineServer
from tests.browser.signing_in import ADA, PASSWORD, REA, enrol, sign_in
from tests.eventually import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
MRRT = """<!DOCTYPE html><html><head><title>Chest CT</title><meta charset="UTF-8"/></head>
<body><section data-section-name="Findings"><header>Findings</header>
<p><label for="f">Lungs</label><input id="f" type="text" name="Lungs" value=""/></p></section>
</body></html>"""


@pytest.fixture
def engine_with_users(engine: EngineServer) -> EngineServer:
    enrol(engine)
    return engine


def test_sign_in_and_sign_out(engine_with_users: EngineServer, page: Page) -> None:
    """A wrong password is an error. Sign-in opens the requested page, sign-out the login."""
    page.goto(f"{engine_with_users.url}/reporting/settings")
    page.get_by_label("E-mail").fill(REA)
    page.get_by_label("Password", exact=True).fill("not this one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("is incorrect")
    sign_in(page, engine_with_users, REA, "settings")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/reporting/login")
    page.goto(f"{engine_with_users.url}/reporting/worklist")
    page.wait_for_url("**/reporting/login?next=/reporting/worklist")


def test_a_late_401_does_not_redirect_after_sign_out(
    engine_with_users: EngineServer, page: Page
) -> None:
    """A request that fails because the session has ended does not change the redirect."""
    held: list[Route] = []
    refused: list[int] = []

    def hold(request_route: Route) -> None:
        held.append(request_route)

    page.route("**/reporting/api/account/tokens", hold)
    sign_in(page, engine_with_users, REA, "settings")
    while not held:
        page.wait_for_timeout(10)

    def sign_out(route: Route) -> None:
        answer = route.fetch()
        for request_route in held:
            response = request_route.fetch()
            refused.append(response.status)
            request_route.fulfill(response=response)
        route.fulfill(response=answer)

    page.route("**/reporting/api/account/sign-out", sign_out)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/reporting/login")
    expect(page.get_by_label("E-mail")).to_be_visible()
    assert page.url.endswith("/reporting/login")
    assert refused == [401]


def test_the_login_works_without_scripts(engine_with_users: EngineServer, page: Page) -> None:
    """The page contains the login form before, and without, the app."""
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(f"{engine_with_users.url}/reporting/login")
    plain.fill("[name=email]", REA)
    plain.fill("[name=password]", PASSWORD)
    plain.click("button")
    plain.wait_for_url("**/reporting/worklist")
    context.close()


def test_input_before_the_app_has_loaded_is_kept(
    engine_with_users: EngineServer, page: Page
) -> None:
    """The app keeps the input of the plain form that it replaces."""
    held: list[Route] = []
    is_ready = False

    def hold(script: Route) -> None:
        if is_ready:  # a second request for it
            script.continue_()
        else:
            held.append(script)

    page.route("**/assets/report-*.js", hold)
    page.goto(f"{engine_with_users.url}/reporting/login", wait_until="commit")
    page.fill("[name=email]", REA)
    page.fill("[name=password]", PASSWORD)
    while not held:
        page.wait_for_timeout(10)
    is_ready = True
    for script in held:
        script.continue_()
    page.get_by_label("Show the password").wait_for()
    expect(page.locator("[name=email]")).to_have_value(REA)
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/reporting/worklist")


def test_no_page_frames_the_login(engine_with_users: EngineServer, page: Page) -> None:
    """A frame of another origin does not show the login."""
    page.route(
        "http://evil.localhost/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<iframe src="{engine_with_users.url}/reporting/login"></iframe>',
        ),
    )
    stopped: list[str] = []
    page.on("requestfailed", lambda request: stopped.append(request.url))
    page.goto("http://evil.localhost/")
    page.wait_for_timeout(500)
    framed = page.frames[1]
    assert framed.locator("input").count() == 0


def create_token(page: Page, name: str) -> str:
    page.get_by_label("Name", exact=True).last.fill(name)
    page.get_by_role("button", name="Create token").click()
    token = page.get_by_label("Access token", exact=True).input_value()
    assert token.startswith("rbt_")
    return token


def test_a_token_needs_a_recent_proof_of_identity(
    engine_with_users: EngineServer, page: Page
) -> None:
    """The page asks for the password, and continues after the right one."""
    sign_in(page, engine_with_users, REA, "settings")
    engine_with_users.age_sessions()
    page.get_by_label("Name", exact=True).last.fill("Viewer")
    page.get_by_role("button", name="Create token").click()
    dialog = page.get_by_role("dialog", name="Confirm your identity")
    dialog.get_by_label("Password").fill("not this one")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is wrong")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Continue").click()
    token = page.get_by_label("Access token", exact=True)
    expect(token).to_have_value(re.compile("^rbt_"))


def test_a_token_is_shown_once_used_and_revoked(
    engine_with_users: EngineServer, page: Page
) -> None:
    """A token is shown once, works, and is refused as soon as it is revoked."""
    sign_in(page, engine_with_users, ADA, "settings")
    token = create_token(page, "Viewer")
    headers = {"x-access-token": token}
    address = f"{engine_with_users.url}/api/worklist?SiteID=SITE1"
    assert httpx.get(address, headers=headers, timeout=PATIENCE).status_code == 200
    page.get_by_role("button", name="Close").click()
    page.reload()
    row = page.get_by_role("row").filter(has_text="Viewer")
    expect(row).not_to_contain_text("Never")
    assert token not in page.content()
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("Revoked")
    assert httpx.get(address, headers=headers, timeout=PATIENCE).status_code == 401


def test_theme_name_and_signature_stay(engine_with_users: EngineServer, page: Page) -> None:
    """Theme, signature text and image are kept over a reload."""
    sign_in(page, engine_with_users, REA, "settings")
    page.get_by_role("combobox", name="Appearance").select_option("light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.get_by_label("Text below the name").fill("Consultant radiologist")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.").first).to_be_visible()
    image: FilePayload = {"name": "me.png", "mimeType": "image/png", "buffer": PIXEL}
    page.locator("input[type=file]").set_input_files([image])
    expect(page.get_by_role("img", name="Image")).to_be_visible()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.get_by_label("Text below the name")).to_have_value("Consultant radiologist")
    expect(page.get_by_role("img", name="Image")).to_be_visible()


def test_an_administrator_sets_the_site_up(
    engine_with_users: EngineServer, page: Page, tmp_path: Path
) -> None:
    """An administrator sets delay, hosts, users, prelim groups, templates and billing codes."""
    sign_in(page, engine_with_users, ADA, "administration")
    page.get_by_label("Sign delay").fill("90")
    page.get_by_label("Host origins").fill("https://viewer.test")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.").first).to_be_visible()
    site = engine_with_users.call("GET", "admin/sites/SITE1").json()
    assert (site["signDelay"], site["hostOrigins"]) == (90, ["https://viewer.test"])
    framed = {"sec-fetch-dest": "iframe", "referer": "https://other.test/"}
    httpx.get(engine_with_users.launch(), headers=framed, timeout=PATIENCE)
    page.reload()
    page.get_by_role("button", name="Allow https://other.test").click()
    expect(page.get_by_label("Host origins")).to_have_value(
        "https://viewer.test\nhttps://other.test"
    )
    site = engine_with_users.call("GET", "admin/sites/SITE1").json()
    assert site["hostOrigins"] == ["https://viewer.test", "https://other.test"]
    expect(page.locator("#unknown-hosts")).to_have_count(0)

    page.get_by_role("button", name="Users").click()
    page.get_by_label("E-mail").fill("new@site1.test")
    page.get_by_label("Name", exact=True).fill("New Reader")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="New Reader")).to_be_visible()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove new@site1.test").click()
    expect(page.get_by_role("row").filter(has_text="New Reader")).to_have_count(0)

    page.get_by_role("button", name="Prelim groups").click()
    page.get_by_label("Name", exact=True).fill("Night")
    page.get_by_label("Tags").fill("Resident\nFellow")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="Resident, Fellow")).to_be_visible()

    page.get_by_role("button", name="Templates").click()
    page.get_by_label("Name", exact=True).fill("Chest")
    page.get_by_label("Text", exact=True).fill("Findings:\n[lungs]")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="Chest")).to_be_visible()
    file: FilePayload = {"name": "ct.html", "mimeType": "text/html", "buffer": MRRT.encode()}
    page.locator("input[type=file]").set_input_files([file])
    page.get_by_text("ct.html").wait_for()  # the page has read the file
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="Chest CT")).to_be_visible()
    found = engine_with_users.call("GET", "admin/sites/SITE1/templates").json()
    assert [row["number"] for row in found] == [1, 2]
    assert found[0]["document"]["content"][0]["type"] == "section"

    page.get_by_role("button", name="Billing codes").click()
    codes = b"system,match,code,description\ncpt,CT Chest,71260,CT chest with contrast\n"
    file = {"name": "codes.csv", "mimeType": "text/csv", "buffer": codes}
    page.locator("input[type=file]").set_input_files([file])
    expect(page.get_by_role("row").filter(has_text="71260")).to_be_visible()
