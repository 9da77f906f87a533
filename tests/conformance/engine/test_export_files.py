"""export/pdf, which only the bridge may use, and the number of addenda in a file."""

import re
import zlib
from typing import Any

import pytest
from striprtf.striprtf import rtf_to_text

from tests.conformance.engine.cases import Case, ok


@pytest.fixture
def report(case: Case) -> Case:
    """A signed report with two addenda."""
    case.draft("A1", "Clear lungs.")
    case.sign("A1", now=True)
    case.addendum("A1", "Earlier text.", "Later text.")
    return case


def test_the_response_is_a_pdf(report: Case) -> None:
    """export/pdf: the media type and the bytes of a PDF."""
    response = ok(report.post("export/pdf", "A1", "service"))
    assert response.headers["content-type"] == "application/pdf"
    assert response.content.startswith(b"%PDF-")
    assert response.content.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("kind", ["pdf", "docx", "PDF"])
def test_no_pdf_and_no_docx_for_integrators(report: Case, kind: str) -> None:
    """What the service does 8: PDF and DOCX are available inside the app only."""
    response = report.post(f"export/{kind}", "A1")
    assert (response.status_code, response.json()["code"]) == (404, "no_such_path")
    described = report.service.call("GET", "/openapi.json", None).json()["paths"]
    assert {each for each in described if each.startswith("/api/report/export/")} == {
        f"/api/report/export/{each}" for each in ("html", "json", "rtf")
    }


@pytest.mark.parametrize(("addenda", "shown"), [(0, []), (1, ["Earlier"]), (None, ["E", "L"])])
def test_the_number_of_addenda_in_an_rtf(
    report: Case, addenda: int | None, shown: list[str]
) -> None:
    """export/rtf: `addenda` limits the number; without it all are included."""
    more: dict[str, Any] = {} if addenda is None else {"addenda": addenda}
    text = rtf_to_text(ok(report.post("export/rtf", "A1", **more)).content.decode())
    assert "Clear lungs." in text
    assert ("Earlier text." in text) == (len(shown) > 0)
    assert ("Later text." in text) == (len(shown) > 1)


def test_the_number_of_addenda_in_a_pdf(report: Case) -> None:
    """export/pdf: fewer addenda give fewer text operators."""

    def size(**more: int) -> int:
        return text_operators(ok(report.post("export/pdf", "A1", "service", **more)).content)

    sizes = [size(addenda=count) for count in (0, 1, 2)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert size() == sizes[2]


def text_operators(pdf: bytes) -> int:
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    return sum(len(re.findall(rb"T[jJ]\b", unpacked(each))) for each in streams)


def unpacked(stream: bytes) -> bytes:
    """Return the content of a deflated stream; empty for others."""
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize("wrong", [-1, "1", 1.5, True, 10_001])
@pytest.mark.parametrize("path", ["export/pdf", "export/rtf"])
def test_an_invalid_number_of_addenda_is_refused(report: Case, path: str, wrong: object) -> None:
    """`addenda` is an integer from 0 to 10,000."""
    assert report.post(path, "A1", addenda=wrong).status_code == 400


def test_a_pdf_of_an_unknown_report_or_zone_is_refused(case: Case) -> None:
    """export/pdf: 404 and 400."""
    assert case.post("export/pdf", "A1", "service").status_code == 404
    case.draft("A1")
    assert case.post("export/pdf", "A1", "service", timeZone="Mars/Base").status_code == 400
