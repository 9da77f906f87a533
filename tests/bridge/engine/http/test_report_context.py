"""Context of the report page: priors, history, files, exports, checks, presence."""

import base64
import io
import zipfile

import pytest
from PIL import Image

from tests.bridge.engine.http.engine_service import OTHER, READER, Service, user

PNG = io.BytesIO()
Image.new("RGB", (4, 2), "white").save(PNG, "PNG")


def signed(service: Service, accession: str, text: str, **tags: str) -> None:
    """Sign a report of the patient P1."""
    page = service.open_report(accession=accession, tags=tags)
    assert page("sign", {"version": page.save(text)}).status_code == 200


def test_priors_are_earlier_signed_reports_of_the_patient(service: Service) -> None:
    """The list has reports of the same site: similar studies first, then by date."""
    signed(service, "OLD-CT", "Nodule 4 mm.", StudyDate="20240101", Modality="CT")
    signed(service, "NEW-XR", "Clear.", StudyDate="2025-01-01", Modality="DX")
    signed(service, "LATER", "Later.", StudyDate="20270101", Modality="CT")
    service.open_report(accession="DRAFT", tags={"StudyDate": "20240601", "Modality": "CT"})
    service.launch(accession="ELSE", mrn="P2", userInfo=user(READER))
    page = service.open_report(accession="NOW", tags={"StudyDate": "20260101", "Modality": "CT"})

    found = page("priors").json()["priors"]

    assert [each["accessions"] for each in found] == [["OLD-CT"], ["NEW-XR"]]
    assert [each["date"] for each in found] == ["2024-01-01", "2025-01-01"]
    prior = page(f"priors/{found[0]['reportId']}").json()
    assert prior["document"]["content"][0]["content"][0]["text"] == "Nodule 4 mm."
    own = page("report").json()["reportId"]
    assert page(f"priors/{own}").status_code == 404


def test_only_the_page_of_a_report_gets_its_key_images(service: Service) -> None:
    """They are listed and can be loaded; the page of another report gets 404."""
    image = {
        "imageData": base64.b64encode(PNG.getvalue()).decode(),
        "contentType": "image/png",
        "fileName": "key.png",
    }
    page = service.open_report(keyImages=[image])
    listed = page("files").json()["files"]
    assert [(each["kind"], each["name"], each["width"]) for each in listed] == [
        ("keyImage", "key.png", 4)
    ]
    response = page(f"files/{listed[0]['id']}")
    assert response.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(response.content)).size == (4, 2)
    assert service.open_report(accession="A2")(f"files/{listed[0]['id']}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "start"), [("docx", b"PK"), ("rtf", b"{\\rtf"), ("html", b"<!DOCTYPE")]
)
def test_a_report_is_exported_as_a_file(service: Service, kind: str, start: bytes) -> None:
    """DOCX, RTF and HTML contain the text; an unknown time zone is refused."""
    page = service.open_report()
    page.save("Unmistakable.")
    response = page(f"export/{kind}")
    assert response.content.startswith(start)
    content = response.content
    if kind == "docx":
        content = zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml")
    assert b"Unmistakable." in content
    assert page(f"export/{kind}?timeZone=Moon").status_code == 400
    assert page("export/exe").status_code == 400


def test_a_report_is_exported_as_pdf(service: Service) -> None:
    """Only inside the application (interface reference, What the service does 8)."""
    assert service.open_report()("export/pdf").content.startswith(b"%PDF")


def test_the_site_configures_the_signing_checks(service: Service) -> None:
    """The default is alert; silent reports nothing; prohibit blocks signing in the app only."""
    page = service.open_report(tags={"StudyDescription": "XR KNEE LEFT", "PatientSex": "M"})
    version = page.save("Right knee [which]. Uterus.")
    found = page("checks").json()["findings"]
    assert [(each["check"], each["behaviour"]) for each in found] == [
        ("openBracket", "alert"),
        ("laterality", "alert"),
        ("sexMismatch", "alert"),
    ]
    checks = {"laterality": "prohibit", "sexMismatch": "silent"}
    response = service.call(
        "PATCH", "/api/admin/sites/SITE1", json={"settings": {"signChecks": checks}}
    )
    assert response.status_code == 200, response.text
    found = page("checks").json()["findings"]
    assert [(each["check"], each["behaviour"]) for each in found] == [
        ("openBracket", "alert"),
        ("laterality", "prohibit"),
    ]
    refused = page("sign", {"version": version})
    assert (refused.status_code, refused.json()["code"]) == (400, "signing_prohibited")
    body = {"clinicalInfo": {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}}
    assert service.post("report/sign", body).status_code == 200


def test_a_reloaded_page_can_write(service: Service) -> None:
    """It names the same tab and gets the lease at once; another tab of the session does not."""
    link = service.launch(userInfo=user(READER)).json()["reportLink"]
    response = service.open(link)
    page = service.session(response)
    assert page("open", {"tab": "a1"}).json()["writable"]
    cookie = response.headers["set-cookie"].partition(";")[0]
    again = service.open(link.partition("?")[0], headers={"cookie": cookie})
    assert not service.session(again)("open", {"tab": "b2"}).json()["writable"]
    reloaded = service.open(link.partition("?")[0], headers={"cookie": cookie})
    assert service.session(reloaded)("open", {"tab": "a1"}).json()["writable"]


def test_each_user_has_one_journal_key_for_a_report(service: Service) -> None:
    """The key is equal for all pages of a user and report, and differs for others."""
    page = service.open_report()
    key = page("report").json()["journalKey"]
    assert len(base64.b64decode(key)) == 32
    assert service.open_report()("report").json()["journalKey"] == key
    assert service.open_report(accession="A2")("report").json()["journalKey"] != key
    service.launch(userInfo=user(OTHER, forceOwnershipTransfer=True))
    theirs = service.launch(userInfo=user(OTHER, forceOwnershipTransfer=True)).json()["reportLink"]
    assert service.session(service.open(theirs))("report").json()["journalKey"] != key
