"""Validation of launches: refusals, warnings, normalization."""

import base64
from typing import Any

import pytest

from bridge.engine.settings import EngineSettings
from tests.bridge.engine.http.engine_service import Service, identity, launch_body


@pytest.mark.parametrize("member", ["clinicalInfo", "reportingApp", "response"])
def test_the_required_objects(service: Service, member: str) -> None:
    """Launch: clinicalInfo, reportingApp and response are required."""
    body = launch_body()
    del body[member]
    response = service.post("report/launch/clinical", body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == f"/{member}"


WRONG: dict[str, dict[str, Any]] = {
    "response type": {"response": {"type": "fax"}},
    "lazyLaunch as text": {"lazyLaunch": "yes"},
    "language": {"reportingApp": {"AppLanguage": "tlh"}},
    "template": {"reportingApp": {"ApplyTemplate": "one"}},
    "tag as object": {"tags": {"Modality": {}}},
    "Metadata as text": {"tags": {"Metadata": "x"}},
    "Metadata as list": {"tags": {"Metadata": []}},
    "user without an address": {"userInfo": {"UserEmail": "no address", "UserName": "N"}},
    "SR not DICOM": {"dicomSR": [{"fileData": base64.b64encode(b"no").decode()}]},
    "force without a name": {"forceUpdatePatientName": True},
}


def test_invalid_launches_are_400_and_create_nothing(service: Service) -> None:
    """Launch: each is refused with its place, lazy launches too."""
    for name, changes in WRONG.items():
        for lazy in ({}, {"lazyLaunch": True}):
            response = service.launch(**{**lazy, **changes})
            assert response.status_code == 400, (name, response.text)
            assert response.json()["errors"][0]["pointer"]
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_a_batch_has_a_limit(service: Service) -> None:
    """A batch with more launches than the settings allow is refused."""
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys)
    response = service.post("report/launch/clinical/batch", [{}] * 501, "service")
    assert (response.status_code, response.json()["code"]) == (400, "batch_too_large")


def test_every_missing_tag_is_reported(service: Service) -> None:
    """`errors` has the place of each error."""

    def places(body: Any) -> set[str]:
        response = service.post("report/launch/clinical", body)
        assert response.status_code == 400, response.text
        return {each["pointer"] for each in response.json()["errors"]}

    both = {"/clinicalInfo/PatientMRN", "/clinicalInfo/Accession"}
    body = launch_body()
    for name in ("PatientMRN", "Accession"):
        body["clinicalInfo"][name] = " "
    assert places(body) == both
    del body["clinicalInfo"]["SiteID"], body["clinicalInfo"]["Accession"]
    assert places(body) == {"/clinicalInfo/SiteID", *both}
    del body["reportingApp"]
    assert places({**body, "lazyLaunch": "{x}"}) == {
        *("/clinicalInfo/SiteID", "/reportingApp", "/lazyLaunch"),
        *both,
    }
    one = launch_body(mrn="")
    assert places(one) == {"/clinicalInfo/PatientMRN"}
    (problem,) = service.post("report/launch/clinical/batch", [{"clinicalInfo": {}}]).json()
    assert both < {each["pointer"] for each in problem["errors"]}


@pytest.mark.parametrize("hidden", ["\n", "\r\n", "\t", "\u202e", "\u2066", "\u200b", "\ufeff"])
def test_identifiers_have_no_invisible_characters(service: Service, hidden: str) -> None:
    """Identifiers that look equal are equal: others are 400 with the place, on every route."""
    for name, changes in (
        ("PatientMRN", {"mrn": f"P{hidden}1"}),
        ("Accession", {"accession": f"A{hidden}1"}),
    ):
        refused = service.launch(**changes)
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["pointer"] == f"/clinicalInfo/{name}"
        status = service.post("report/status", {"clinicalInfo": [identity(**changes)]})
        assert status.json()["errors"][0]["pointer"] == f"/clinicalInfo/0/{name}"
    merge = {"SiteID": "SITE1", "PatientMRN": "P1", "PriorPatientMRN": f"P{hidden}0"}
    assert service.post("patient/merge", merge).json()["errors"][0]["pointer"] == "/PriorPatientMRN"
    content = service.get("report/content", **identity(mrn=f"P{hidden}1"))
    assert (content.status_code, content.json()["errors"][0]["pointer"]) == (400, "PatientMRN")


def test_a_name_in_two_scripts_is_one_name(service: Service) -> None:
    """The component groups of a person name are compared one by one."""
    first = service.launch(tags={"PatientName": "Yamada^Tarou=山田^太郎"})
    same = service.launch(accession="A2", tags={"PatientName": "山田^太郎"})
    other = service.launch(accession="A3", tags={"PatientName": "山田^花子"})
    assert (first.status_code, same.status_code, other.status_code) == (200, 200, 409)
