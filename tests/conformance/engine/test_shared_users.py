"""Isolation of users: a site cannot read or change the data of a user on another site."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from bridge.engine.service.accounts import users
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    FOREIGN,
    READER,
    Service,
    boot,
    identity,
    launch_body,
)
from tests.conformance.engine.cases import Case, ok
from tests.conftest import database_url

__all__ = ["database_url"]  # both databases

UNKNOWN = "unknown@site3.test"
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk"
    "YAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def _init(service: Service, email: str) -> httpx.Response:
    info = {"UserEmail": email, "UserName": "Given Here"}
    return service.post("report/init", {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": info})


def _launch(service: Service, email: str, name: str, mrn: str = "P1") -> httpx.Response:
    info = {"UserEmail": email, "UserName": name}
    return service.post("report/launch/clinical", launch_body("A1", mrn, userInfo=info))


REQUESTS: dict[str, Callable[[Service, str], httpx.Response]] = {
    "init": _init,
    "launch without a name": lambda service, email: _launch(service, email, ""),
    "launch": lambda service, email: _launch(service, email, "Given Here"),
    "launch by their name": lambda service, email: _launch(service, email, "", "Foreign Person"),
    "user": lambda service, email: service.post(
        "admin/sites/SITE1/users", {"email": email, "name": "Given Here"}
    ),
    "users": lambda service, _: service.get("admin/sites/SITE1/users"),
    "token": lambda service, email: service.post("admin/sites/SITE1/tokens", {"email": email}),
    "tokens": lambda service, _: service.get("admin/sites/SITE1/tokens"),
    "signature": lambda service, email: service.call(
        "PUT", f"/api/admin/sites/SITE1/users/{email}/signature", json={"signature": PICTURE}
    ),
    "status": lambda service, _: service.post("report/status", {"clinicalInfo": [identity("A1")]}),
    "worklist": lambda service, _: service.get("worklist", SiteID="SITE1"),
    "removed": lambda service, email: service.call(
        "DELETE", f"/api/admin/sites/SITE1/users/{email}"
    ),
}


def about_user(response: httpx.Response, email: str) -> Any:
    """Return the part of a response about a user, without ids and times."""
    body = response.json() if response.content else None
    if isinstance(body, list):
        body = [item for item in body if email in item.values()]
    return response.status_code, _plain(body, email)


def _plain(value: Any, email: str) -> Any:
    if isinstance(value, dict):
        varies = ("id", "token", "reportId", "reportLink", "createdAt", "updatedAt", "requestId")
        return {
            name: name if name in varies else _plain(item, email) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_plain(item, email) for item in value]
    if isinstance(value, str) and "token=" in value:
        return value.partition("&")[2]
    return value.replace(email, "EMAIL") if isinstance(value, str) else value


@pytest.fixture
def known(service: Service) -> Service:
    """SITE2 has name, languages and signature of its administrator."""
    with service.database.write() as connection:
        account = users.find_account(connection, FOREIGN)
        assert account is not None
        chosen = {"AppLanguage": "ja-JP", "SpeechLanguage": "ko-KR", "signatureText": "Secret"}
        users.update_membership(connection, account.id, settings=chosen, signature=PICTURE)
    service.clock.pass_seconds(1)
    return service


def test_responses_do_not_reveal_users_of_other_sites(known: Service) -> None:
    """Authentication 6: every response equals that for an unknown address."""
    responses = {}
    for email in (UNKNOWN, FOREIGN):
        responses[email] = {
            name: about_user(ask(known, email), email) for name, ask in REQUESTS.items()
        }
        for mrn in ("P1", "Foreign Person"):
            ok(known.post("report/delete", {"clinicalInfo": identity("A1", mrn)}))
    assert responses[FOREIGN] == responses[UNKNOWN]
    assert responses[FOREIGN]["launch without a name"][1]["owner"]["name"] == "Given Here"


def test_each_site_has_its_own_name_for_a_user(case: Case) -> None:
    """userInfo: UserName applies to the signatures of this site only."""
    service = case.service
    ok(_launch(service, FOREIGN, "Doctor Here"))
    ok(case.post("sign", "A1"))
    assert case.export("A1")["reportInfo"]["signedBy"] == {
        "name": "Doctor Here",
        "email": FOREIGN,
        "signature": None,
    }
    members = ok(service.get("admin/sites/SITE2/users", FOREIGN)).json()
    assert [member["name"] for member in members] == ["Admin Person"]
    own = ok(service.launch(FOREIGN, site="SITE2")).json()["owner"]
    assert own == {"name": "Admin Person", "email": FOREIGN}


def test_signatures_of_a_removed_user_are_kept(case: Case) -> None:
    """Users: a removed user cannot sign again."""
    case.draft("A1")
    case.draft("A3")
    ok(case.post("sign", "A1"))
    ok(case.service.call("DELETE", f"/api/admin/sites/SITE1/users/{READER}"))
    assert case.service.launch(READER, accession="A2").status_code == 403
    assert case.record("A3")["userEmail"] == READER
    assert case.post("sign", "A3").status_code == 403
    assert case.export("A1")["reportInfo"]["signedBy"]["name"] == "Reader Person"
    ok(case.service.post("admin/sites/SITE1/users", {"email": READER}))
    listed = ok(case.service.get("admin/sites/SITE1/users")).json()
    assert {"email": READER, "name": "Reader Person", "role": "user", "disabled": False} in listed


def test_a_token_is_valid_for_the_site_of_its_creator_only(service: Service) -> None:
    """Authentication 4: it does not include the roles of the user on other sites."""
    ok(service.post("admin/sites/SITE1/users", {"email": FOREIGN, "role": "administrator"}))
    made = ok(service.post("admin/sites/SITE1/tokens", {"email": FOREIGN})).json()
    assert service.get("admin/sites", made["token"]).json()[0]["SiteID"] == "SITE1"
    assert len(service.get("admin/sites", made["token"]).json()) == 1
    assert service.get("worklist", made["token"], SiteID="SITE1").status_code == 200
    assert service.get("worklist", made["token"], SiteID="SITE2").status_code == 403
    assert service.launch(made["token"], site="SITE2").status_code == 403
    info = {"UserEmail": READER, "UserName": "R", "Auth": made["token"]}
    assert service.launch(READER, site="SITE2", userInfo=info).status_code == 403
    assert made["id"] not in _ids(service, "SITE2", FOREIGN)
    assert service.call("DELETE", f"/api/admin/sites/SITE2/tokens/{made['id']}", FOREIGN).is_error
    assert made["id"] in _ids(service, "SITE1", ADMIN)
    ok(service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{made['id']}"))
    assert service.get("worklist", made["token"], SiteID="SITE1").status_code == 401


def test_tokens_of_a_shared_user_belong_to_one_site(service: Service) -> None:
    """Isolation: another site can neither list nor revoke them."""
    theirs = _ids(service, "SITE2", FOREIGN)
    service.clock.pass_seconds(1)
    ok(service.post("admin/sites/SITE1/users", {"email": FOREIGN}))
    assert not set(theirs) & set(_ids(service, "SITE1", ADMIN))
    for their in theirs:
        assert service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{their}").status_code == 404
    assert _ids(service, "SITE2", FOREIGN) == theirs


def _ids(service: Service, site: str, who: str) -> list[int]:
    return [row["id"] for row in ok(service.get(f"admin/sites/{site}/tokens", who)).json()]


@pytest.mark.parametrize("email", [UNKNOWN, FOREIGN])
def test_a_site_administrator_sets_no_password(service: Service, email: str) -> None:
    """Isolation: only the owner sets the password of an account."""
    body = {"email": email, "name": "Shared", "password": "chosen by another"}
    response = service.post("admin/sites/SITE1/users", body)
    assert (response.status_code, response.json()["code"]) == (400, "password_not_accepted")
    del body["password"]
    made = ok(service.post("admin/sites/SITE1/users", body)).json()
    assert made == {"email": email, "name": "Shared", "role": "user"}
    form = {"email": email, "password": "chosen by another"}
    origin = {"origin": BASE}
    response = service.call("POST", "/reporting/login", None, data=form, headers=origin)
    assert response.status_code == 401


def test_the_session_of_a_link_is_valid_for_its_site_only(service: Service) -> None:
    """Authentication 5: on another site the user must sign in."""
    plain = ok(service.launch(READER, accession="A1")).json()["reportLink"]
    info = {"UserEmail": READER, "UserName": "Shared"}
    made = ok(service.launch(FOREIGN, site="SITE2", userInfo=info)).json()["reportLink"]
    ok(service.open(made))  # the browser keeps the cookie
    response = ok(service.open(plain))
    assert boot(response)["mode"] == "login"
    assert service.open(f"{BASE}/reporting/init?SiteID=SITE1").status_code == 401
    assert service.open(f"{BASE}/reporting/init?SiteID=SITE2").status_code == 200
