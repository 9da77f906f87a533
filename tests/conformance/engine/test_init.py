"""init by POST and by the browser: no study fields, signed-in users, and authority."""

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


def test_a_repeated_study_parameter_with_a_value_is_rejected(service: Service) -> None:
    """Rule 1: empty values are ignored; a value is rejected before and after an empty one."""
    assert browser(service, ("PatientMRN", ""), ("Accession", " ")).status_code == 303
    for repeated in (("", "P1"), ("P1", "")):
        more = [("PatientMRN", each) for each in repeated]
        response = browser(service, *more)
        assert response.status_code == 400
        assert "P1" not in response.text


@pytest.mark.parametrize(
    "stray", [{"PatientMRN": "P1"}, {"dicomSR": [{"fileData": "AAAA"}]}, {"Metadata": {"a": 1}}]
)
def test_study_fields_outside_clinical_info_are_refused(
    service: Service, stray: dict[str, Any]
) -> None:
    """init: no patient or study fields are accepted; empty ones are ignored."""
    body = {"clinicalInfo": {"SiteID": "SITE1", "PatientName": "  "}, "userInfo": WHO}
    ok(service.post("report/init", {**body, **dict.fromkeys(stray)}))
    response = service.post("report/init", {**body, **stray})
    assert (response.status_code, response.json()["code"]) == (400, "study_not_accepted")
    assert response.json()["errors"][0]["pointer"] == f"/{next(iter(stray))}"


def test_a_signed_in_user_names_one_of_their_sites(service: Service) -> None:
    """Auth, UserName and UserEmail may be omitted there."""
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
def test_auth_needs_the_scope_of_the_request(service: Service, scope: str) -> None:
    """A token with another scope has no authority as Auth either."""
    body = {"email": ADMIN, "scopes": [scope]}
    secret = ok(service.post("admin/sites/SITE1/tokens", body)).json()["token"]
    info = {**WHO, "Auth": secret}
    assert service.launch(READER, userInfo=info).status_code == 403
    init = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": info}
    assert service.post("report/init", init, READER).status_code == 403
    assert browser(service, who=secret).status_code == 403
    emails = [each["email"] for each in service.get("admin/sites/SITE1/users").json()]
    assert WHO["UserEmail"] not in emails


def test_a_user_who_launches_with_auth_becomes_a_member(service: Service) -> None:
    """Rule 6: unknown users are registered on the site at their first launch."""
    info = {"Auth": service.tokens[ADMIN]}
    response = ok(service.launch(FOREIGN, userInfo=info)).json()
    assert response["owner"]["email"] == FOREIGN
    assert service.session(service.open(response["reportLink"]))("report").status_code == 200
    members = service.get("admin/sites/SITE1/users").json()
    assert {each["email"]: each["role"] for each in members}[FOREIGN] == "user"
