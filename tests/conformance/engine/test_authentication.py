"""Authentication: tokens, roles, isolation of sites."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    READER,
    Service,
    identity,
    user,
)
from tests.bridge.engine.http.test_guard import ADMINISTRATIVE
from tests.conformance.engine.cases import Case, ok

HOUR = 3600


READING = {
    "report/content": identity(),
    "report/site/prelims": {"SiteID": "SITE1", "prelimGroup": "G", "prelimTag": "T"},
    "worklist": {"SiteID": "SITE1"},
}


def without_id(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of a response without the request id."""
    return response.status_code, {**response.json(), "requestId": ""}


@pytest.mark.parametrize("token", ["", " ", "rbt_", "x" * 513, "x" * 100_000, "rbt_\tA", "null"])
def test_no_valid_token(service: Service, token: str) -> None:
    """Rule 1: every request without a valid token fails, also if its body is invalid."""
    for path in (*ADMINISTRATIVE, "report/launch/clinical", "report/init"):
        for who in (None, token):
            response = service.call("POST", f"/api/{path}", who, content=b"{ not json")
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
    for path, query in READING.items():
        assert service.get(path, token, **query).status_code == 401


def test_a_token_in_another_place_is_ignored(service: Service) -> None:
    """Rule 1: only the header x-access-token is read."""
    token = service.tokens[ADMIN]
    for headers in ({"authorization": f"Bearer {token}"}, {"cookie": f"x-access-token={token}"}):
        assert service.post("report/status", {}, None, headers=headers).status_code == 401
    query = {"x-access-token": token, "Auth": token, "token": token}
    assert service.call("GET", "/api/worklist", None, params=query).status_code == 401
    response = service.call(
        "GET", "/api/worklist?SiteID=SITE1", None, headers={"X-ACCESS-TOKEN": token}
    )
    assert response.status_code == 200  # header names ignore case


def ask(service: Service, path: str, who: str, site: str = "SITE1") -> httpx.Response:
    """Send a request about a site."""
    if path in READING:
        return service.get(path, who, **{**READING[path], "SiteID": site})
    body = json.loads(json.dumps(ADMINISTRATIVE[path]).replace("SITE1", site))
    return service.post(path, body, who)


@pytest.mark.parametrize("path", [*ADMINISTRATIVE, *READING])
def test_an_unknown_site_is_404_before_the_role_is_checked(service: Service, path: str) -> None:
    for who in (READER, ADMIN):
        response = ask(service, path, who, "NOWHERE")
        assert (response.status_code, response.json()["code"]) == (404, "site_not_found")


@pytest.mark.parametrize("path", [*ADMINISTRATIVE, *READING])
def test_an_administrator_of_another_site_learns_nothing(case: Case, path: str) -> None:
    """Isolation: the response does not depend on the reports of the site."""
    before = without_id(ask(case.service, path, FOREIGN))
    case.draft("A1")
    case.order("A2")
    drafted = without_id(ask(case.service, path, FOREIGN))
    case.sign("A1")
    assert before == drafted == without_id(ask(case.service, path, FOREIGN))
    assert before[0] == 403


def test_administering_another_site(service: Service) -> None:
    """Isolation: users, tokens, settings and lists of another site are not accessible."""
    known = ok(service.get("admin/sites/SITE1/tokens")).json()
    for method, path, body in (
        ("GET", "", None), ("PUT", "", {"name": "Mine"}), ("GET", "/users", None),
        ("POST", "/users", {"email": FOREIGN, "role": "administrator"}),
        ("GET", "/tokens", None), ("POST", "/tokens", {"email": READER}),
        ("DELETE", f"/tokens/{known[0]['id']}", None), ("GET", "/prelim-groups", None),
        ("GET", "/templates", None), ("PUT", "/templates/1", {"name": "x", "document": {}}),
    ):  # fmt: skip
        options = {} if body is None else {"json": body}
        response = service.call(method, f"/api/admin/sites/SITE1{path}", FOREIGN, **options)
        assert response.status_code in (400, 403), (method, path)
        assert "First" not in response.text
    assert [each["SiteID"] for each in service.get("admin/sites", FOREIGN).json()] == ["SITE2"]
    assert service.get("admin/sites", READER).json() == []


def test_a_token_of_another_site_is_not_revoked(service: Service) -> None:
    """Isolation: the response equals that for an unknown id."""
    own = ok(service.get("admin/sites/SITE1/tokens")).json()[0]["id"]
    response = service.call("DELETE", f"/api/admin/sites/SITE2/tokens/{own}", FOREIGN)
    assert response.status_code == 404
    other = service.call("DELETE", "/api/admin/sites/SITE2/tokens/99999", FOREIGN)
    assert without_id(response)[1] | {"instance": ""} == without_id(other)[1] | {"instance": ""}
    assert service.get("worklist", SiteID="SITE1").status_code == 200


def token(service: Service, **more: Any) -> dict[str, Any]:
    body = {"email": READER, "label": "test", **more}
    made: dict[str, Any] = ok(service.post("admin/sites/SITE1/tokens", body)).json()
    return made


def secret_of(made: dict[str, Any]) -> str:
    return next(str(v) for v in made.values() if str(v).startswith("rbt_"))


def test_a_token_expires(service: Service) -> None:
    """Tokens: valid until their expiry by the clock of the server."""
    secret = secret_of(token(service, expiresDays=1))
    service.clock.pass_seconds(24 * HOUR - 1)
    assert service.launch(secret).status_code == 200
    service.clock.pass_seconds(2)
    assert service.launch(secret).status_code == 401


def test_a_revoked_token(service: Service) -> None:
    """Tokens: revoked at once, with the links that it created."""
    made = token(service)
    secret = secret_of(made)
    number = next(
        each["id"]
        for each in service.get("admin/sites/SITE1/tokens").json()
        if each["label"] == "test"
    )
    info = user("x@site1.test", "X", Auth=service.tokens[ADMIN])
    link = ok(service.launch(secret, userInfo=info)).json()["reportLink"]
    assert service.open(link).status_code == 200
    ok(service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{number}"))
    assert service.launch(secret).status_code == 401
    assert service.open(link).status_code != 200


def test_secrets_are_shown_once(service: Service) -> None:
    """Tokens: only the response of the creation contains the secret."""
    secret = secret_of(token(service))
    assert secret not in service.get("admin/sites/SITE1/tokens").text
    with service.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM engine_access_token").fetchall()
    assert secret not in str(rows)


def test_the_last_use_of_a_token_is_recorded(service: Service) -> None:
    secret = secret_of(token(service))
    ok(service.launch(secret))
    used = [
        each for each in service.get("admin/sites/SITE1/tokens").json() if each["label"] == "test"
    ]
    now = datetime.fromtimestamp(service.clock.now / 1000, UTC)
    assert datetime.fromisoformat(used[0]["lastUsedAt"]) == now


SCOPES: dict[str, Callable[[Service, str], httpx.Response]] = {
    "launch": lambda service, secret: service.launch(secret),
    "read": lambda service, secret: service.get("report/content", secret, **identity()),
    "write": lambda service, secret: service.post(
        "report/sign", {"clinicalInfo": identity()}, secret
    ),
    "admin": lambda service, secret: service.get("admin/sites", secret),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_scopes(service: Service, scope: str) -> None:
    """Tokens: a token with one scope is refused for the others."""
    ok(service.launch(READER))
    body = {"email": ADMIN, "label": "t", "scopes": [scope]}
    secret = secret_of(ok(service.post("admin/sites/SITE1/tokens", body)).json())
    for name, ask in SCOPES.items():
        response = ask(service, secret)
        assert response.status_code == (200 if name == scope else 403), name
