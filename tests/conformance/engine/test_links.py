"""Links and sessions: how long they live, where they open, what init takes."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import (
    ADMIN,
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


@pytest.mark.parametrize(("framed", "info"), [(False, {}), (True, {"userInfo": user()})])
def test_only_links_with_a_user_open_in_a_frame(
    service: Service, framed: bool, info: dict[str, Any]
) -> None:
    """Rule 5: without userInfo the report does not launch in an iframe."""
    link = ok(service.launch(**info)).json()["reportLink"]
    page = service.open(link, headers={"sec-fetch-dest": "iframe"})
    assert page.status_code == (200 if framed else 403)


@pytest.mark.parametrize("missing", ["UserEmail", "UserName"])
def test_frames_need_both_name_and_address(service: Service, missing: str) -> None:
    """Rule 5: userInfo with UserEmail, UserName and Auth (or an administrator's header)."""
    info = {name: value for name, value in user().items() if name != missing}
    link = ok(service.launch(userInfo=info)).json()["reportLink"]
    assert service.open(link, headers={"sec-fetch-dest": "iframe"}).status_code == 403


def test_a_plain_users_link_is_not_authenticated(service: Service) -> None:
    """Rule 5: only site administrators can create authenticated links for iframe use."""
    link = ok(service.launch(READER, userInfo=user(READER))).json()["reportLink"]
    page = service.open(link)
    assert "Sign in" in page.text
    assert service.open(link, headers={"sec-fetch-dest": "iframe"}).status_code == 403


@pytest.mark.parametrize(
    ("plain", "seconds", "lives"),
    [
        (False, 12 * HOUR - 1, True), (False, 12 * HOUR + 1, False),
        (True, 90 * 24 * HOUR - 1, True), (True, 90 * 24 * HOUR + 1, False),
    ],
)  # fmt: skip
def test_how_long_links_live(service: Service, plain: bool, seconds: int, lives: bool) -> None:
    """Links: an authenticated one 12 hours, one that asks to sign in 90 days."""
    link = ok(service.launch(READER) if plain else service.launch(userInfo=user())).json()[
        "reportLink"
    ]
    service.clock.pass_seconds(seconds)
    assert (service.open(link).status_code == 200) == lives


def test_a_lazy_link_that_expired_creates_nothing(service: Service) -> None:
    """lazyLaunch: what was sealed in a link goes with it."""
    body = ok(service.launch(lazyLaunch=True, userInfo=user())).json()
    service.clock.pass_seconds(12 * HOUR + 1)
    assert service.open(body["reportLink"]).status_code != 200
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


@pytest.mark.parametrize("handle", ["", "x", "A" * 22, "A" * 5000, "../..", "%00", "ä", "'--"])
def test_handles_that_are_none(service: Service, handle: str) -> None:
    """Links: one page for whatever is no link."""
    answer = service.call(
        "GET", "/reporting/launch-report/clinical", None, params={"token": handle}
    )
    assert answer.status_code == 404
    other = service.call(
        "GET", "/reporting/launch-report/clinical", None, params={"token": "B" * 22}
    )
    assert answer.text == other.text


@pytest.mark.parametrize(
    "member", ["PatientMRN", "Accession", "PatientName", "Modality", "KeyFindings", "Metadata"]
)
def test_init_takes_no_study(service: Service, member: str) -> None:
    """init: no patient or study fields are accepted; empty ones are ignored."""
    for value, status in (("x", 400), ("", 200), (None, 200)):
        info = {**INIT["clinicalInfo"], member: value}
        answer = service.post("report/init", {**INIT, "clinicalInfo": info})
        assert answer.status_code == status, answer.text
        query = {"SiteID": "SITE1", "Auth": service.tokens[ADMIN], "UserName": "N",
                 "UserEmail": "n@site1.test", member: value or ""}  # fmt: skip
        page = service.call("GET", "/reporting/init", None, params=query)
        assert page.status_code == (400 if status == 400 else 303)


@pytest.mark.parametrize("who", [READER, FOREIGN])
def test_init_by_the_authority_of_auth(service: Service, who: str) -> None:
    """init: Auth only needed when the header token is not a site administrator token."""
    assert service.post("report/init", INIT, who).status_code == 403
    info = {**INIT["userInfo"], "Auth": service.tokens[ADMIN]}
    ok(service.post("report/init", {**INIT, "userInfo": info}, who))
    for auth in ("", "wrong", service.tokens[FOREIGN]):
        info = {**INIT["userInfo"], "Auth": auth}
        assert service.post("report/init", {**INIT, "userInfo": info}, who).status_code == 403


def test_no_answer_repeats_a_token(service: Service) -> None:
    """Rule 6 of init: tokens are live secrets; no answer repeats one."""
    secret = service.tokens[ADMIN]
    for body in (
        launch_body(userInfo=user(Auth=secret)),
        launch_body(userInfo={"UserEmail": "nobody", "Auth": secret}),
        launch_body(userInfo={"UserEmail": [secret], "Auth": secret}),
    ):
        assert secret not in service.post("report/launch/clinical", body, READER).text
