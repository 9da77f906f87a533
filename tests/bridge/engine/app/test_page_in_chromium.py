"""The report page in a real browser: a report from its first word to its addendum."""

import asyncio
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from playwright.sync_api import Page, sync_playwright

from bridge.engine.http.application import create_application
from bridge.engine.service import sites, tokens
from bridge.engine.service.sites import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from bridge.store.migrate import upgrade

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

TOKEN = "service-secret"


@pytest.fixture
def base_url(tmp_path: Path) -> Iterator[str]:
    """The address of an engine that really listens."""
    database = Database(f"sqlite:///{tmp_path / 'engine.db'}")
    upgrade(database, package="bridge.engine.records", version_table="alembic_engine")
    with database.write() as connection:
        sites.add_site(connection, SiteSettings("SITE1", sign_delay=60), 0)
        tokens.ensure_service_token(connection, TOKEN, 0)
        sites.set_prelim_group(connection, "SITE1", "Night", ["Resident"])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = EngineSettings((("1", secrets.token_bytes(32)),), public_url=url)
        application = create_application(
            settings, database, clock=lambda: time.time_ns() // 1_000_000
        )
        config = uvicorn.Config(application, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        serving = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        serving.start()
        yield url
        server.should_exit = True
        serving.join()
    database.dispose()


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a fresh browser; errors in its scripts fail the test."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        yield page
        browser.close()
    assert errors == []


def link_for(base_url: str, email: str) -> str:
    """Launch for a user and return the link."""
    body = {
        "clinicalInfo": {
            "SiteID": "SITE1",
            "PatientMRN": "P1",
            "Accession": "A1",
            "PatientName": "<b>EXAMPLE</b>^PERSON",
            "KeyFindings": "Nodule, 4 mm.",
        },
        "reportingApp": {},
        "response": {"type": "link"},
        "userInfo": {"UserEmail": email, "UserName": email.partition("@")[0].title()},
    }
    headers = {"x-access-token": TOKEN}
    answer = httpx.post(f"{base_url}/api/report/launch/clinical", json=body, headers=headers)
    link: str = answer.json()["reportLink"]
    return link


def test_a_report_from_its_first_word_to_its_addendum(base_url: str, page: Page) -> None:
    """Typed and saved by itself, signed, recalled, signed by keyboard, addended, reloaded."""
    link = link_for(base_url, "rea@site1.test")
    page.goto(link)
    page.wait_for_selector("#sign:visible")
    assert page.url == link.partition("?")[0]  # the handle does not stay in the address
    assert page.inner_text("#patient") == "<b>EXAMPLE</b>, PERSON"
    assert page.input_value("#text") == "Nodule, 4 mm."
    page.fill("#text", "Nodule, 4 mm.\nNo effusion.")
    page.wait_for_selector("#say.good:text('Saved.')")
    page.click("#sign")
    page.wait_for_selector("#unsign:visible")
    assert "released in" in page.inner_text("#cooling")
    page.click("#unsign")
    page.wait_for_selector("#sign:visible")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#addendum-create:visible")
    page.click("#addendum-create")
    page.fill("#addendum", "Compared with 2024.")
    page.click("#addendum-sign")
    page.wait_for_selector(".addendum")
    assert page.inner_text("#badge") == "Addendum"
    page.reload()
    page.wait_for_selector(".addendum")
    assert page.input_value("#text") == "Nodule, 4 mm.\nNo effusion."


def test_another_users_draft_is_taken_over_after_a_question(base_url: str, page: Page) -> None:
    """States: the transfer prompt stands instead of the report until somebody proceeds."""
    page.goto(link_for(base_url, "rea@site1.test"))
    page.wait_for_selector("#sign:visible")
    page.goto(link_for(base_url, "other@site1.test"))
    page.wait_for_selector("#proceed:visible")
    assert not page.is_visible("#text")
    page.click("#proceed")
    page.wait_for_selector("#sign:visible")
    assert page.inner_text("#badge") == "Draft"
