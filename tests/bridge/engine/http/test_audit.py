"""The audit trail over HTTP: reads, refusals, changes; no patient data."""

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from bridge.audit import trail
from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent, Outcome
from bridge.audit.fhir import AuditedPatient, audit_events
from bridge.engine.live.audit_buffer import AuditBuffer, merged
from bridge.engine.service.accounts import audit_queries
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    OTHER,
    READER,
    Service,
    identity,
    user,
)

ONE = {"clinicalInfo": identity()}


def events(service: Service, **query: Any) -> list[dict[str, Any]]:
    """Return a site's events, oldest first, as its administrator sees them."""
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    response = service.get("admin/sites/SITE1/audit", after=0, limit=1000, **query)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["events"]
    return found


def test_every_read_is_recorded(service: Service) -> None:
    """With report, user and token, for each kind of read."""
    report_id = service.launch().json()["reportId"]
    service.post("report/status", {"clinicalInfo": [identity()]})
    service.get("report/content", **identity())
    for kind in ("html", "json", "rtf"):
        service.post(f"report/export/{kind}", ONE)
    service.post("report/prelim", {**ONE, "prelimGroup": "G", "prelimTag": "T"})
    service.get("report/site/prelims", SiteID="SITE1", prelimGroup="G", prelimTag="T")
    service.get("worklist", SiteID="SITE1")
    service.get("report/changes")
    found = events(service)
    assert sorted(row["action"] for row in found) == [
        *("changes", "content", "export", "export", "export", "launch"),
        *("prelim", "prelims", "status", "worklist"),
    ]
    assert {row["reportId"] for row in found} == {report_id}
    assert {row["userEmail"] for row in found} == {ADMIN}
    assert all(row["tokenId"] and row["details"]["request"] for row in found)
    assert events(service, action="content")[0]["details"]["client"]


def test_times_of_the_audit_trail_are_iso_8601(service: Service) -> None:
    """With time zone, in responses and in the query; other forms are refused."""
    service.launch()
    service.clock.now += 60_000
    service.post("report/sign", ONE)
    first, *_, last = events(service)
    assert datetime.fromisoformat(first["at"]).utcoffset() == timedelta(0)
    assert first["at"].endswith("Z")
    assert [event["action"] for event in events(service, until=last["at"])] == ["launch"]
    zoned = datetime.fromisoformat(last["at"]).astimezone(timezone(timedelta(hours=2)))
    assert events(service, since=zoned.isoformat())[0]["at"] == last["at"]
    for bad in (str(service.clock.now), "2027-01-15T08:00:00", "yesterday"):
        response = service.get("admin/sites/SITE1/audit", since=bad)
        assert response.status_code == 400, response.text
        assert "since" in str(response.json()["errors"])


def test_administrative_endpoints_return_no_numeric_times(service: Service) -> None:
    """In tokens, events, accounts and site data."""
    made = service.post("admin/sites/SITE1/tokens", {"email": READER, "expiresDays": 9}).json()
    service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{made['id']}")
    found = events(service)
    found += service.get("admin/sites/SITE1/tokens").json()
    for path in ("", "users", "prelim-groups", "templates", "macros", "code-map"):
        found.append(service.get(f"admin/sites/SITE1/{path}".rstrip("/")).json())
    account = service.get("account", "service", email=READER).json()
    enrolled = service.post("account/enrolment", {"accountId": account["accountId"]}, "service")
    found += [account, enrolled.json()]
    assert "expiresAt" in json.dumps(found)
    assert not re.findall(r"[ :\[]\d{12,}[,}\]]", json.dumps(found))


def test_polls_of_the_bridge_are_not_recorded(service: Service) -> None:
    """Polls with the service token. Its exports are recorded."""
    service.launch()
    service.post("report/status", {"clinicalInfo": [identity()]}, "service")
    service.get("worklist", "service", SiteID="SITE1")
    service.get("report/changes", "service")
    service.post("report/export/json", ONE, "service")
    assert [event["action"] for event in events(service)] == ["launch", "export"]


def test_refusals_are_recorded_or_counted(service: Service) -> None:
    """Refusals of authenticated callers are events; those of unknown callers are counted."""
    for _ in range(5):
        service.post("report/status", {"clinicalInfo": [identity()]}, "wrong")
    service.post("report/status", {"clinicalInfo": [identity()]}, FOREIGN)
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    with service.database.read() as connection:
        (status,) = trail.read_page(connection, trail.TrailQuery())
        rows = audit_queries.newest_anonymous(connection, None, 100)
    assert (status.action, status.outcome, status.user) == ("status", "refused", FOREIGN)
    (token,) = rows
    assert (token["action"], token["details"]["count"]) == ("token", 5)


def test_a_flood_of_unknown_callers_adds_few_rows(service: Service) -> None:
    """The table of counts is bounded, and every request is counted."""
    buffer, requests = service.application.state.engine.audit_buffer, 5000
    before = service.clock() // 60_000
    for number in range(requests):
        event = AuditEvent(
            "token",
            outcome=Outcome.REFUSED,
            source=f"10.1.{number // 250}.{number % 250}",
            details={"code": "unauthorized"},
        )
        service.runner.run(_add(buffer, event, flush=number % 500 == 0))
    service.runner.run(buffer.flush())
    with service.database.read() as connection:
        rows = audit_queries.newest_anonymous(connection, None, 1000)
        assert trail.read_page(connection, trail.TrailQuery()) == []
    assert len(rows) <= (service.clock() // 60_000 - before + 1) * (
        audit_queries.MAX_PER_MINUTE + 1
    )
    assert sum(row["details"]["count"] for row in rows) == requests
    with service.database.write() as connection:
        assert audit_queries.purge_before(connection, 2**60) == len(rows)


async def _add(buffer: AuditBuffer, event: AuditEvent, *, flush: bool) -> None:
    buffer.add([event])
    if flush:
        await buffer.flush()


def test_equal_refusals_are_merged() -> None:
    """Another path or a success is a separate event."""
    once = AuditEvent("token", outcome=Outcome.REFUSED, details={"path": "/a", "request": "1"})
    again = replace(once, details={"path": "/a", "request": "2"})
    other = replace(once, details={"path": "/b", "request": "3"})
    read = AuditEvent("status", details={})
    found = merged([(1, once), (2, again), (3, other), (4, read), (5, read)])
    assert [(at, item.details.get("count")) for at, item in found] == [
        *((1, 2), (3, None)),
        *((4, None), (5, None)),
    ]


def test_refusals_with_different_targets_are_not_merged() -> None:
    """Accounts, sites, reports, actors and sources."""
    once = AuditEvent("token-create", "S", outcome=Outcome.REFUSED, target=("user", "a@x.test"))
    others = [
        replace(once, target=("user", "b@x.test")),
        replace(once, site_id="T"),
        replace(once, report_id="r"),
        replace(once, actor="m@x.test"),
        replace(once, source="10.0.0.9"),
    ]
    assert [other for _, other in merged([(1, once), *((1, item) for item in others)])] == [
        once,
        *others,
    ]


def test_a_change_is_recorded_once(service: Service) -> None:
    """A repeated request is not recorded; a refused change is an event with its code."""
    service.launch()
    headers = {"idempotency-key": "k1"}
    for _ in range(2):
        assert service.post("report/sign", ONE, headers=headers).status_code == 200
    assert service.post("report/sign", ONE).status_code == 500
    *kept, refusal = events(service)
    assert [row["action"] for row in kept] == ["launch", "sign"]
    assert (refusal["action"], refusal["outcome"]) == ("sign", "refused")
    assert refusal["details"]["code"]
    assert refusal["actor"] == ADMIN


REFUSED: dict[str, tuple[str, str, str, Any, str, str]] = {
    "a change of another site": (
        *("PUT", "/api/admin/sites/SITE1/templates/7", FOREIGN, {"name": "x", "text": "y"}),
        *("template-update", "7"),
    ),
    "a token of another site": (
        *("POST", "/api/admin/sites/SITE1/tokens", FOREIGN, {"email": READER}),
        *("token-create", READER),
    ),
    "a read of another site": (
        *("GET", "/api/admin/sites/SITE1/users", FOREIGN, None, "users-read", "SITE1"),
    ),
    "a file that would be costly to read": (
        *("PUT", "/api/admin/sites/SITE1/templates/7/mrrt", FOREIGN, {"html": "<p>"}),
        *("template-update", "SITE1"),
    ),
    "a table that cannot be read": (
        *("PUT", "/api/admin/sites/SITE1/code-map", READER, {"csv": "?"}),
        *("code-map-update", "SITE1"),
    ),
    "an image that cannot be read": (
        *("PUT", f"/api/admin/sites/SITE1/users/{READER}/signature", READER, {"signature": "?"}),
        *("signature-update", READER),
    ),
    "a report of another site": ("POST", "/api/report/sign", FOREIGN, ONE, "sign", "SITE1"),
    "a lower role": ("POST", "/api/report/delete", READER, ONE, "delete", "SITE1"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_forbidden_request_is_recorded_at_the_site(
    service: Service, case: tuple[str, str, str, Any, str, str]
) -> None:
    """The event names actor, action and target."""
    method, path, who, body, action, target = case
    response = service.call(method, path, who, **({} if body is None else {"json": body}))
    assert response.status_code == 403
    (event,) = events(service)
    assert (event["actor"], event["action"], event["outcome"]) == (who, action, "refused")
    assert event["target"]["id"] == target
    assert event["details"]["code"] == "forbidden"


AIMED: dict[str, tuple[str, str, str, Any, tuple[str, str, str]]] = {
    "a password by the site's administrator": (
        *("POST", "admin/sites/SITE1/users", ADMIN),
        {"email": OTHER, "name": "X", "password": "a password of another"},
        ("user-update", "user", OTHER),
    ),
    "a password by a user": (
        *("POST", "admin/sites/SITE1/users", READER),
        {"email": OTHER, "name": "X", "password": None},
        ("user-update", "user", OTHER),
    ),
    "a password by an administrator of another site": (
        *("POST", "admin/sites/SITE1/users", FOREIGN),
        {"email": OTHER, "password": "x"},
        ("user-update", "user", OTHER),
    ),
    "an invalid body": (
        *("POST", "admin/sites/SITE1/users", ADMIN, {"email": OTHER, "role": "king"}),
        ("user-update", "user", OTHER),
    ),
    "a signature": (
        *("PUT", f"admin/sites/SITE1/users/{OTHER}/signature", READER, {"signature": None}),
        ("signature-update", "user", OTHER),
    ),
    "a signature that is no image": (
        *("PUT", f"admin/sites/SITE1/users/{OTHER}/signature", ADMIN, {"signature": "?"}),
        ("signature-update", "user", OTHER),
    ),
    "a removal": (
        *("DELETE", f"admin/sites/SITE1/users/{OTHER}", FOREIGN, None),
        ("user-remove", "user", OTHER),
    ),
    "a token": (
        *("POST", "admin/sites/SITE1/tokens", READER, {"email": OTHER}),
        ("token-create", "user", OTHER),
    ),
    "a token with an invalid body": (
        *("POST", "admin/sites/SITE1/tokens", ADMIN, {"email": OTHER, "scopes": ["all"]}),
        ("token-create", "user", OTHER),
    ),
    "an enrolment link": (
        *("POST", "account/enrolment", ADMIN, {"accountId": "7"}),
        ("user-enrol", "account", "7"),
    ),
    "a second factor": (
        *("POST", "account/second-factor", ADMIN, {"accountId": "7", "required": False}),
        ("user-second-factor", "account", "7"),
    ),
    "a disabled account": (
        *("POST", "account/disable", READER, {"accountId": "7"}),
        ("user-disable", "account", "7"),
    ),
}


@pytest.mark.parametrize("case", AIMED.values(), ids=AIMED)
def test_a_refused_takeover_names_the_person_at_whom_it_was_aimed(
    service: Service, case: tuple[str, str, str, Any, tuple[str, str, str]]
) -> None:
    """Beside the actor: in the path or in the body, and also if it was refused before its check."""
    method, path, who, body, (action, kind, person) = case
    more = {} if body is None else {"json": body}
    response = service.call(method, f"/api/{path}", who, **more)
    assert response.status_code in (400, 403), response.text
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    with service.database.read() as connection:
        (event,) = trail.read_page(connection, trail.TrailQuery())
    shown = event.as_json()
    assert (shown["actor"], shown["action"], shown["outcome"]) == (who, action, "refused")
    assert (shown["target"]["type"], shown["target"]["id"]) == (kind, person)


@pytest.mark.parametrize("email", ["nobody", "<b>x</b>", "x" * 400 + "@x.test", 7, None, ["a@b.c"]])
def test_a_refusal_repeats_no_text_that_is_no_address(service: Service, email: Any) -> None:
    """The event then names the site."""
    body = {"email": email, "password": "x"}
    assert service.post("admin/sites/SITE1/users", body, READER).status_code in (400, 403)
    (event,) = events(service)
    assert event["target"]["id"] == "SITE1"


def test_an_early_refusal_has_the_action_of_the_route(service: Service) -> None:
    """A token without the scope, and an invalid body."""
    body = {"email": ADMIN, "scopes": ["launch"]}
    made = service.post("admin/sites/SITE1/tokens", body).json()["token"]
    assert service.post("admin/sites/SITE1/users", {}, made).status_code == 403
    assert service.call("GET", "/api/admin/sites/SITE1/users", made).status_code == 403
    assert service.post("report/launch/clinical/batch", {}).status_code == 400
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    with service.database.read() as connection:
        rows = trail.read_page(connection, trail.TrailQuery())
    found = [(row.action, row.details["code"]) for row in rows if row.outcome == "refused"]
    assert found == [
        ("user-update", "forbidden"),
        ("users-read", "forbidden"),
        ("launch", "invalid_request"),
    ]


def test_administrative_changes_are_recorded(service: Service) -> None:
    """With target, actor, source, and the members before and after."""
    service.call("PATCH", "/api/admin/sites/SITE1", json={"name": "New name", "signDelay": 5})
    service.post(
        "admin/sites/SITE1/users", {"email": "new@site1.test", "name": "N", "role": "user"}
    )
    token = service.post("admin/sites/SITE1/tokens", {"email": "new@site1.test"}).json()
    service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{token['id']}")
    site, user_, made, revoked = events(service)
    assert site["target"] == {"type": "site", "id": "SITE1"}
    assert site["after"] == {"name": "New name", "signDelay": 5}
    assert set(site["before"]) == {"name", "signDelay"}
    assert user_["target"] == {"type": "user", "id": "new@site1.test"}
    assert (user_["before"], user_["after"]) == ({}, {"name": "N", "role": "user"})
    assert (made["before"], made["after"]["user"]) == ({}, "new@site1.test")
    assert revoked["before"]["revokedAt"] is None
    assert revoked["after"]["revokedAt"]
    for row in (made, revoked):
        assert row["target"] == {"type": "token", "id": str(token["id"])}
    for row in (site, user_, made, revoked):
        assert (row["actor"], row["origin"], row["outcome"]) == (ADMIN, "api", "success")
        assert row["source"]
        assert row["node"]
        assert row["tokenId"]
        assert token["token"] not in json.dumps(row)


def test_releases_are_recorded(service: Service) -> None:
    """Each release of a signed report has an event."""
    service.launch()
    service.post("report/sign", {**ONE, "ignoreSignDelay": True})
    found = events(service)
    assert [row["action"] for row in found] == ["launch", "release", "sign"]
    assert found[1]["details"]["kind"] == "final"


def test_the_audit_trail_contains_no_patient_data_and_no_secret(service: Service) -> None:
    """Only a FHIR export for an archive names the patient."""
    tags = {"PatientName": "CANARY^NAME", "KeyFindings": "canary text"}
    link = service.launch(
        tags=tags | {"PatientMRN": "CANARY-MRN", "Accession": "CANARY-ACC"}, userInfo=user()
    ).json()["reportLink"]
    page = service.session(service.open(link))
    page("save", {"text": "canary words", "version": 1})
    order = identity("CANARY-ACC", "CANARY-MRN")
    service.get("report/content", **order)
    service.get("worklist", SiteID="SITE1", q="CANARY")
    service.post("report/status", {"clinicalInfo": [order]}, "canary-token")
    events(service)
    with service.database.read() as connection:
        rows = trail.read_page(connection, trail.TrailQuery())
        assert ENGINE_CHAIN.verify(connection).broken is None
        known = audit_queries.patients_of(connection, rows[0].reports)
    named = [AuditedPatient(*patient) for report in rows[0].reports for patient in known[report]]
    written = json.dumps([row.as_json() for row in rows])
    assert "canary" not in written.lower()
    assert "token=" not in written
    exported = [one for row in rows for one in audit_events(row.entry(), "http://e.test")]
    assert "canary" not in json.dumps(exported).lower()
    (with_patient,) = audit_events(rows[0].entry(), "http://e.test", named)
    assert with_patient["meta"]["profile"][0].endswith("IHE.BasicAudit.PatientCreate")
    assert "CANARY-MRN" in json.dumps(with_patient)


def test_only_site_administrators_read_the_audit_trail(service: Service) -> None:
    for who in (FOREIGN, READER):
        assert service.get("admin/sites/SITE1/audit", who).status_code == 403
    events(service)
    found = [(event["actor"], event["outcome"]) for event in events(service, action="audit-read")]
    assert found == [(FOREIGN, "refused"), (READER, "refused"), (ADMIN, "success")]
    newest = service.get("admin/sites/SITE1/audit", limit=1).json()["events"]
    assert len(newest) == 1


def test_changes_of_templates_groups_codes_and_macros_are_recorded(service: Service) -> None:
    """Each event has its target and the state before and after; texts are hashes."""
    site = "/api/admin/sites/SITE1"
    template = f"{site}/templates/7"
    group = {"name": "Night", "tags": ["CT"], "members": [READER]}
    mrrt = "<html><body><section data-section-name='F'><header>F</header></section></body></html>"
    calls: list[tuple[str, str, Any]] = [
        ("PUT", template, {"name": "Chest", "text": "Findings:"}),
        ("PUT", f"{template}/mrrt", {"html": mrrt, "name": "Thorax"}),
        ("DELETE", template, None),
        ("POST", f"{site}/prelim-groups", group),
        ("DELETE", f"{site}/prelim-groups/Night", None),
        ("PUT", f"{site}/code-map", {"csv": "system,match,code\nicd10,cough,R05\n"}),
        ("PUT", f"{site}/macros/nl", {"name": "Normal", "text": "Normal."}),
        ("DELETE", f"{site}/macros/nl", None),
    ]
    for method, path, body in calls:
        response = service.call(method, path, json=body)
        assert response.status_code == 200, (path, response.text)

    members = ("action", "before", "after")
    found = [
        (event["action"], event["target"]["id"], event["before"], event["after"])
        for event in events(service)
        if all(name in event for name in members)
    ]
    names = [(action, target) for action, target, _, _ in found]
    assert names == [
        *[("template-update", "7")] * 2,
        ("template-delete", "7"),
        *[("prelim-group-update", "Night"), ("prelim-group-delete", "Night")],
        ("code-map-update", "SITE1"),
        *[("macro-update", "nl"), ("macro-delete", "nl")],
    ]
    assert found[0][2] == {}
    assert found[1][2] == found[0][3] != found[1][3] == found[2][2]
    assert (found[1][3]["name"], found[2][3]) == ("Thorax", {})
    assert found[3][3] == {"tags": ["CT"], "members": [READER], "reviewers": None}
    assert found[5][3]["rows"] == 1
    assert "Normal." not in json.dumps([row[2:] for row in found])


def test_changes_of_preferences_and_own_macros_are_recorded(service: Service) -> None:
    """With the values before and after; the text of a macro is a hash."""
    page = service.page(service.launch())

    def put(path: str, body: dict[str, Any]) -> None:
        assert page.call("PUT", path, json=body).status_code == 204

    text = {"type": "doc", "content": [{"type": "paragraph", "content": []}]}
    for theme in ("dark", "dark", "light"):
        put("choices", {"theme": theme})
    put("macros/nl", {"name": "Normal", "document": text})
    put("macros/nl", {"name": "Normal lungs", "document": text})
    page.call("DELETE", "macros/nl")
    found = [
        (event["action"], event["target"]["type"], event["before"], event["after"])
        for event in events(service)
        if event["action"] in ("profile-update", "macro-update", "macro-delete")
    ]
    assert found[:3] == [
        ("profile-update", "account", {}, {"theme": "dark"}),
        ("profile-update", "account", {}, {}),
        ("profile-update", "account", {"theme": "dark"}, {"theme": "light"}),
    ]
    made, changed, removed = found[3:]
    assert made[:3] == ("macro-update", "macro", {})
    assert made[3]["document"].startswith("sha256 ")
    assert changed[2:] == ({"name": "Normal"}, {"name": "Normal lungs"})
    assert removed == ("macro-delete", "macro", {**made[3], "name": "Normal lungs"}, {})
