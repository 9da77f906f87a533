"""Launches with a merged identifier: they are the survivor's, or of another person."""

from typing import Any

from tests.bridge.engine.http.engine_service import Service

MERGE = {"SiteID": "SITE1", "PatientMRN": "KEPT", "PriorPatientMRN": "OLD"}


def launched(service: Service, accession: str, mrn: str, birth: str, **options: Any) -> int:
    tags = {"PatientMRN": mrn, "PatientName": "SAME^NAME", "PatientBirthDate": birth}
    return service.launch(accession=accession, mrn=mrn, tags=tags, **options).status_code


def test_another_birth_date_is_another_person(service: Service) -> None:
    """A launch with the merged number is refused, and accepted when the merge is undone."""
    assert launched(service, "A1", "KEPT", "19800203") == 200
    assert service.post("patient/merge", MERGE).status_code == 200
    assert launched(service, "A2", "OLD", "19800203") == 200
    assert launched(service, "A3", "OLD", "1961-06-07") == 409
    assert launched(service, "A3", "OLD", "19610607", lazyLaunch=True) == 409
    for _ in range(2):
        assert service.post("patient/unmerge", MERGE).status_code == 200
    assert launched(service, "A3", "OLD", "19610607") == 200
    rows = service.get("worklist", SiteID="SITE1").json()["items"]
    found = {each["Accession"]: each["PatientMRN"] for row in rows for each in row["clinicalInfo"]}
    assert found == {"A1": "KEPT", "A2": "KEPT", "A3": "OLD"}
