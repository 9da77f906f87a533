"""Each route of the interface refuses callers without a right on the site."""

import secrets
from typing import Any

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
    found = [each for router in ROUTERS for each in router.routes]
    return [
        f"{method} {path}"
        for each in found
        for method in sorted(getattr(each, "methods", None) or ())
        if (path := str(getattr(each, "path", ""))).startswith("/api/")
    ]


def add_callers_without_rights(service: Service) -> None:
    """Add users who no longer administer SITE1, or whose token is for another site."""
    now = service.clock.now
    with service.database.write() as connection:

        def administrator(name: str, *sites: str) -> int:
            email, role = f"{name}@site1.test", SiteRole.ADMINISTRATOR
            found = [
                users.register(connection, each, email, name, now, role=role) for each in sites
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
    changing = {each for each in routes() if each.split()[0] not in ("GET", "DELETE")}
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
