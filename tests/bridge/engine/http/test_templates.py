"""Templates, billing codes and shares over HTTP."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import ADMIN, FOREIGN, OTHER, Service, identity, user

ONE = {"clinicalInfo": identity()}
MRRT = """<html><head><title>Chest</title></head><body>
<section data-section-name="Findings"><header>Findings</header><p>Lungs: </p></section>
<section data-section-name="Impression"><header>Impression</header></section></body></html>"""
CODES = """system,match,code,description
cpt,CT CHEST,71260,CT thorax with contrast
icd10,pleural effusion,J90,Pleural effusion
icd10,cough,R05,Cough
icd10,pneumothorax,J93.9,Pneumothorax
"""


@pytest.fixture
def templated(service: Service) -> Service:
    """The first site with template 7 and a code map."""
    site = "/api/admin/sites/SITE1"
    put = service.call("PUT", f"{site}/templates/7/mrrt", json={"html": MRRT})
    assert put.status_code == 200, put.text
    assert service.call("PUT", f"{site}/code-map", json={"csv": CODES}).status_code == 200
    return service


@pytest.mark.parametrize("lazy", [False, True])
def test_the_template_becomes_the_draft(templated: Service, *, lazy: bool) -> None:
    """ApplyTemplate: key findings are mapped to the template's sections, and marked."""
    tags = {"KeyFindings": "8 mm pulmonary nodule.\nImpression: Follow-up."}
    app = {"ApplyTemplate": 7}
    page = templated.open_report(tags=tags, reportingApp=app, lazyLaunch=lazy)
    text = "Findings\nLungs: \n8 mm pulmonary nodule.\nImpression\nFollow-up."
    assert templated.get("report/content", **identity()).json()["content"] == text
    document = page("report").json()["document"]
    marked = [
        inline["text"]
        for block in document["content"]
        for inline in block.get("content", ())
        if "suggested" in inline.get("marks", ())
    ]
    assert marked == ["8 mm pulmonary nodule.", "Follow-up."]
    exported = templated.post("report/export/html", ONE).json()["html"]
    assert "8 mm pulmonary nodule." in exported
    assert templated.post("report/export/rtf", ONE).status_code == 200


def test_an_order_gets_its_template_when_it_is_opened(templated: Service) -> None:
    """A registered order is empty until then; after a reset the next opening fills it again."""
    launch: dict[str, Any] = {
        "lazyLaunch": True,
        "registerOrder": True,
        "reportingApp": {"ApplyTemplate": "7"},
    }
    response = templated.launch(userInfo=user(), **launch).json()
    assert not templated.status()["hasContent"]
    templated.open(response["reportLink"])
    assert templated.status()["hasContent"]
    assert templated.post("report/reset-order", identity()).status_code == 200
    assert not templated.status()["hasContent"]
    templated.open(response["reportLink"])
    content = templated.get("report/content", **identity()).json()["content"]
    assert content.startswith("Findings")


def test_key_findings_of_many_lines_are_exported(templated: Service) -> None:
    """A draft with more parts than a page may send can be opened, checked and exported."""
    tags = {"KeyFindings": "a\n" * 30_000}
    page = templated.open_report(tags=tags)
    assert page("report").status_code == 200
    checked = page("checks")
    assert checked.status_code == 200, checked.text
    exported = templated.post("report/export/json", ONE)
    assert exported.status_code == 200, exported.text


def test_a_template_is_limited_like_a_document(templated: Service) -> None:
    """Text with more parts than a document may have is refused, and the list stays readable."""
    site = "/api/admin/sites/SITE1"
    put = templated.call(
        "PUT", f"{site}/templates/8", json={"name": "Large", "text": "[a] b\n" * 60_000}
    )
    assert put.status_code == 400, put.text
    assert templated.call("GET", f"{site}/templates").status_code == 200


def test_a_launch_with_an_unknown_template_succeeds(templated: Service) -> None:
    """ApplyTemplate: the response has a warning; the findings are the draft."""
    app = {"ApplyTemplate": 99}
    response = templated.launch(tags={"KeyFindings": "Text."}, reportingApp=app).json()
    assert response["warnings"] == ["unknown_template"]
    assert templated.get("report/content", **identity()).json()["content"] == "Text."


def test_templates_are_exported_and_imported(templated: Service) -> None:
    """Templates are MRRT files; an invalid file is refused."""
    path = "admin/sites/SITE1/templates/7/mrrt"
    found = templated.get(path).json()
    assert found["name"] == "Chest"
    assert 'data-section-name="Findings"' in found["html"]
    assert templated.get("admin/sites/SITE1/templates/8/mrrt").status_code == 404
    assert templated.get(path, FOREIGN).status_code == 403
    bad = templated.call("PUT", f"/api/{path}", json={"html": "<script>x</script>"})
    assert (bad.status_code, bad.json()["code"]) == (400, "bad_template")


def test_billing_codes_follow_the_code_map_of_the_site(templated: Service) -> None:
    """billing_code: CPT by procedure, ICD-10 by phrases that the text does not negate."""
    tags = {"StudyDescription": "ct chest", "ReasonForExam": "Cough."}
    page = templated.open_report(tags=tags)
    version = page("report").json()["version"]
    text = "Right pleural effusion. No pneumothorax."
    assert page("save", {"text": text, "version": version}).status_code == 200
    assert page("billing").json() == {"billingCode": None}
    made = page("billing", {}).json()["billingCode"]
    assert made["cpt"] == {"Code": "71260", "Description": "CT thorax with contrast"}
    assert [row["Code"] for row in made["icd10"]] == ["J90", "R05"]
    assert page("billing").json()["billingCode"] == made


def test_a_site_without_a_code_map_has_no_codes(service: Service) -> None:
    """Cpt is null and icd10 is empty."""
    page = service.open_report(tags={"StudyDescription": "CT CHEST"})
    assert page("billing", {}).json()["billingCode"] == {"cpt": None, "icd10": []}


@pytest.mark.parametrize(
    "csv",
    ["", "a,b\n1,2\n", "system,match,code\nloinc,x,1\n", 'system,match,code\ncpt,"x,1\n', "\x00"],
)
def test_an_invalid_code_map_changes_nothing(templated: Service, csv: str) -> None:
    """400, and the old map is kept."""
    path = "/api/admin/sites/SITE1/code-map"
    assert templated.call("PUT", path, json={"csv": csv}).status_code == 400
    assert len(templated.get("admin/sites/SITE1/code-map").json()) == 4


def test_a_share_is_read_only(service: Service) -> None:
    """Everyone with the link reads the report; the share can be revoked and is audited."""
    page = service.open_report(tags={"KeyFindings": "Shared text."})
    share = page("shares", {}).json()["share"]
    service.http.cookies.clear()
    shown = service.open(share["link"])
    assert shown.status_code == 200
    assert "Shared text." in shown.text
    assert "<script" not in shown.text
    assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
    assert shown.headers["cache-control"] == "no-store"
    assert "set-cookie" not in shown.headers
    listed = page("shares").json()["shares"]
    assert [row["id"] for row in listed] == [share["id"]]
    assert "link" not in listed[0]
    assert page(f"shares/{share['id']}/revoke", {}).status_code == 200
    assert page(f"shares/{share['id'] + 1}/revoke", {}).status_code == 404
    revoked = service.open(share["link"])
    assert revoked.status_code == 404
    unknown = service.open(share["link"][:-4] + "AAAA")
    assert (unknown.status_code, unknown.text) == (404, revoked.text)
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    events = service.get("admin/sites/SITE1/audit", after=0).json()["events"]
    actions = [event["action"] for event in events]
    assert {"share-create", "share-open", "share-revoke"} <= set(actions)


def test_a_share_expires(service: Service) -> None:
    """After the requested time, at most after the maximum of the site."""
    site = {"settings": {"shareSeconds": 120}}
    service.call("PATCH", "/api/admin/sites/SITE1", json=site)
    page = service.open_report(tags={"KeyFindings": "x"})
    short = page("shares", {"expiresSeconds": 60}).json()["share"]["link"]
    long = page("shares", {"expiresSeconds": 9999}).json()["share"]["link"]
    service.clock.pass_seconds(61)
    assert service.open(short).status_code == 404
    assert service.open(long).status_code == 200
    service.clock.pass_seconds(60)
    assert service.open(long).status_code == 404


def test_only_the_owner_shares_a_report(service: Service) -> None:
    """Another user who opened it can neither share it nor generate its codes."""
    service.launch(userInfo=user(), tags={"KeyFindings": "x"})
    service.post("report/sign", ONE)
    link = service.launch(userInfo=user(OTHER, "O")).json()["reportLink"]
    browser_user = service.session(service.open(link))
    assert browser_user("shares", {}).status_code == 403
    assert browser_user("billing", {}).status_code == 403
    assert service.get("admin/sites/SITE1/code-map", FOREIGN).status_code == 403
    assert service.get("admin/sites/SITE1/code-map", ADMIN).json() == []
