"""Every endpoint of the console, for every role, on the own site and on another."""

import re
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi

from bridge.console.permissions import Permission
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from tests.bridge.console.http.office import PATIENTS, PEOPLE, Office, now_ms
from tests.bridge.console.http.rules import RULES, path_of

ABOUT_SITES = [each for each, rule in RULES.items() if rule.site]
LIMITED = {"editor1": PEOPLE["editor1"], "admin1": PEOPLE["admin1"]}
ABSENT = {"message_id": "999999", "delivery_id": "999999", "site": "SITE0", "name": "none"}
ABSENT["row_id"] = ABSENT["message_id"]
BAD_REQUEST, UNKNOWN, FORBIDDEN, SIGNED_OUT = 400, 404, 403, 401


def things(office: Office, site: str, route: str) -> dict[str, str]:
    """What stands for a site in a path."""
    own = {
        "message_id": str(office.messages[site]),
        "delivery_id": str(office.deliveries[site]),
        "site": site,
    }
    if "/channels/" in route:
        own["name"] = {"SITE1": "orders", "SITE2": "north"}[site]
    if "/concerns/" in route:
        own |= {"kind": "message", "row_id": own["message_id"]}
    return own


def call(office: Office, who: str, route: str, own: dict[str, str]) -> Any:
    """Call a route as somebody, for the things of one site."""
    return office.call(who, route.split(maxsplit=1)[0], path_of(route, own), RULES[route].body)


def test_every_endpoint_has_its_rule(office: Office) -> None:
    """Whoever adds one says here who may call it."""
    described = get_openapi(title="", version="", routes=office.console.routes)
    found = {f"{how.upper()} {path}" for path, ways in described["paths"].items() for how in ways}
    assert found == set(RULES)


@pytest.mark.parametrize("route", RULES)
def test_only_who_may_is_let_in(office: Office, route: str) -> None:
    """Nobody without signing in; of those whom no site limits, whoever has what it needs."""
    own = things(office, "SITE1", route)
    assert call(office, "", route, own).status_code == SIGNED_OUT
    for who in ("viewer", "operator", "editor", "author", "chief"):
        if RULES[route].needs <= PEOPLE[who].permissions and route.split(maxsplit=1)[0] != "GET":
            continue  # it is let in, and what it does is its own test's
        answer = call(office, who, route, own)
        may = RULES[route].needs <= PEOPLE[who].permissions
        invalid = not may and answer.status_code == BAD_REQUEST  # the form is looked at before
        assert invalid or (answer.status_code == FORBIDDEN) == (not may), (who, answer.text)


@pytest.mark.parametrize("route", ABOUT_SITES)
def test_what_is_of_another_site_is_not_there(office: Office, route: str) -> None:
    """For whoever is limited: as if it did not exist, word for word. The own one is there."""
    for who in (each for each, grant in LIMITED.items() if RULES[route].needs <= grant.permissions):
        foreign = call(office, who, route, things(office, "SITE2", route))
        absent = call(office, who, route, {**things(office, "SITE2", route), **ABSENT})
        assert foreign.status_code == UNKNOWN, (who, foreign.text)
        assert foreign.json() == absent.json()
        if route.startswith("GET"):
            own = call(office, who, route, things(office, "SITE1", route))
            assert own.status_code not in {UNKNOWN, FORBIDDEN}, (who, own.text)
        nowhere = call(office, "nowhere", route, things(office, "SITE1", route))
        assert nowhere.status_code in {UNKNOWN, FORBIDDEN}


@pytest.mark.parametrize("who", ["viewer1", "editor1", "admin1", "nowhere"])
def test_lists_hold_nothing_of_another_site(office: Office, who: str) -> None:
    """Messages, deliveries, orders, channels, figures, alerts, sites and deeds."""
    grant = PEOPLE[who]
    lists = [each for each, rule in RULES.items() if not rule.site and each != "GET /api/me"]
    asked = 0
    for route in lists:
        if not RULES[route].needs <= grant.permissions or RULES[route].unlimited:
            continue
        answer = call(office, who, route, {})
        assert answer.status_code == 200, (route, answer.text)
        for mark in ("SITE2", "north", "stray", "ROE", "M2", "A2"):
            assert mark not in answer.text, (route, mark)
        asked += 1
    assert asked >= 4


def test_what_serves_all_sites_is_seen_and_not_changed(office: Office) -> None:
    """A destination for every site carries their results: how it is they see, and no counts."""
    for who in ("viewer1", "editor1", "admin1"):
        told = office.call(who, "GET", "/api/overview").json()
        shared = {each["name"]: each["shared"] for each in told["destinations"]}
        assert shared == {"ris": False, "archive": True}
        assert "archive" not in {**told["outbox"], **told["sent"]}
    answer = office.call("editor1", "POST", "/api/channels/destination/archive/pause", {})
    assert answer.status_code == FORBIDDEN
    assert "serves others' sites too" in answer.json()["detail"]
    assert office.call("nowhere", "GET", "/api/channels").json()["destinations"] == []
    everybody = office.call("editor", "GET", "/api/channels").json()["destinations"]
    assert not any(each["shared"] for each in everybody)


def test_alerts_of_what_serves_all_sites_tell_no_numbers(office: Office) -> None:
    """That it is paused, its people are told; how much waits there is everybody's."""
    found = [
        AlertCondition(f"{about}:destination archive", AlertSeverity.WARNING, about)
        for about in ("paused", "circuit", "depth", "age", "parked")
    ]
    update_alerts(office.database, found, now_ms(), 0)
    told = office.call("viewer1", "GET", "/api/overview").json()["alerts"]
    assert {each["text"] for each in told} == {"paused", "circuit"}
    everything = office.call("editor", "GET", "/api/overview").json()["alerts"]
    assert len(everything) == len(found)


def test_what_nobody_can_tell_the_site_of_is_for_the_unlimited(office: Office) -> None:
    """The stray message is found by the operator of all sites, and by no other."""
    stray = office.messages[""]
    assert office.call("editor", "GET", f"/api/messages/{stray}").status_code == 200
    assert office.call("editor1", "GET", f"/api/messages/{stray}").status_code == UNKNOWN
    everybody = ("editor", "editor1", "viewer1", "nowhere")
    found = {who: office.call(who, "POST", "/api/messages/search", {}) for who in everybody}
    listed = {who: {row["id"] for row in each.json()["rows"]} for who, each in found.items()}
    assert stray in listed["editor"]
    assert listed["editor1"] == listed["viewer1"] == {office.messages["SITE1"]}
    assert listed["nowhere"] == set()


def test_a_limited_person_adds_no_site(office: Office) -> None:
    """Only whom no site limits does."""
    body = {"SiteID": "SITE4", "name": "Mine"}
    assert office.call("admin1", "POST", "/api/sites", body).status_code == FORBIDDEN
    assert office.call("chief", "POST", "/api/sites", body).status_code == 201


@pytest.mark.parametrize("who", ["viewer", "viewer1", "operator"])
def test_without_bodies_no_patient_is_seen(office: Office, who: str) -> None:
    """On every route: no name and no number of a patient; to a viewer no order's number."""
    grant = PEOPLE[who]
    assert Permission.BODIES not in grant.permissions
    for route in RULES:
        for site in ("SITE1", "SITE2"):
            answer = call(office, who, route, things(office, site, route))
            for name in (*PATIENTS.values(), "POE^JILL", "JANE", "JOHN", "JILL"):
                assert name not in answer.text, route
            numbers = {"M1", "M2", "P1", "C1"} | (set() if who == "operator" else {"A1", "A2"})
            assert not numbers & set(re.findall(r"[A-Z][0-9]+", answer.text)), route
