"""
Snapshots of responses: JSON files with which the TypeScript client is checked.

`REPORT_BRIDGE_WRITE_SNAPSHOTS=1` writes them; git shows the differences.
"""

import base64
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bridge.engine.service.sites.site_settings import set_prelim_group
from tests.bridge.engine.http.engine_service import ADMIN, READER, Service, boot, identity, user

WEB = Path(__file__).resolve().parents[4] / "web"
SNAPSHOTS = WEB / "snapshots"
PAGE_SNAPSHOTS = WEB / "src" / "report" / "editor" / "snapshots"
_SECRET = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9_+/-]{43}=?")


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: settled(item) for name, item in value.items()}
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, str) and _SECRET.fullmatch(value):
        return "…"
    return value


def check(name: str, value: Any) -> None:
    compare(SNAPSHOTS / f"{name}.json", settled(value), sort_keys=True)


def compare(path: Path, value: Any, *, sort_keys: bool) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=sort_keys) + "\n"
    if os.environ.get("REPORT_BRIDGE_WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text


@pytest.fixture
def signed_in(service: Service) -> Service:
    """A site with a group and three reports; its administrator is signed in."""
    with service.database.write() as connection:
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
    service.set_password(ADMIN)
    assert service.sign_in(ADMIN).status_code == 303
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
    response = signed_in.account("GET", path)
    assert response.status_code == 200, response.text
    check(name, response.json())


def test_the_list_of_tokens(signed_in: Service) -> None:
    signed_in.account("POST", "/tokens", {"label": "Viewer", "expiresDays": 90})
    found = signed_in.account("GET", "/tokens").json()
    check("tokens", [row for row in found if row["label"] == "Viewer"])


def test_the_start_of_a_report_page(service: Service) -> None:
    """The start data in the HTML page, and the first response."""
    tags = {"PatientName": "EXAMPLE^PERSON", "Modality": "CT", "KeyFindings": "Nodule, 4 mm."}
    page = service.open(service.launch(userInfo=user(READER), tags=tags).json()["reportLink"])
    check("boot", boot(page))
    check("page", service.session(page)("report").json())


DOCUMENT = {
    "type": "doc",
    "content": [
        {"type": "section", "title": "Findings"},
        {
            "type": "paragraph",
            "content": [
                {"type": "text", "text": "Nodule of "},
                {"type": "field", "label": "size", "value": ""},
                {"type": "text", "text": " mm", "marks": ["bold", "suggested"]},
            ],
        },
        {"type": "list", "ordered": True, "items": [[{"type": "text", "text": "Right."}], []]},
    ],
}
TAGS = {"PatientName": "EXAMPLE^ADA", "StudyDescription": "KNEE LEFT", "StudyDate": "20260110"}
SECRETS = {"journalKey", "link"}


def tidy(value: Any, ids: dict[str, str]) -> Any:
    """Replace run-dependent values: ids by their order, secrets by an empty text."""
    if isinstance(value, list):
        return [tidy(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    tidied = {name: "" if name in SECRETS else tidy(item, ids) for name, item in value.items()}
    if "reportId" in tidied:
        tidied["reportId"] = ids.setdefault(tidied["reportId"], f"report-{len(ids) + 1}")
    return tidied


def sign_prior(service: Service) -> None:
    page = service.open_report(accession="OLD", tags={**TAGS, "StudyDate": "20250110"})
    page("sign-now", {"version": page.save("Earlier.")})


def responses(service: Service) -> dict[str, Any]:
    sign_prior(service)
    service.call("PUT", "/api/admin/sites/SITE1/macros/.n", json={"text": "Normal."})
    body = {"name": "Knee", "document": DOCUMENT}
    service.call("PUT", "/api/admin/sites/SITE1/templates/1", json=body)
    rows = "system,match,code,description\ncpt,KNEE LEFT,73560,Knee\nicd10,nodule,R91.1,Nodule\n"
    service.call("PUT", "/api/admin/sites/SITE1/code-map", json={"csv": rows})
    data = io.BytesIO()
    Image.new("RGB", (4, 2), "white").save(data, "PNG")
    image = {"imageData": base64.b64encode(data.getvalue()).decode(), "contentType": "image/png"}
    page = service.open_report(accession="NOW", tags=TAGS, keyImages=[image])
    read = {"prelimGroup": "Night", "prelimTag": "R"}
    page("prelim", {"version": page.save(document=DOCUMENT), **read})
    prior = page("priors").json()["priors"][0]["reportId"]
    found = {
        name: page(path).json()
        for name, path in {
            "draft": "report",
            "priors": "priors",
            "prior": f"priors/{prior}",
            "files": "files",
            "checks": "checks",
            "templates": "templates",
            "macros": "macros",
        }.items()
    }
    found["presence"] = page("presence", {}).json()
    page("sign-now", {"version": page("report").json()["version"]})
    page("addendum/create", {})
    page("addendum/save", {"version": 1, "text": "Also this."})
    page("addendum/sign", {"version": 2})
    page("addendum/create", {})
    found["billing"] = page("billing", {}).json()["billingCode"]
    page("shares", {})
    found["shares"] = page("shares").json()
    found["history"] = page("history").json()
    found["signed"] = page("report").json()
    return found


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_responses_of_a_report_page(service: Service) -> None:
    ids: dict[str, str] = {}
    for name, response in responses(service).items():
        compare(PAGE_SNAPSHOTS / f"{name}.json", tidy(response, ids), sort_keys=False)
