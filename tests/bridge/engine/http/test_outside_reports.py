"""Reports that were not made here: the endpoint, and the priors of the report page."""

import base64
from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import Service, identity

PDF, OTHER_PDF = b"%PDF-1.7\n%%EOF\n", b"%PDF-1.4\n%%EOF\n"


def files_of(*pdfs: bytes) -> list[str]:
    return [base64.b64encode(pdf).decode() for pdf in pdfs]


def body(**values: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        **identity(accession="NIGHT"),
        "sender": "NIGHTREADS|NORTH",
        "number": "F1",
        "reportStatus": "final",
        "text": "No acute <b>finding</b>.",
        "StudyDescription": "CT chest",
        "StudyDate": "20260109",
        "Modality": "CT",
    }
    return known | values


def test_a_prior_that_was_not_made_here(service: Service) -> None:
    """It is listed, ranked and read as a prior; markup in its text is text."""
    assert service.post("report/outside", body()).status_code == 200
    page = service.open_report(accession="NOW", tags={"StudyDate": "20260110", "Modality": "CT"})
    (listed,) = page("priors").json()["priors"]
    assert (listed["outside"]["sender"], listed["compare"]) == ("NIGHTREADS NORTH", True)
    read = page(f"priors/{listed['reportId']}").json()
    (block,) = read["document"]["content"]
    assert block["content"] == [{"type": "text", "text": "No acute <b>finding</b>."}]


def test_a_withdrawn_report_is_not_compared(service: Service) -> None:
    service.post("report/outside", body(sentAt=1))
    service.post("report/outside", body(sentAt=2, reportStatus="withdrawn", text=""))
    page = service.open_report(accession="NOW", tags={"StudyDate": "20260110", "Modality": "CT"})
    (listed,) = page("priors").json()["priors"]
    assert listed["outside"]["withdrawn"]
    assert not listed["compare"]


def test_pdf_is_a_file(service: Service) -> None:
    """The page gets the PDF as a download, only of the patient's own reports."""
    service.post("report/outside", body(pdfs=files_of(PDF, OTHER_PDF)))
    page = service.open_report(accession="NOW")
    (listed,) = page("priors").json()["priors"]
    (version,) = page(f"priors/{listed['reportId']}").json()["versions"]
    files = f"priors/{listed['reportId']}/versions/{version['version']}/pdf"
    address = f"{files}/1"
    assert version["pdfs"] == 2
    assert page(f"{files}/2").content == OTHER_PDF
    assert page(f"{files}/3").status_code == 404
    found = page(address)
    assert (found.content, found.headers["content-type"]) == (PDF, "application/pdf")
    assert found.headers["content-disposition"].startswith("attachment")
    other = service.open_report(mrn="OTHER", accession="NOW")
    assert other(address).status_code == 404
    assert other(f"priors/{listed['reportId']}").status_code == 404


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"pdfs": ["%%%"]}, "bad_base64"),
        ({"pdfs": [base64.b64encode(b"MZ").decode()]}, "bad_pdf"),
        ({"pdfs": ["A" * (16 * 2**20 // 3 * 4 + 64)]}, "file_too_large"),
        ({"text": "x" * 1_000_001}, "invalid_request"),
        ({"PatientMRN": "", "Accession": ""}, "outside_of_nobody"),
        ({"number": ""}, "invalid_request"),
        ({"reportStatus": "done"}, "invalid_request"),
    ],
    ids=["base64", "no-pdf", "size", "text", "nobody", "number", "status"],
)
def test_bad_bodies(service: Service, values: dict[str, Any], code: str) -> None:
    refused = service.post("report/outside", body(**values))
    assert (refused.status_code // 100, refused.json()["code"]) == (4, code)


def test_a_document_of_another_patient(service: Service) -> None:
    service.post("report/outside", body())
    refused = service.post("report/outside", body(PatientMRN="OTHER", text="Other."))
    assert (refused.status_code, refused.json()["code"]) == (409, "outside_of_other_patient")


def test_the_reports_of_an_order(service: Service) -> None:
    """An administrator of the site reads all versions with their texts."""
    service.post("report/outside", body(sentAt=1, reportStatus="preliminary", text="First."))
    service.post("report/outside", body(sentAt=2, pdfs=files_of(PDF)))
    service.launch()
    (found,) = service.get("report/outside-reports", **identity()).json()["reports"]
    assert (found["Accession"], found["sender"]) == ("NIGHT", "NIGHTREADS NORTH")
    assert [
        (version["status"], version["text"], version["pdfs"]) for version in found["versions"]
    ] == [
        ("final", "No acute <b>finding</b>.", 1),
        ("preliminary", "First.", 0),
    ]
    assert service.get("report/outside-reports", **identity(mrn="OTHER")).status_code == 404
