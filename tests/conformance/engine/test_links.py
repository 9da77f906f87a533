"""Links and sessions: lifetime, frames, and the parameters of init."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    READER,
    Service,
    launch_body,
    user,
)
from tests.conformance.engine.cases import ok

INIT: dict[str, Any] = {
    "clinicalInfo": {"SiteID": "SITE1"},
    "userInfo": {"UserName": "New Person", "UserEmail": "new@site1.test"},
}


HOUR = 3600


@pytest.mark.parametrize("frame", ["iframe", "frame"])
def test_only_links_with_a_user_open_in_a_frame(service: Service, frame: str) -> None:
    """Rule 5: a link without userInfo does not open in an iframe."""
    plain = ok(service.launch()).json()["reportLink"]
    assert service.open(plain, headers={"sec-fetch-dest": frame}).status_code == 403
    assert "frame-ancestors 'none'" in service.open(plain).headers["content-security-policy"]
    link = ok(service.launch(userInfo=user())).json()["reportLink"]
    assert service.open(link, headers={"sec-fetch-dest": frame}).status_code == 200


@pytest.mark.parametrize("missing", ["UserEmail", "UserName"])
def test_frames_require_name_and_address(service: Service, missing: str) -> None:
    """Rule 5: userInfo with UserEmail, UserName and Auth (or an administrator's header)."""
    info = {name: value for name, value in user().items() if name != missing}
    link = ok(service.launch(userInfo=info)).json()["reportLink"]
    assert service.open(link, headers={"sec-fetch-dest": "iframe"}).status_code == 403


@pytest.mark.parametrize(
    ("plain", "seconds", "lives"),
    [
        (False, 12 * HOUR - 1, True), (False, 12 * HOUR + 1, False),
        (True, 90 * 24 * HOUR - 1, True), (True, 90 * 24 * HOUR + 1, False),
    ],
)  # fmt: skip
def test_the_lifetime_of_links(service: Service, plain: bool, seconds: int, lives: bool) -> None:
    """Links: 12 hours for an authenticated link, 90 days for one that requires signing in."""
    link = ok(service.launch(READER) if plain else service.launch(userInfo=user())).json()[
        "reportLink"
    ]
    service.clock.pass_seconds(seconds)
    assert service.open(link).status_code == (200 if lives else 410)


def test_an_expired_lazy_link_creates_nothing(service: Service) -> None:
    """lazyLaunch: the sealed data expires with the link."""
    body = ok(service.launch(lazyLaunch=True, userInfo=user())).json()
    service.clock.pass_seconds(12 * HOUR + 1)
    assert service.open(body["reportLink"]).status_code != 200
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


@pytest.mark.parametrize("handle", ["", "x", "A" * 22, "A" * 5000, "../..", "%00", "ä", "'--"])
def test_unknown_handles(service: Service, handle: str) -> None:
    """Links: the response is equal for unknown and malformed handles."""
    response = service.call(
        "GET", "/reporting/launch-report/clinical", None, params={"token": handle}
    )
    assert response.status_code == 404
    other = service.call(
        "GET", "/reporting/launch-report/clinical", None, params={"token": "B" * 22}
    )
    assert response.text == other.text


@pytest.mark.parametrize(
    "member",
    [
        *("PatientMRN", "Accession", "PatientName", "Modality", "StudyInstanceUID"),
        *("KeyFindings", "Metadata"),
    ],
)
def test_init_accepts_no_study_fields(service: Service, member: str) -> None:
    """init: no patient or study fields are accepted; empty ones are ignored."""
    for value, status in (("x", 400), ("", 200), (None, 200)):
        info = {**INIT["clinicalInfo"], member: value}
        response = service.post("report/init", {**INIT, "clinicalInfo": info})
        assert response.status_code == status, response.text
        assert status == 200 or response.json()["code"] == "study_not_accepted"
        query = {"SiteID": "SITE1", "Auth": service.tokens[ADMIN], "UserName": "N",
                 "UserEmail": "n@site1.test", member: value or ""}  # fmt: skip
        page = service.call("GET", "/reporting/init", None, params=query)
        assert page.status_code == (400 if status == 400 else 303)


@pytest.mark.parametrize("who", [READER, FOREIGN])
def test_init_with_auth(service: Service, who: str) -> None:
    """init: Auth is required if the header token is not that of a site administrator."""
    assert service.post("report/init", INIT, who).status_code == 403
    info = {**INIT["userInfo"], "Auth": service.tokens[ADMIN]}
    ok(service.post("report/init", {**INIT, "userInfo": info}, who))
    for auth in ("", "wrong", service.tokens[FOREIGN]):
        info = {**INIT["userInfo"], "Auth": auth}
        assert service.post("report/init", {**INIT, "userInfo": info}, who).status_code == 403


def test_no_response_contains_a_token(service: Service) -> None:
    """Rule 6 of init: tokens are secrets."""
    secret = service.tokens[ADMIN]
    for body in (
        launch_body(userInfo=user(Auth=secret)),
        launch_body(userInfo={"UserEmail": "no address", "Auth": secret}),
        launch_body(userInfo={"UserEmail": [secret], "Auth": secret}),
    ):
        assert secret not in service.post("report/launch/clinical", body, READER).text


WHO = user("new@site1.test", "New Person")


def browser(service: Service, *more: tuple[str, str], who: str = ADMIN, **headers: str) -> Any:
    query = [("SiteID", "SITE1"), ("Auth", service.tokens.get(who, who)), *WHO.items(), *more]
    return service.open(f"{BASE}/reporting/init?{urlencode(query)}", headers=headers)


def test_a_repeated_study_parameter_with_a_value_is_rejected(service: Service) -> None:
    """Rule 1: empty values are ignored; a value is rejected before and after an empty one."""
    assert browser(service, ("PatientMRN", ""), ("Accession", " ")).status_code == 303
    for repeated in (("", "P1"), ("P1", "")):
        more = [("PatientMRN", item) for item in repeated]
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
    emails = [row["email"] for row in service.get("admin/sites/SITE1/users").json()]
    assert WHO["UserEmail"] not in emails


def test_a_user_who_launches_with_auth_becomes_a_member(service: Service) -> None:
    """Rule 6: unknown users are registered on the site at their first launch."""
    info = {"Auth": service.tokens[ADMIN]}
    response = ok(service.launch(FOREIGN, userInfo=info)).json()
    assert response["owner"]["email"] == FOREIGN
    assert service.session(service.open(response["reportLink"]))("report").status_code == 200
    members = service.get("admin/sites/SITE1/users").json()
    assert {member["email"]: member["role"] for member in members}[FOREIGN] == "user"
