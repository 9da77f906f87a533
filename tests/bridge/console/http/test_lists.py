"""The lists of the console: who may search for what, what is audited, and saved views."""

import csv
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import text

from bridge.console.http.models.lists import (
    AttentionRowBody,
    AuditRowBody,
    CountBody,
    DeliveryRowBody,
    FoundBody,
    ListPageBody,
    MessageRowBody,
    OrderRowBody,
    SavedViewBody,
    StepRowBody,
    ViewsBody,
)
from bridge.contract import OrderKey
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.scheduled_steps import ScheduledStep, StepStatus, replace_all
from tests.bridge.console.http.running_console import RunningConsole

STEP = ScheduledStep(
    OrderKey("SITE1", "M1", "A1"), 0, "S1", "1.2", StepStatus.SCHEDULED, "CT", ("CT1",), "Room 1",
    20261130, "143000", "{}", 1,
)  # fmt: skip
CREATED, BAD_REQUEST, FORBIDDEN, UNKNOWN, CONFLICT, INVALID = 200, 400, 403, 404, 409, 422


def page(console: RunningConsole, who: str, listed: str, **body: Any) -> Any:
    return console.call(who, "POST", f"/api/lists/{listed}", body)


def ids(response: Any) -> set[int]:
    assert response.status_code == 200, response.text
    return {row["id"] for row in response.json()["rows"]}


def events(console: RunningConsole) -> list[tuple[str, str]]:
    found = page(console, "chief", "audit").json()["rows"]
    return [(row["action"], row["subject"]) for row in found]


def test_messages_are_listed_with_their_cause(console: RunningConsole) -> None:
    """A page says whether it is complete; filters work together."""
    found = page(console, "editor", "messages").json()
    assert found["complete"]
    assert found["next"] is None
    assert console.messages["SITE1"] in {row["id"] for row in found["rows"]}
    row = found["rows"][0]
    assert {"cause", "cause_text", "action", "state", "attempts", "settled_at"} <= row.keys()
    assert "payload" not in row
    one = page(console, "editor", "messages", filters={"channel": "orders", "type": "ORM^O01"})
    assert console.messages["SITE1"] in ids(one)
    assert console.messages["SITE2"] not in ids(one)
    counted = console.call("editor", "POST", "/api/lists/messages/count", {"filters": {}}).json()
    assert counted == {"count": len(found["rows"]), "exact": True}


def test_a_number_needs_permission_and_is_audited_without_its_value(
    console: RunningConsole,
) -> None:
    """A viewer cannot search for numbers, and only who may read content for patients."""
    by_number = {"filters": {"number": "A1"}}
    assert page(console, "viewer", "messages", **by_number).status_code == FORBIDDEN
    assert ids(page(console, "operator", "messages", **by_number)) == {console.messages["SITE1"]}
    patient = {"filters": {"number": "M1", "kind": "patient"}}
    assert page(console, "operator", "messages", **patient).status_code == FORBIDDEN
    assert ids(page(console, "editor", "messages", **patient)) == {console.messages["SITE1"]}
    name = {"filters": {"name": "jane"}}
    assert page(console, "operator", "messages", **name).status_code == FORBIDDEN
    assert console.messages["SITE1"] in ids(page(console, "editor", "messages", **name))
    found = events(console)
    assert ("search", "messages by number") in found
    assert ("search", "messages by name") in found
    assert not any("A1" in subject or "jane" in subject for _, subject in found)


def test_columns_have_content_and_leave_an_event(console: RunningConsole) -> None:
    """Numbers need `find`, content `bodies`; messages of other sites have no values."""
    own, foreign = console.messages["SITE1"], console.messages["SITE2"]
    asked = {"ids": [own, foreign], "columns": ["accession", "control_id"]}
    path = "/api/lists/messages/columns"
    assert console.call("viewer", "POST", path, asked).status_code == FORBIDDEN
    found = console.call("operator", "POST", path, asked).json()
    assert found["left"] == []
    assert found["values"][str(own)]["accession"] == "A1"
    content = {
        "ids": [own, foreign],
        "columns": ["patient", "name", "tag:Modality", "path:PID-5.1"],
    }
    assert console.call("operator", "POST", path, content).status_code == FORBIDDEN
    limited = console.call("editor1", "POST", path, content).json()["values"]
    assert set(limited) == {str(own)}
    assert limited[str(own)]["patient"] == "M1"
    assert limited[str(own)]["name"].endswith(", JANE")
    assert ("list content", "messages") in events(console)


@pytest.mark.parametrize(
    ("columns", "status"), [(["mood"], INVALID), (["path:PID-"], INVALID), ([], BAD_REQUEST)]
)
def test_an_unknown_column_is_refused(
    console: RunningConsole, columns: list[str], status: int
) -> None:
    body = {"ids": [1], "columns": columns}
    response = console.call("editor", "POST", "/api/lists/messages/columns", body)
    assert response.status_code == status


def test_a_repaired_message_leaves_the_list_of_missing_tags(console: RunningConsole) -> None:
    """The index knows which tags are missing; a replay stores what is missing now."""
    own = console.messages["SITE1"]
    kind = console.call(
        "editor",
        "POST",
        "/api/lists/messages/columns",
        {"ids": [own], "columns": ["tag:PatientMRN", "tag:KeyFindings"]},
    ).json()["values"][str(own)]
    assert (kind["tag:PatientMRN"], kind["tag:KeyFindings"]) == ("M1", "")
    lacking = {"filters": {"absent": "KeyFindings"}}
    assert own in ids(page(console, "editor", "messages", **lacking))
    present = {"filters": {"absent": "PatientMRN"}}
    assert own not in ids(page(console, "editor", "messages", **present))
    with console.database.write() as connection:  # as if the definition had not found it
        wrong = text("UPDATE message_entry SET absent = :all WHERE message_id = :id")
        connection.execute(wrong, {"all": 2**22 - 1, "id": own})
        parked = text("UPDATE message SET state = 'parked' WHERE id = :id")
        connection.execute(parked, {"id": own})
        connection.execute(text("DELETE FROM message_lane WHERE message_id = :id"), {"id": own})
    assert own in ids(page(console, "editor", "messages", **present))
    replayed = console.call("editor", "POST", f"/api/messages/{own}/replay", {})
    assert replayed.status_code == 200, replayed.text
    assert own not in ids(page(console, "editor", "messages", **present))
    assert own in ids(page(console, "editor", "messages", **lacking))


def test_deliveries_and_orders_are_listed(console: RunningConsole) -> None:
    """Of the user's sites; orders need `find`."""
    own = console.deliveries["SITE1"]
    assert own in ids(page(console, "viewer1", "deliveries"))
    assert console.deliveries["SITE2"] not in ids(page(console, "viewer1", "deliveries"))
    assert console.deliveries["SITE2"] in ids(page(console, "viewer", "deliveries"))
    assert page(console, "viewer", "orders").status_code == FORBIDDEN
    sites = {row["site"] for row in page(console, "editor1", "orders").json()["rows"]}
    assert sites <= {"SITE1"}
    found = page(console, "operator", "orders", filters={"number": "A1"}).json()["rows"]
    assert [row["site"] for row in found] == ["SITE1"]
    values = {"ids": [found[0]["id"]], "columns": ["accession"]}
    answer = console.call("operator", "POST", "/api/lists/orders/columns", values).json()
    assert answer["values"] == {str(found[0]["id"]): {"accession": "A1"}}


def test_an_unknown_filter_or_list_is_refused(console: RunningConsole) -> None:
    unknown = page(console, "editor", "messages", filters={"mood": "x"})
    assert unknown.status_code == INVALID
    assert page(console, "editor", "moods").status_code == BAD_REQUEST
    nested = page(console, "editor", "messages", filters={"hashes": [[1, 2]]})
    assert nested.status_code == BAD_REQUEST
    assert page(console, "editor", "messages", limit=201).status_code == BAD_REQUEST


def test_a_view_is_its_owners_unless_it_is_shared(console: RunningConsole) -> None:
    """Sharing needs `operate`; others see a shared view, and cannot change it."""
    view = {"list": "messages", "name": "Mine", "body": {"filters": {"state": "parked"}}}
    mine = console.call("operator", "POST", "/api/views", view)
    assert mine.status_code == CREATED, mine.text
    shared = {**view, "name": "Ours", "shared": True}
    assert console.call("viewer", "POST", "/api/views", shared).status_code == FORBIDDEN
    ours = console.call("operator", "POST", "/api/views", shared).json()
    names = {row["name"]: row for row in console.call("viewer", "GET", "/api/views").json()["rows"]}
    assert "Mine" not in names
    assert (names["Ours"]["owner"], names["Ours"]["own"]) == ("operator@site1.test", False)
    path = f"/api/views/{ours['id']}"
    assert console.call("viewer", "PUT", path, shared).status_code == FORBIDDEN
    assert (
        console.call("viewer", "DELETE", f"/api/views/{mine.json()['id']}").status_code == UNKNOWN
    )
    renamed = console.call("operator", "PUT", path, {**shared, "name": "Mine"})
    assert renamed.status_code == CONFLICT
    assert console.call("chief", "DELETE", path).status_code == 200
    assert ("save view", "view") in events(console)
    assert ("delete view", f"view {ours['id']}") in events(console)


@pytest.mark.parametrize("name", ["number", "name", "text"])
def test_a_view_contains_no_patient_data(console: RunningConsole, name: str) -> None:
    view = {"list": "messages", "name": "Private", "body": {"filters": {name: "Jane"}}}
    response = console.call("editor", "POST", "/api/views", view)
    assert response.status_code == BAD_REQUEST
    assert response.json()["code"] == "private_filter"


def test_responses_have_the_described_members(console: RunningConsole) -> None:
    """The types of the pages are generated from the description."""
    with console.database.write() as connection:
        exceptions.add(connection, ExceptionSubject.ORDER, [(1, "kept")], 1)
        replace_all(connection, {STEP.key: [STEP]})
    rows: dict[str, type[BaseModel]] = {
        "messages": MessageRowBody,
        "deliveries": DeliveryRowBody,
        "orders": OrderRowBody,
        "attention": AttentionRowBody,
        "audit": AuditRowBody,
        "steps": StepRowBody,
    }
    for listed, model in rows.items():
        answer = page(console, "chief", listed).json()
        ListPageBody.model_validate(answer)
        assert answer["rows"], listed
        for row in answer["rows"]:
            model.model_validate(row)
    found = console.call("editor", "POST", "/api/find", {"text": "A1"}).json()
    FoundBody.model_validate(found)
    view = {"list": "orders", "name": "All", "body": {"columns": ["site"]}}
    SavedViewBody.model_validate(console.call("editor", "POST", "/api/views", view).json())
    ViewsBody.model_validate(console.call("editor", "GET", "/api/views").json())
    counted = console.call("editor", "POST", "/api/lists/orders/count", {}).json()
    CountBody.model_validate(counted)


def test_audit_events_are_exported_as_a_table(console: RunningConsole) -> None:
    """With the filters of the list, for its readers, on their sites; and it is an event itself."""
    path = "/api/audit/export"
    assert console.call("operator", "POST", path, {}).status_code == FORBIDDEN
    unknown = console.call("chief", "POST", path, {"filters": {"mood": "good"}})
    assert unknown.status_code == INVALID
    answer = console.call("chief", "POST", path, {"filters": {"action": "export"}})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.text.startswith("\ufeff")
    rows = list(csv.DictReader(answer.text.removeprefix("\ufeff").splitlines()))
    listed = page(console, "chief", "audit", filters={"action": "export"}).json()["rows"]
    assert [row["id"] for row in rows] == [str(row["id"]) for row in listed[1:]]
    (done, refused) = listed[0], rows[-1]
    assert (done["subject"], done["outcome"]) == ("audit events", "done")
    assert (refused["person"], refused["outcome"]) == ("operator@site1.test", "not_permitted")
    assert datetime.fromisoformat(refused["time"]).tzinfo is not None


def test_a_table_of_many_events_has_all_of_them(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page; the newest ones if there are more than a table may have."""
    monkeypatch.setattr("bridge.admin.lists.audit._EXPORTED_AT_ONCE", 3)
    for _ in range(8):
        page(console, "operator", "messages", filters={"number": "A1"})

    def exported() -> int:
        answer = console.call("chief", "POST", "/api/audit/export", {"filters": SEARCHES})
        return len(answer.text.splitlines()) - 1

    number = len(page(console, "chief", "audit", filters=SEARCHES, limit=200).json()["rows"])
    assert exported() == number >= 8  # those of this test
    monkeypatch.setattr("bridge.admin.lists.audit.MAX_EXPORTED", 6)
    assert exported() == 6  # two pages


SEARCHES = {"action": "search"}
