"""Authentication: tokens, roles, isolation of sites."""

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from bridge.engine.http.engine_application import ROUTERS
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts import sessions, tokens, users
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    OTHER,
    READER,
    Service,
    identity,
    launch_body,
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
    assert [row["SiteID"] for row in service.get("admin/sites", FOREIGN).json()] == ["SITE2"]
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
        row["id"]
        for row in service.get("admin/sites/SITE1/tokens").json()
        if row["label"] == "test"
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
    used = [row for row in service.get("admin/sites/SITE1/tokens").json() if row["label"] == "test"]
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


SITE = "/api/admin/sites/{site_id}"
SECRET = "SECRET^PATIENT"
BODIES: dict[str, Any] = {
    **{f"POST /api/{path}": body for path, body in ADMINISTRATIVE.items()},
    "POST /api/report/export/pdf": {"clinicalInfo": identity()},
    "POST /api/report/prelim/withdraw": {
        "clinicalInfo": identity(),
        "prelimGroup": "G",
        "prelimTag": "T",
        "userEmail": READER,
    },
    "POST /api/report/assign": {**identity(), "UserEmail": OTHER},
    "POST /api/report/update-dicomsr": {**identity(), "dicomSR": []},
    "POST /api/report/launch/clinical": launch_body(),
    "POST /api/report/launch/clinical/batch": [launch_body()],
    "POST /api/report/init": {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": user()},
    "POST /api/admin/sites": {"SiteID": "SITE9"},
    f"PUT {SITE}": {"name": "X"},
    f"PATCH {SITE}": {"name": "X"},
    f"PUT {SITE}/users/{{email}}/signature": {"signature": None},
    f"POST {SITE}/users": {"email": FOREIGN, "name": "N", "role": "administrator"},
    f"POST {SITE}/tokens": {"email": READER},
    f"POST {SITE}/prelim-groups": {"name": "G", "tags": ["T"]},
    f"PUT {SITE}/templates/{{number}}": {"name": "x", "text": "Findings:"},
    f"PUT {SITE}/templates/{{number}}/mrrt": {"html": "<html></html>"},
    f"PUT {SITE}/code-map": {"csv": "system,match,code\n"},
    f"PUT {SITE}/macros/{{trigger}}": {"name": "N", "text": "a"},
    "POST /api/account/enrolment": {
        "accountId": "1",
        "secondFactor": False,
        "endTokens": False,
    },
    "POST /api/account/second-factor": {"accountId": "1", "required": False},
    "POST /api/account/disable": {"accountId": "2"},
    "POST /api/account/enable": {"accountId": "2"},
}
QUERIES: dict[str, dict[str, str]] = {
    "GET /api/report/content": identity(),
    "GET /api/report/outside-reports": identity(),
    "GET /api/report/structured-reports": identity(),
    "GET /api/report/site/prelims": {"SiteID": "SITE1", "prelimGroup": "G", "prelimTag": "T"},
    "GET /api/worklist": {"SiteID": "SITE1"},
    "GET /api/report/changes": {"SiteID": "SITE1"},
    "GET /api/account": {"email": READER},
}
PATH = {"site_id": "SITE1", "email": READER, "number": "1", "trigger": "abc", "name": "G"}
LISTS = {"GET /api/admin/sites", "POST /api/report/launch/clinical/batch"}
"""Routes with status 200 and a list: the sites of the caller, or one result for each launch."""
OF_EACH_USER = {"POST /api/report/launch/clinical", *LISTS}
"""Routes that any member of a site may use."""
UNAVAILABLE = {"POST /api/report/export/pdf"}
"""Routes that are off in these settings."""
WITHOUT_RIGHTS = ("foreign", "bound", "removed", "disabled")


def routes() -> list[str]:
    found = [route for router in ROUTERS for route in router.routes]
    return [
        f"{method} {path}"
        for item in found
        for method in sorted(getattr(item, "methods", None) or ())
        if (path := str(getattr(item, "path", ""))).startswith("/api/")
    ]


def add_callers_without_rights(service: Service) -> None:
    """Add users who no longer administer SITE1, or whose token is for another site."""
    now = service.clock.now
    with service.database.write() as connection:

        def administrator(name: str, *sites: str) -> int:
            email, role = f"{name}@site1.test", SiteRole.ADMINISTRATOR
            found = [
                users.register(connection, item, email, name, now, role=role) for item in sites
            ]
            return found[0].id

        def token(account_id: int, site: str | None = None) -> str:
            return tokens.create_token(
                *(connection, account_id), now=now, random_bytes=secrets.token_bytes, site_id=site
            )[1]

        bound = administrator("bound", "SITE1", "SITE2")
        removed = administrator("removed", "SITE1", "SITE2")
        disabled = administrator("disabled", "SITE1")
        service.tokens |= {
            "foreign": service.tokens[FOREIGN],
            "bound": token(bound, "SITE2"),
            "removed": token(removed),
            "disabled": token(disabled),
        }
        users.leave(connection, "SITE1", removed, now)
        sessions.leave_site(connection, removed, "SITE1", now)
        sessions.disable(connection, disabled, now)


def test_each_route_has_a_request() -> None:
    """A new route needs a body or a query here."""
    changing = {route for route in routes() if route.split()[0] not in ("GET", "DELETE")}
    assert changing == set(BODIES)
    assert set(QUERIES) <= set(routes())


def test_each_route_refuses_callers_without_a_right_on_the_site(case: Case) -> None:
    """A token of another site, a removed user and a repeated request are refused."""
    service = case.service
    ok(service.launch(tags={"PatientName": SECRET}))
    key = {"Idempotency-Key": "k1"}
    path = "/api/admin/sites/SITE1/tokens"
    made = ok(service.call("POST", path, ADMIN, json=BODIES[f"POST {SITE}/tokens"], headers=key))
    add_callers_without_rights(service)
    for route in routes():
        method, path = route.split()
        for who in (*WITHOUT_RIGHTS, READER):
            if who == READER and route in OF_EACH_USER:
                continue
            response = service.call(
                method,
                path.format(**PATH, token_id=made.json()["id"]),
                who,
                headers=key if method != "GET" else {},
                params=QUERIES.get(route, {}),
                **({"json": BODIES[route]} if route in BODIES else {}),
            )
            place = (route, who, response.status_code, response.text[:200])
            assert SECRET not in response.text, place
            assert made.json()["token"] not in response.text, place
            if who == "disabled":
                assert response.status_code == 401, place
            elif route in LISTS:
                assert '"SiteID":"SITE1"' not in response.text, place
                assert "reportLink" not in response.text, place
            elif route not in UNAVAILABLE:
                assert response.status_code == 403, place
    assert service.status()["status"] == "Draft"
    assert ok(service.call("GET", "/api/admin/sites/SITE1/tokens"))


@pytest.mark.parametrize(
    "variant",
    [
        "READER@SITE1.TEST",
        " reader@site1.test ",
        "reader@site1\u3002test",
        "reader@\u017fite1.test",
    ],
)
def test_a_variant_of_an_address_is_no_second_account(service: Service, variant: str) -> None:
    """An administrator of another site who invites it gets no token for its first site."""
    body = {"email": variant, "name": "R", "role": "administrator"}
    invited = service.post("admin/sites/SITE2/users", body, FOREIGN)
    assert invited.status_code in {200, 400}
    if invited.status_code == 200:
        assert invited.json()["email"] == READER
        made = service.post("admin/sites/SITE2/tokens", {"email": variant}, FOREIGN).json()
        assert service.get("worklist", made["token"], SiteID="SITE1").status_code == 403
        assert service.get("admin/sites/SITE1/users", made["token"]).status_code == 403
