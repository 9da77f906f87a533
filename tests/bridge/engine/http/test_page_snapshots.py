"""
Snapshots of the responses of the session endpoints, which the tests of the page read.

A difference is written into the snapshot and fails once: review and commit it with the page.
"""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.bridge.engine.http.engine_service import Page, Service, user

SNAPSHOTS = Path(__file__).parents[4] / "web" / "src" / "report" / "editor" / "snapshots"

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
        return [tidy(each, ids) for each in value]
    if not isinstance(value, dict):
        return value
    tidied = {name: "" if name in SECRETS else tidy(each, ids) for name, each in value.items()}
    if "reportId" in tidied:
        tidied["reportId"] = ids.setdefault(tidied["reportId"], f"report-{len(ids) + 1}")
    return tidied


def opened(service: Service, accession: str, **launch: Any) -> Page:
    """Launch and open a report."""
    body = {"userInfo": user(), "tags": TAGS, **launch}
    return service.session(
        service.open(service.launch(accession=accession, **body).json()["reportLink"])
    )


def written(page: Page, **body: Any) -> int:
    """Save a text; return the version."""
    version = page("report").json()["version"]
    number: int = page("save", {"version": version, **body}).json()["version"]
    return number


def sign_prior(service: Service) -> None:
    """Sign an earlier report of the patient."""
    page = opened(service, "OLD", tags={**TAGS, "StudyDate": "20250110"})
    page("sign-now", {"version": written(page, text="Earlier.")})


def answers(service: Service) -> dict[str, Any]:
    """Run a report through its lifecycle and collect the responses to its page."""
    sign_prior(service)
    service.call("PUT", "/api/admin/sites/SITE1/macros/.n", json={"text": "Normal."})
    body = {"name": "Knee", "document": DOCUMENT}
    service.call("PUT", "/api/admin/sites/SITE1/templates/1", json=body)
    rows = "system,match,code,description\ncpt,KNEE LEFT,73560,Knee\nicd10,nodule,R91.1,Nodule\n"
    service.call("PUT", "/api/admin/sites/SITE1/code-map", json={"csv": rows})
    data = io.BytesIO()
    Image.new("RGB", (4, 2), "white").save(data, "PNG")
    image = {"imageData": base64.b64encode(data.getvalue()).decode(), "contentType": "image/png"}
    page = opened(service, "NOW", keyImages=[image])
    read = {"prelimGroup": "Night", "prelimTag": "R"}
    page("prelim", {"version": written(page, document=DOCUMENT), **read})
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
def test_the_snapshots_equal_the_responses_of_the_engine(service: Service) -> None:
    """So the page is tested with real responses."""
    ids: dict[str, str] = {}
    differing = []
    for name, answer in answers(service).items():
        text = json.dumps(tidy(answer, ids), indent=2, ensure_ascii=False) + "\n"
        path = SNAPSHOTS / f"{name}.json"
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            differing.append(path.name)
    assert differing == []
