"""init, in both forms: no study, whoever is signed in, and on whose authority."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.bridge.engine.http.engine_service import ADMIN, BASE, FOREIGN, READER, Service, user
from tests.conformance.engine.cases import ok

WHO = user("new@site1.test", "New Person")


def browser(service: Service, *more: tuple[str, str], who: str = ADMIN, **headers: str) -> Any:
    """Load the browser route."""
    query = [("SiteID", "SITE1"), ("Auth", service.tokens.get(who, who)), *WHO.items(), *more]
    return service.open(f"{BASE}/reporting/init?{urlencode(query)}", headers=headers)


def test_a_study_parameter_with_a_value_is_rejected_wherever_it_stands(service: Service) -> None:
    """Rule 1: empty values are ignored, a value is rejected, behind an empty one too."""
    assert browser(service, ("PatientMRN", ""), ("Accession", " ")).status_code == 303
    for repeated in (("", "P1"), ("P1", "")):
        more = [("PatientMRN", each) for each in repeated]
        answer = browser(service, *more)
        assert answer.status_code == 400
        assert "P1" not in answer.text


@pytest.mark.parametrize(
    "stray",
    [{"PatientMRN": "P1"}, {"dicomSR": [{"fileData": "AAAA"}]}, {"Metadata": {"a": 1}}],
)
def test_no_study_fields_beside_clinical_info(service: Service, stray: dict[str, Any]) -> None:
    """init: no patient or study fields are accepted; empty ones are none."""
    body = {"clinicalInfo": {"SiteID": "SITE1", "PatientName": "  "}, "userInfo": WHO}
    ok(service.post("report/init", {**body, **dict.fromkeys(stray)}))
    answer = service.post("report/init", {**body, **stray})
    assert (answer.status_code, answer.json()["code"]) == (400, "study_not_accepted")
    assert answer.json()["errors"][0]["pointer"] == f"/{next(iter(stray))}"


def test_whoever_is_signed_in_names_a_site_of_theirs(service: Service) -> None:
    """Auth, UserName and UserEmail may be omitted by a signed-in user, on a site of theirs."""
    link = ok(
        service.post("report/init", {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": WHO})
    ).json()["sessionLink"]
    cookie = {"cookie": service.open(link).headers["set-cookie"].partition(";")[0]}
    for site, status in (("SITE1", 200), ("SITE2", 401), ("NOWHERE", 401)):
        address = f"{BASE}/reporting/init?SiteID={site}"
        assert service.open(address, headers=cookie).status_code == status, site
        framed = {**cookie, "sec-fetch-dest": "iframe"}
        assert service.open(address, headers=framed).status_code != 200


@pytest.mark.parametrize("scope", ["read", "write", "admin"])
def test_a_token_of_another_scope_lends_no_authority(service: Service, scope: str) -> None:
    """Token scopes: what a token may not do by itself, it does not do as Auth either."""
    body = {"email": ADMIN, "scopes": [scope]}
    secret = ok(service.post("admin/sites/SITE1/tokens", body)).json()["token"]
    info = {**WHO, "Auth": secret}
    assert service.launch(READER, userInfo=info).status_code == 403
    init = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": info}
    assert service.post("report/init", init, READER).status_code == 403
    assert browser(service, who=secret).status_code == 403
    emails = [each["email"] for each in service.get("admin/sites/SITE1/users").json()]
    assert WHO["UserEmail"] not in emails


def test_whoever_launches_on_anothers_authority_is_a_member(service: Service) -> None:
    """Rule 6: users not yet known are registered on the site when first seen."""
    info = {"Auth": service.tokens[ADMIN]}
    answer = ok(service.launch(FOREIGN, userInfo=info)).json()
    assert answer["owner"]["email"] == FOREIGN
    assert service.session(service.open(answer["reportLink"]))("report").status_code == 200
    members = service.get("admin/sites/SITE1/users").json()
    assert {each["email"]: each["role"] for each in members}[FOREIGN] == "user"
