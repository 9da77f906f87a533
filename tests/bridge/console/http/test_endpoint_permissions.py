"""The permissions of every endpoint, for every role, on the user's site and on another."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi

from bridge.admin.access.permissions import Permission
from tests.bridge.console.http.running_console import PATIENTS, USERS, RunningConsole

_P = Permission
VIEW = {"list": "messages", "name": "Parked", "body": {"filters": {"state": "parked"}}}
EDITED = {"segments": ["MSH|^~\\&|X"]}


@dataclass(frozen=True)
class Rule:
    """`needs`: the permissions; `body`: the request body; `site`: the target belongs to a site."""

    needs: frozenset[Permission]
    body: Any = None
    site: bool = False
    unlimited: bool = field(default=False)
    """Only for users who are not limited to sites."""


def _rule(
    *needs: Permission, body: Any = None, site: bool = False, unlimited: bool = False
) -> Rule:
    return Rule(frozenset(needs), body, site, unlimited)


RULES: dict[str, Rule] = {
    "GET /api/me": _rule(),
    "GET /api/first-steps": _rule(_P.CONNECT),
    "POST /api/first-steps/sample-order": _rule(_P.CONNECT, body={"listener": "none"}),
    "POST /api/first-steps/sample-result": _rule(_P.CONNECT, body={"destination": "none"}),
    "POST /api/background-jobs": _rule(
        _P.OPERATE, body={"kind": "acknowledge", "selection": {"list": "messages", "ids": [1]}}
    ),
    "GET /api/background-jobs": _rule(_P.SEE),
    "GET /api/background-jobs/{job_id}": _rule(_P.SEE),
    "GET /api/background-jobs/{job_id}/rows": _rule(_P.SEE),
    "GET /api/background-jobs/{job_id}/content": _rule(_P.OPERATE),
    "POST /api/background-jobs/{job_id}/stop": _rule(_P.SEE),
    "GET /api/overview": _rule(_P.SEE),
    "GET /api/channels": _rule(_P.SEE),
    "GET /api/channels/{kind}/{name}": _rule(_P.SEE, site=True),
    "GET /api/channels/{kind}/{name}/series": _rule(_P.SEE, site=True),
    "POST /api/channels/{kind}/{name}/pause": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/channels/{kind}/{name}/resume": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/channels/{kind}/{name}/test": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/dicom-peers": _rule(_P.SEE),
    "GET /api/connections": _rule(_P.CONNECT),
    "GET /api/connections/{kind}/{name}": _rule(_P.CONNECT),
    "POST /api/connections/{kind}/check": _rule(_P.CONNECT, body={"table": {}}),
    "POST /api/connections/{kind}/try": _rule(_P.CONNECT, body={"table": {}}),
    "PUT /api/connections/{kind}/{name}": _rule(_P.CONNECT, body={}),
    "POST /api/connections/{kind}/{name}/rollback": _rule(_P.CONNECT, body={}),
    "GET /api/messages/{message_id}": _rule(_P.SEE, site=True),
    "GET /api/messages/{message_id}/content": _rule(_P.BODIES, site=True),
    "GET /api/messages/{message_id}/trace": _rule(_P.BODIES, site=True),
    "GET /api/messages/{message_id}/neighbours": _rule(_P.SEE, site=True),
    "GET /api/messages/{message_id}/difference": _rule(_P.BODIES, site=True),
    "POST /api/messages/{message_id}/replay": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/messages/{message_id}/cancel": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/messages/{message_id}/sheet": _rule(_P.EDIT, _P.BODIES, site=True),
    "POST /api/messages/{message_id}/check": _rule(_P.EDIT, _P.BODIES, site=True, body=EDITED),
    "POST /api/messages/{message_id}/send-again": _rule(
        _P.EDIT, _P.BODIES, site=True, body={**EDITED, "reason": "try"}
    ),
    "GET /api/deliveries/{delivery_id}": _rule(_P.SEE, site=True),
    "GET /api/deliveries/{delivery_id}/content": _rule(_P.BODIES, site=True),
    "GET /api/deliveries/{delivery_id}/difference": _rule(_P.BODIES, site=True),
    "POST /api/deliveries/{delivery_id}/retry": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/deliveries/{delivery_id}/skip": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/deliveries/{delivery_id}/sheet": _rule(_P.EDIT, _P.BODIES, site=True),
    "POST /api/deliveries/{delivery_id}/check": _rule(_P.EDIT, _P.BODIES, site=True, body=EDITED),
    "POST /api/deliveries/{delivery_id}/send-again": _rule(
        _P.EDIT, _P.BODIES, site=True, body={**EDITED, "reason": "try"}
    ),
    "POST /api/find": _rule(_P.FIND, body={"text": "A2"}),
    "POST /api/lists/{listed}": _rule(_P.SEE, body={}),
    "POST /api/lists/{listed}/count": _rule(_P.SEE, body={}),
    "POST /api/lists/{listed}/rows": _rule(_P.SEE, body={"ids": [1, 2, 3]}),
    "POST /api/lists/{listed}/columns": _rule(
        *(_P.SEE, _P.BODIES), body={"ids": [1, 2, 3], "columns": ["patient", "name"]}
    ),
    "GET /api/specifications/{kind}/{name}": _rule(_P.SEE, site=True),
    "POST /api/examinations": _rule(_P.CONNECT, body={"role": "sender", "port": 1, "agreed": "x"}),
    "GET /api/examinations": _rule(_P.CONNECT),
    "GET /api/examinations/probes": _rule(_P.CONNECT),
    "GET /api/examinations/{job_id}": _rule(_P.CONNECT),
    "GET /api/examinations/{job_id}/report": _rule(_P.CONNECT),
    "GET /api/views": _rule(_P.SEE),
    "POST /api/views": _rule(_P.SEE, body=VIEW),
    "PUT /api/views/{view_id}": _rule(_P.SEE, body=VIEW, site=True),
    "DELETE /api/views/{view_id}": _rule(_P.SEE, site=True),
    "GET /api/live": _rule(_P.SEE),
    "GET /api/orders/{order_id}": _rule(_P.FIND, site=True),
    "POST /api/orders/{order_id}/unread": _rule(_P.OPERATE, site=True, body={"reason": "try"}),
    "GET /api/attention": _rule(_P.SEE),
    "POST /api/attention/seen": _rule(
        _P.OPERATE, body={"subject": "message", "code": "superseded"}
    ),
    "POST /api/attention/{kind}/{row_id}/seen": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/merges": _rule(_P.FIND, _P.BODIES, site=True, body={"site": "SITE2"}),
    "POST /api/merges/show": _rule(
        *(_P.FIND, _P.BODIES), site=True, body={"site": "SITE2", "number": "M2"}
    ),
    "POST /api/merges/correct": _rule(
        *(_P.FIND, _P.OPERATE),
        site=True,
        body={"site": "SITE2", "number": "M2", "reason": "two people"},
    ),
    "POST /api/merges/undo": _rule(
        *(_P.FIND, _P.OPERATE),
        site=True,
        body={"site": "SITE2", "number": "M2", "reason": "two people"},
    ),
    "GET /api/unknown-codes": _rule(_P.AUTHOR),
    "POST /api/unknown-codes/leave": _rule(_P.AUTHOR, body={}),
    "PUT /api/mappings/{name}/codes/{table}": _rule(_P.AUTHOR, body={}),
    "GET /api/interfaces/export": _rule(_P.AUTHOR),
    "POST /api/interfaces/look": _rule(_P.AUTHOR, _P.CODE, _P.CONNECT, body={"zip": "AAAA"}),
    "POST /api/interfaces/import": _rule(_P.AUTHOR, _P.CODE, _P.CONNECT, body={}),
    "POST /api/mirth/convert": _rule(_P.AUTHOR, _P.CONNECT, body={"xml": "AAAA"}),
    "POST /api/audit/verify": _rule(_P.AUDIT, body={}),
    "POST /api/audit/export": _rule(_P.AUDIT, body={}),
    "GET /api/sites/{site}/audit": _rule(_P.AUDIT, site=True),
    "GET /api/sites": _rule(_P.FIND),
    "POST /api/sites": _rule(_P.ADMINISTER, body={"SiteID": "SITE3"}, unlimited=True),
    "GET /api/sites/{site}": _rule(_P.ADMINISTER, site=True),
    "PATCH /api/sites/{site}": _rule(_P.ADMINISTER, site=True, body={"name": "Renamed"}),
    "GET /api/sites/{site}/{what}": _rule(_P.ADMINISTER, site=True),
    "PUT /api/sites/{site}/templates/{number}": _rule(
        _P.ADMINISTER, site=True, body={"name": "CT", "text": "Findings:"}
    ),
    "GET /api/sites/{site}/templates/{number}/mrrt": _rule(_P.ADMINISTER, site=True),
    "PUT /api/sites/{site}/templates/{number}/mrrt": _rule(
        _P.ADMINISTER, site=True, body={"html": "<html></html>"}
    ),
    "PUT /api/sites/{site}/code-map": _rule(_P.ADMINISTER, site=True, body={"csv": ""}),
    "DELETE /api/sites/{site}/templates/{number}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/prelim-groups": _rule(
        _P.ADMINISTER, site=True, body={"name": "Residents", "tags": ["R1"]}
    ),
    "DELETE /api/sites/{site}/prelim-groups/{name}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/users": _rule(
        _P.ADMINISTER, site=True, body={"email": "new@site1.test", "name": "New"}
    ),
    "DELETE /api/sites/{site}/users/{email}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/tokens": _rule(
        _P.ADMINISTER, site=True, body={"email": "reader@site1.test"}
    ),
    "DELETE /api/sites/{site}/tokens/{token}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/worklist": _rule(_P.FIND, site=True, body={}),
    "GET /api/grants": _rule(_P.GRANT),
    "PUT /api/grants/{email_or_id}": _rule(_P.GRANT, body={"role": "viewer"}),
    "DELETE /api/grants/{email_or_id}": _rule(_P.GRANT),
    "POST /api/people/{email_or_id}/enrolment": _rule(_P.GRANT, body={}),
    "POST /api/people/{email_or_id}/disable": _rule(_P.GRANT, body={}),
    "POST /api/people/{email_or_id}/enable": _rule(_P.GRANT, body={}),
    "GET /api/mappings": _rule(_P.AUTHOR),
    "GET /api/mapping-schema": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}": _rule(_P.AUTHOR),
    "PUT /api/mappings/{name}/draft": _rule(_P.AUTHOR, body={}),
    "DELETE /api/mappings/{name}/draft": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}/outline": _rule(_P.AUTHOR),
    "POST /api/mappings/{name}/edits": _rule(_P.AUTHOR, body={}),
    "GET /api/mappings/{name}/history": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}/versions/{version}": _rule(_P.AUTHOR),
    "POST /api/mappings/{name}/activate": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/rollback": _rule(_P.AUTHOR, body={}),
    "GET /api/mappings/{name}/examples": _rule(_P.AUTHOR),
    "POST /api/mappings/{name}/examples/accept": _rule(_P.AUTHOR, body={}),
    "DELETE /api/mappings/{name}/examples/{example_id}": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}/shadow": _rule(_P.AUTHOR),
    "POST /api/mappings/{name}/shadow": _rule(_P.AUTHOR, body={}),
    "GET /api/mappings/{name}/shadow/{job_id}/sample/{row_id}": _rule(_P.AUTHOR, _P.BODIES),
    "PUT /api/reading/{listener}": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/stored": _rule(_P.AUTHOR, _P.BODIES, body={}),
    "POST /api/mappings/{name}/releases": _rule(_P.AUTHOR, _P.BODIES, body={}),
    "POST /api/mapping-material": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/try": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/compare": _rule(_P.AUTHOR, body={}),
    "POST /api/mapping-learn": _rule(_P.AUTHOR, body={}),
}


def path_of(route: str, own: dict[str, str]) -> str:
    same = {
        "what": "users",
        "listed": "messages",
        "view_id": "999999",
        "job_id": "999999",
        "example_id": "999999",
        "number": "1",
        "token": "999",
        "email": "unknown@site1.test",
        "email_or_id": "unknown@site1.test",
        "listener": "orders",
        "version": "0" * 16,
        "kind": "listener",
        "name": "orders",
        "table": "sex",
        "row_id": "1",
    }
    path = route.partition(" ")[2].format(**{**same, **own})
    return f"{path}?once=1" if path == "/api/live" else path  # else a stream without end


ABOUT_SITES = [item for item, rule in RULES.items() if rule.site]
LIMITED = {"editor1": USERS["editor1"], "admin1": USERS["admin1"]}
ABSENT = {"message_id": "999999", "delivery_id": "999999", "site": "SITE0", "name": "none"}
ABSENT["row_id"] = ABSENT["order_id"] = ABSENT["message_id"]
BAD_REQUEST, UNKNOWN, FORBIDDEN, SIGNED_OUT = 400, 404, 403, 401


def parameters_of(console: RunningConsole, site: str, route: str) -> dict[str, str]:
    own = {
        "message_id": str(console.messages[site]),
        "delivery_id": str(console.deliveries[site]),
        "order_id": {"SITE1": "1", "SITE2": "2"}[site],
        "site": site,
    }
    if "/channels/" in route or "/specifications/" in route:
        own["name"] = {"SITE1": "orders", "SITE2": "north"}[site]
    if "/attention/{" in route:
        own |= {"kind": "message", "row_id": own["message_id"]}
    return own


def call(console: RunningConsole, who: str, route: str, own: dict[str, str]) -> Any:
    """Call a route as a user, with the path parameters of a site."""
    return console.call(who, route.split(maxsplit=1)[0], path_of(route, own), RULES[route].body)


def test_every_endpoint_has_a_rule(console: RunningConsole) -> None:
    """A new route needs a row in RULES."""
    described = get_openapi(title="", version="", routes=console.application.routes)
    found = {f"{how.upper()} {path}" for path, ways in described["paths"].items() for how in ways}
    assert found == set(RULES)


@pytest.mark.parametrize("route", RULES)
def test_each_endpoint_requires_its_permissions(console: RunningConsole, route: str) -> None:
    """Without sign-in: 401. Without the permission: 403."""
    own = parameters_of(console, "SITE1", route)
    assert call(console, "", route, own).status_code == SIGNED_OUT
    for who in ("viewer", "operator", "editor", "author", "chief"):
        if RULES[route].needs <= USERS[who].permissions and route.split(maxsplit=1)[0] != "GET":
            continue  # permitted; other tests check the effect
        response = call(console, who, route, own)
        may = RULES[route].needs <= USERS[who].permissions
        invalid = not may and response.status_code == BAD_REQUEST  # the body is checked first
        assert invalid or (response.status_code == FORBIDDEN) == (not may), (who, response.text)


@pytest.mark.parametrize("route", ABOUT_SITES)
def test_an_item_of_another_site_does_not_exist(console: RunningConsole, route: str) -> None:
    """Limited users get the same response as for a missing item. Items of their site exist."""
    for who in (item for item, grant in LIMITED.items() if RULES[route].needs <= grant.permissions):
        foreign = call(console, who, route, parameters_of(console, "SITE2", route))
        absent = call(console, who, route, {**parameters_of(console, "SITE2", route), **ABSENT})
        assert foreign.status_code == UNKNOWN, (who, foreign.text)
        assert foreign.json() == absent.json()
        if route.startswith("GET"):
            own = call(console, who, route, parameters_of(console, "SITE1", route))
            assert own.status_code not in {UNKNOWN, FORBIDDEN}, (who, own.text)
        nowhere = call(console, "nowhere", route, parameters_of(console, "SITE1", route))
        assert nowhere.status_code in {UNKNOWN, FORBIDDEN}


@pytest.mark.parametrize("who", ["viewer1", "editor1", "admin1", "nowhere"])
def test_lists_contain_nothing_of_another_site(console: RunningConsole, who: str) -> None:
    """Messages, deliveries, orders, channels, figures, alerts, sites and audit events."""
    grant = USERS[who]
    other = ("GET /api/me", "{job_id}")  # there is no such job
    lists = [
        item
        for item, rule in RULES.items()
        if not rule.site and not any(part in item for part in other)
    ]
    count = 0
    for route in lists:
        if not RULES[route].needs <= grant.permissions or RULES[route].unlimited:
            continue
        response = call(console, who, route, {})
        assert response.status_code == 200, (route, response.text)
        for mark in ("SITE2", "north", "stray", "ROE", "M2", "A2"):
            assert mark not in response.text, (route, mark)
        count += 1
    assert count >= 4


def test_a_shared_destination_is_visible_but_read_only(console: RunningConsole) -> None:
    """Limited users see its state, but no counts."""
    for who in ("viewer1", "editor1", "admin1"):
        overview = console.call(who, "GET", "/api/overview").json()
        rows = {row["name"]: row for row in overview["channels"] if row["kind"] == "destination"}
        assert {name: row["shared"] for name, row in rows.items()} == {
            "ris": False,
            "archive": True,
        }
        assert rows["archive"]["waiting"] is None
    response = console.call("editor1", "POST", "/api/channels/destination/archive/pause", {})
    assert response.status_code == FORBIDDEN
    assert "also serves other sites" in response.json()["detail"]
    assert console.call("nowhere", "GET", "/api/channels").json()["destinations"] == []
    all_destinations = console.call("editor", "GET", "/api/channels").json()["destinations"]
    assert not any(destination["shared"] for destination in all_destinations)


def test_a_message_without_site_is_visible_to_unlimited_users_only(console: RunningConsole) -> None:
    stray = console.messages[""]
    assert console.call("editor", "GET", f"/api/messages/{stray}").status_code == 200
    assert console.call("editor1", "GET", f"/api/messages/{stray}").status_code == UNKNOWN
    users = ("editor", "editor1", "viewer1", "nowhere")
    found = {who: console.call(who, "POST", "/api/lists/messages", {}) for who in users}
    listed = {who: {row["id"] for row in item.json()["rows"]} for who, item in found.items()}
    assert stray in listed["editor"]
    assert listed["editor1"] == listed["viewer1"] == {console.messages["SITE1"]}
    assert listed["nowhere"] == set()


def test_a_limited_user_adds_no_site(console: RunningConsole) -> None:
    body = {"SiteID": "SITE4", "name": "Mine"}
    assert console.call("admin1", "POST", "/api/sites", body).status_code == FORBIDDEN
    assert console.call("chief", "POST", "/api/sites", body).status_code == 201


@pytest.mark.parametrize("who", ["viewer", "viewer1", "operator"])
def test_without_bodies_no_response_contains_patient_data(
    console: RunningConsole, who: str
) -> None:
    """No name and no patient id on any route; for a viewer no order number either."""
    grant = USERS[who]
    assert Permission.BODIES not in grant.permissions
    for route in RULES:
        for site in ("SITE1", "SITE2"):
            response = call(console, who, route, parameters_of(console, site, route))
            for name in (*PATIENTS.values(), "POE^JILL", "JANE", "JOHN", "JILL"):
                assert name not in response.text, route
            numbers = {"M1", "M2", "P1", "C1"} | (set() if who == "operator" else {"A1", "A2"})
            assert not numbers & set(re.findall(r"[A-Z][0-9]+", response.text)), route
