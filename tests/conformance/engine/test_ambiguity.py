"""Contradictions within a request, and the order of the checks."""

import base64

import pytest

from tests.bridge.engine.http.engine_service import ADMIN, FOREIGN, READER, Service, identity
from tests.conformance.engine.cases import Case, ok


@pytest.mark.parametrize(
    "body",
    [
        '{"clinicalInfo": [], "clinicalInfo": [{"SiteID": "SITE1"}]}',
        '{"clinicalInfo": [{"PatientMRN": "P1", "PatientMRN": "P2", "Accession": "A1"}]}',
    ],
)
def test_a_duplicate_member_is_refused(service: Service, body: str) -> None:
    """Order identity: a request with two values of one identifier names no patient."""
    headers = {"content-type": "application/json"}
    response = service.call("POST", "/api/report/status", content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_json")
    assert "P2" not in response.text


def test_a_query_parameter_with_two_values_is_refused(case: Case) -> None:
    """content, site/prelims: one patient, one site. Equal values are accepted."""
    case.draft("A1")
    query = "SiteID=SITE1&PatientMRN=P1&Accession=A1"
    path = f"/api/report/content?{query}"
    ok(case.service.call("GET", path))
    ok(case.service.call("GET", f"{path}&PatientMRN=P1"))
    for more in ("PatientMRN=P2", "SiteID=SITE2", "Accession="):
        response = case.service.call("GET", f"{path}&{more}")
        assert response.status_code == 400, more
        assert response.json()["errors"][0]["pointer"] == more.partition("=")[0]
    prelims = "/api/report/site/prelims?SiteID=SITE1&prelimGroup=G&prelimTag=T&prelimTag=U"
    assert case.service.call("GET", prelims).status_code == 400


def test_site_and_role_are_checked_before_files(case: Case) -> None:
    """update-dicomsr: 404 and 403 come before the 400 of an invalid file."""
    case.draft("A1")
    files = {"dicomSR": [{"fileData": base64.b64encode(b"no DICOM").decode()}]}
    for who, site, status in (
        (FOREIGN, "SITE1", 403),
        (READER, "SITE1", 403),
        (ADMIN, "NOWHERE", 404),
        (ADMIN, "SITE1", 400),
    ):
        body = {"clinicalInfo": identity("A1", site=site), **files}
        assert case.service.post("report/update-dicomsr", body, who).status_code == status, who
