"""
Snapshots of responses: JSON files with which the TypeScript client is checked.

`REPORT_BRIDGE_WRITE_SNAPSHOTS=1` writes them; git shows the differences.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from bridge.engine.service.accounts import passwords, users
from bridge.engine.service.sites.site_settings import set_prelim_group
from tests.bridge.engine.http.engine_service import ADMIN, READER, Service, boot, identity, user

SNAPSHOTS = Path(__file__).resolve().parents[4] / "web" / "snapshots"
OURS = {"sec-fetch-site": "same-origin"}
PASSWORD = "correct horse battery"
_SECRET = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9_+/-]{43}=?")


def settled(value: Any) -> Any:
    """Return JSON with run-dependent values replaced."""
    if isinstance(value, dict):
        return {name: settled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [settled(each) for each in value]
    if isinstance(value, str) and _SECRET.fullmatch(value):
        return "…"
    return value


def check(name: str, value: Any) -> None:
    """Compare with the file of that name, or write it."""
    path = SNAPSHOTS / f"{name}.json"
    text = json.dumps(settled(value), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get("REPORT_BRIDGE_WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


@pytest.fixture
def signed_in(service: Service) -> Service:
    """A site with a group and three reports; its administrator is signed in."""
    with service.database.write() as connection:
        account = users.find_account(connection, ADMIN)
        assert account is not None
        passwords.set_password(connection, account.id, PASSWORD)
        set_prelim_group(connection, "SITE1", "Night", ["Resident"])
    tags = {"PatientName": "EXAMPLE^PERSON", "Modality": "CT", "StudyDate": "20260131"}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    service.clock.pass_seconds(1)
    service.launch("service", accession="A2", mrn="P2", userInfo=user(READER), tags=tags)
    prelim = {"clinicalInfo": identity("A2", "P2"), "prelimGroup": "Night", "prelimTag": "Resident"}
    assert service.post("report/prelim", prelim).status_code == 200
    service.clock.pass_seconds(1)
    service.launch("service", accession="A3", mrn="P3", userInfo=user(ADMIN, "Admin"), tags=tags)
    service.post("report/sign", {"clinicalInfo": identity("A3", "P3")})
    form = {"email": ADMIN, "password": PASSWORD}
    answer = service.call("POST", "/reporting/login", None, data=form, headers=OURS)
    assert answer.status_code == 303
    return service


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("account", ""),
        ("rows", "/rows?SiteID=SITE1&sort=created&descending=false"),
        ("site", "/site?SiteID=SITE1"),
        ("changes", "/changes?SiteID=SITE1&after=0&wait=0"),
        ("administered-site", "/admin/sites/SITE1"),
        ("members", "/admin/sites/SITE1/users"),
        ("prelim-groups", "/admin/sites/SITE1/prelim-groups"),
    ],
)
def test_responses_of_the_account_api(signed_in: Service, name: str, path: str) -> None:
    """Worklist, account and administration."""
    answer = signed_in.call("GET", f"/reporting/api/account{path}", None, headers=OURS)
    assert answer.status_code == 200, answer.text
    check(name, answer.json())


def test_the_list_of_tokens(signed_in: Service) -> None:
    """It does not contain the secret."""
    headers = {"headers": OURS}
    body = {"label": "Viewer", "expiresDays": 90}
    signed_in.call("POST", "/reporting/api/account/tokens", None, json=body, **headers)
    found = signed_in.call("GET", "/reporting/api/account/tokens", None, **headers).json()
    check("tokens", [each for each in found if each["label"] == "Viewer"])


def test_the_start_of_a_report_page(service: Service) -> None:
    """The start data in the HTML page, and the first response."""
    tags = {"PatientName": "EXAMPLE^PERSON", "Modality": "CT", "KeyFindings": "Nodule, 4 mm."}
    page = service.open(service.launch(userInfo=user(READER), tags=tags).json()["reportLink"])
    check("boot", boot(page))
    check("page", service.session(page)("report").json())
