"""Sites, users, tokens, templates, groups, roles, worklist, audit trail and connections."""

import pytest
from sqlalchemy import text

from bridge.engine_client.client import LaunchRequest
from bridge.queue import queries
from bridge.queue.states import QueueState
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole
from tests.bridge.queue import stored_rows

ADMIN = "admin1"


def test_a_site_administrator_manages_their_site(console: RunningConsole) -> None:
    """Settings, users, tokens, templates and groups are changed, listed, removed and audited."""
    site = "/api/sites/SITE1"
    changed = console.call(ADMIN, "PATCH", site, {"signDelay": 30})
    assert changed.json()["signDelay"] == 30
    user = {"email": "ria@site1.test", "name": "Ria", "role": "user"}
    assert console.call(ADMIN, "POST", f"{site}/users", user).status_code == 200
    token = console.call(ADMIN, "POST", f"{site}/tokens", {"email": user["email"]}).json()
    assert token["token"].startswith("rbt_") or len(token["token"]) > 30
    listed = console.call(ADMIN, "GET", f"{site}/tokens")
    assert token["token"] not in listed.text
    assert token["id"] in {row["id"] for row in listed.json()}
    assert console.call(ADMIN, "DELETE", f"{site}/tokens/{token['id']}").status_code == 200
    template = {"name": "Chest", "text": "Findings:\n"}
    assert console.call(ADMIN, "PUT", f"{site}/templates/7", template).status_code == 200
    group = {"name": "Night", "tags": ["N1"], "members": [user["email"]]}
    assert console.call(ADMIN, "POST", f"{site}/prelim-groups", group).status_code == 200
    for what, name in (("templates", "Chest"), ("prelim-groups", "Night"), ("users", "Ria")):
        rows = console.call(ADMIN, "GET", f"{site}/{what}").json()
        assert name in {row["name"] for row in rows}
    for path in ("templates/7", "prelim-groups/Night", f"users/{user['email']}"):
        assert console.call(ADMIN, "DELETE", f"{site}/{path}").status_code == 200
    events = console.audit_events(ADMIN)
    actions = {event["action"] for event in events if event["outcome"] == "done"}
    assert {"change site", "create token", "remove template"} <= actions
    assert token["token"] not in str(events)


def test_error_texts_of_the_report_engine_are_passed_on(console: RunningConsole) -> None:
    """The user stays signed in."""
    response = console.call(ADMIN, "PATCH", "/api/sites/SITE1", {"timeZone": "Mars/Base"})
    assert response.status_code == 400
    assert "zone" in response.json()["detail"].lower()


@pytest.mark.parametrize("who", ["chief@site1.test", "editor@site1.test", "CHIEF@site1.test"])
def test_accounts_with_more_rights_are_protected(console: RunningConsole, who: str) -> None:
    """No new role, no token and no removal for them."""
    site = "/api/sites/SITE1"
    body = {"email": who, "name": "Taken", "role": "user"}
    assert console.call(ADMIN, "POST", f"{site}/users", body).status_code == 403
    assert console.call(ADMIN, "POST", f"{site}/tokens", {"email": who}).status_code == 403
    assert console.call(ADMIN, "DELETE", f"{site}/users/{who}").status_code == 403


def test_system_administrators_assign_and_remove_roles(console: RunningConsole) -> None:
    """Inconsistent roles are refused. No user changes their own, so one administrator remains."""
    path = "/api/grants/reader@site1.test"
    give = {"role": "site-administrator", "bodies": False, "sites": ["SITE1"]}
    assert console.call("chief", "PUT", path, give).status_code == 200
    rows = console.call("chief", "GET", "/api/grants").json()["rows"]
    (row,) = [item for item in rows if item["email"] == "reader@site1.test"]
    assert {name: row[name] for name in give} == give
    assert (row["accountId"], row["pending"], row["disabled"]) == (console.ids[""], True, False)
    for bad in (
        {"role": "site-administrator"},
        {"role": "system-administrator", "sites": ["SITE1"]},
        {"role": "emperor"},
    ):
        assert console.call("chief", "PUT", path, bad).status_code == 400
    own = "/api/grants/chief@site1.test"
    assert console.call("chief", "PUT", own, {"role": "viewer"}).status_code == 409
    assert console.call("chief", "DELETE", own).status_code == 409
    assert console.call("chief", "DELETE", path).status_code == 200
    assert console.call("chief", "DELETE", path).status_code == 404


def test_the_audit_trail_of_a_site_is_searched_and_verified(console: RunningConsole) -> None:
    """By action, user and time, page by page; the hash chain is intact."""
    console.call(ADMIN, "PATCH", "/api/sites/SITE1", {"signDelay": 31})
    path = "/api/sites/SITE1/audit?action=site-update"
    rows = console.call(ADMIN, "GET", f"{path}&limit=2").json()["rows"]
    assert {row["action"] for row in rows} == {"site-update"}
    before = console.call(ADMIN, "GET", f"{path}&before={rows[0]['sequence']}").json()["rows"]
    assert all(row["sequence"] < rows[0]["sequence"] for row in before)
    assert console.call(ADMIN, "GET", f"{path}&user=unknown@site1.test").json()["rows"] == []
    at = rows[0]["at"]
    inside = console.call(ADMIN, "GET", f"{path}&since={at}&until={at + 1}").json()["rows"]
    assert {row["at"] for row in inside} == {at}
    assert console.call(ADMIN, "GET", f"{path}&since={at + 1}").json()["rows"] == []
    verdict = console.call("chief", "POST", "/api/audit/verify", {}).json()
    assert verdict["broken"] is None
    assert verdict["events"] > 0


def test_the_worklist_shows_patient_data_with_bodies_only(console: RunningConsole) -> None:
    """Without the permission: order numbers only, and no search by name."""
    order = {"SiteID": "SITE1", "PatientMRN": "M77", "Accession": "A77", "PatientName": "Doe Jim"}
    console.runner.run(console.engine.launch(LaunchRequest(order, lazy=True, register_order=True)))
    path = "/api/sites/SITE1/worklist"
    plain = console.call("operator", "POST", path, {"accession": "A77"})
    assert plain.json()["rows"][0]["orders"] == [{"SiteLocation": "", "Accession": "A77"}]
    assert "M77" not in plain.text
    assert console.call("operator", "POST", path, {"text": "Doe"}).status_code == 403
    found = console.call("editor", "POST", path, {"text": "Doe"}).json()["rows"]
    assert [row["orders"][0]["PatientMRN"] for row in found] == ["M77"]


def test_accepted_deliveries_are_listed(console: RunningConsole) -> None:
    """By report and destination, of the user's sites; queued deliveries are left out."""

    def listed(who: str, **more: object) -> list[dict[str, object]]:
        filters = {"state": "done", "accepted_since": 0, **more}
        rows: list[dict[str, object]]
        rows = console.call(who, "POST", "/api/lists/deliveries", {"filters": filters}).json()[
            "rows"
        ]
        return rows

    assert listed("chief") == []
    with console.database.write() as connection:
        connection.execute(text("UPDATE delivery SET state = 'done', acknowledged_at = 5000"))
    assert {row["report_id"] for row in listed("chief")} == {"R1", "R2"}
    own = listed(ADMIN, destination="ris")
    assert [(row["report_id"], row["acknowledged_at"]) for row in own] == [("R1", 5000)]
    assert listed(ADMIN, report="R2") == []
    assert listed(ADMIN, accepted_since=5001) == []
    assert listed(ADMIN, accepted_until=5000) == []
    assert listed(ADMIN, destination="ris-north") == []


@pytest.mark.parametrize(
    ("kind", "table", "field"),
    [
        ("listener", {"bind": "127.0.0.1:2576", "site": "NOWHERE"}, "site"),
        ("destination", {"address": "127.0.0.1:2577", "sites": ["SITE1", "NOWHERE"]}, "sites"),
    ],
)
def test_a_connection_with_an_unknown_site_is_refused(
    console: RunningConsole, kind: str, table: dict[str, object], field: str
) -> None:
    """The error names the field, and nothing is saved."""
    mistake = {"field": field, "text": "there is no site NOWHERE: add it under Sites first"}
    plan = {"table": {"name": f"new-{kind}", **table}, "new": True}
    checked = console.call("chief", "POST", f"/api/connections/{kind}/check", plan).json()
    assert checked["mistakes"] == [mistake]
    body = {**plan, "reason": "try", "begun_on": ""}
    path = f"/api/connections/{kind}/new-{kind}"
    refused = console.call("chief", "PUT", path, body)
    assert (refused.status_code, refused.json()["mistakes"]) == (422, [mistake])
    good = {**table, field: "SITE1" if field == "site" else ["SITE1"]}
    assert console.call("chief", "PUT", path, {**body, "table": good}).status_code == 200


def park(console: RunningConsole, message_id: int, code: str = "no_site") -> None:
    """Park a stored message, like a worker that cannot apply it."""
    with console.database.write() as connection:
        parked = "UPDATE message SET state = 'parked', code = :code WHERE id = :id"
        connection.execute(text(parked), {"id": message_id, "code": code})
        connection.execute(
            text("DELETE FROM message_lane WHERE message_id = :id"), {"id": message_id}
        )


def edit(console: RunningConsole, message_id: int, before: str, after: str) -> list[str]:
    """Return the segments of a message after a replacement of text."""
    sheet = console.call("editor", "GET", f"/api/messages/{message_id}/sheet").json()
    return [segment.replace(before, after) for segment in sheet["segments"]]


def test_resending_creates_a_new_message(console: RunningConsole) -> None:
    """It is queued, linked and audited; resending the same edit again changes nothing."""
    old = console.store("orders", order(41, name="DOE^JANE"))
    park(console, old)
    was = queries.message(console.database, old)
    segments = edit(console, old, "M41", "M42")
    path = f"/api/messages/{old}"
    checked = console.call("editor", "POST", f"{path}/check", {"segments": segments})
    assert checked.json() == {"faults": []}
    body = {"segments": segments, "reason": "wrong patient number"}
    new = console.call("editor", "POST", f"{path}/send-again", body).json()["id"]
    assert console.call("editor", "POST", f"{path}/send-again", body).json()["id"] == new
    made = queries.message(console.database, new)
    assert made.payload == was.payload.replace(b"M41", b"M42")
    assert (made.row.state, made.row.listener) == (QueueState.QUEUED, "orders")
    assert queries.message(console.database, old) == was
    steps = {
        item: console.call("viewer", "GET", f"/api/messages/{item}").json()["timeline"]
        for item in (old, new)
    }
    links = [{"page": "message", "id": item} for item in (new, old)]
    assert [s["link"] for s in steps[old] if s["kind"] == "resent"] == links[:1]
    assert [s["link"] for s in steps[new] if s["kind"] == "edited"] == links[1:]
    events = console.audit_events("chief", target=f"message {old}")
    found = {(e["email"], e["action"], e["outcome"], e["site"], e["reason"]) for e in events}
    who = "editor@site1.test"
    assert (who, "send again", "done", "SITE1", "wrong patient number") in found


def test_an_edited_message_is_checked_like_a_received_one(console: RunningConsole) -> None:
    """Refused edits are reported with their places, and not stored."""
    old = console.messages["SITE1"]
    newest = console.store("orders", order(43))
    segments = edit(console, old, "M1^^^HOSP^MR", "")
    path = f"/api/messages/{old}"
    faults = console.call("editor", "POST", f"{path}/check", {"segments": segments}).json()[
        "faults"
    ]
    assert [fault["place"] for fault in faults] == ["PID-3.1"]
    body = {"segments": segments, "reason": "try"}
    refused = console.call("editor", "POST", f"{path}/send-again", body)
    assert (refused.status_code, "PID-3.1" in refused.json()["detail"]) == (409, True)
    bad = [segments[0].replace("^~", "~^"), *segments[1:]]
    response = console.call("editor", "POST", f"{path}/check", {"segments": bad})
    assert (response.status_code, response.json()["place"]) == (400, "MSH-2")
    assert stored_rows.messages(console.database)[0].id == newest
