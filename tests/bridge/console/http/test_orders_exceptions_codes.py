"""Orders by number, attention items, unmapped codes, and searches by command line."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bridge.admin.definitions.activation import activate_at_start
from bridge.cli.application import application
from bridge.console.http.models.attention import AttentionBody
from bridge.contract import OrderKey
from bridge.orders.order import Order, OrderState
from bridge.runtime.schedule import now_ms
from bridge.store.records import (
    exceptions,
    identifier_changes,
    order_index,
    patient_records,
    unmapped_codes,
)
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.unmapped_codes import CodeKey, CodeUse
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole


def store_exceptions(console: RunningConsole) -> None:
    with console.database.write() as connection:
        kept = [(console.messages[site], "report_kept") for site in ("SITE1", "SITE2")]
        exceptions.add(connection, ExceptionSubject.MESSAGE, kept, now_ms())
        exceptions.add(connection, ExceptionSubject.ORDER, [(1, "not_queued ris")], now_ms() + 1)


def listed(console: RunningConsole, who: str, seen: str = "no") -> list[tuple[str, int, str]]:
    body = {"filters": {"seen": seen}}
    rows = console.call(who, "POST", "/api/lists/attention", body).json()["rows"]
    return [(row["subject"], row["row_id"], row["code"]) for row in rows]


def test_items_are_listed_reviewed_and_audited(console: RunningConsole) -> None:
    """Users see those of their sites; reviewing requires a permission and works once."""
    store_exceptions(console)
    ours = console.messages["SITE1"]
    assert listed(console, "editor1") == [
        ("order", 1, "not_queued ris"),
        ("message", ours, "report_kept"),
    ]
    assert len(listed(console, "editor")) == 3

    path = f"/api/attention/message/{ours}/seen"
    assert console.call("viewer1", "POST", path, {}).status_code == 403
    assert console.call("editor1", "POST", path, {}).status_code == 200
    assert console.call("editor1", "POST", path, {}).status_code == 404, "already reviewed"
    assert console.call("editor1", "POST", "/api/attention/order/1/seen", {}).status_code == 200
    assert listed(console, "editor1") == []
    assert len(listed(console, "editor1", "yes")) == 2
    events = console.audit_events("chief", action="acknowledge")
    assert {(event["subject"], event["outcome"]) for event in events} >= {
        (f"message {ours}", "done"),
        (f"message {ours}", "unknown"),
        (f"message {ours}", "not_permitted"),
        ("order 1", "done"),
    }


def test_groups_have_cause_count_and_action(console: RunningConsole) -> None:
    """Parked rows and items with one cause are one group, with the list that shows them."""
    parked = [console.store("orders", order(number, accession=f"A{number}")) for number in (60, 61)]
    console.index()
    with console.database.write() as connection:
        statement = text("UPDATE message SET state = 'parked', code = :code WHERE id = :id")
        rows = [{"id": number, "code": "site_not_found"} for number in parked]
        connection.execute(statement, rows)
        codes = [(number, "order_moved") for number in parked]
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, now_ms())
    found = console.call("editor1", "GET", "/api/attention").json()
    AttentionBody.model_validate(found)
    assert found["complete"]
    groups = {group["key"]: group for group in found["groups"]}
    group = groups["messages~site_not_found~orders"]
    assert (group["count"], group["action"]) == (2, "add site")
    assert group["words"] == "The site of the order does not exist"
    assert group["first_at"] <= group["last_at"]
    body = {"filters": group["filters"]}
    rows = console.call("editor1", "POST", "/api/lists/messages", body).json()["rows"]
    assert {row["id"] for row in rows} == set(parked)
    moved = groups["messages~order_moved~"]
    assert (moved["count"], moved["applied"], moved["action"]) == (2, True, "compare patients")
    admin = console.call("admin1", "GET", "/api/attention").json()["groups"]
    assert {group["key"] for group in admin} >= {"messages~site_not_found~orders"}

    review = {"subject": "message", "code": "order_moved", "reason": "asked the RIS"}
    assert console.call("viewer1", "POST", "/api/attention/seen", review).status_code == 403
    done = console.call("editor1", "POST", "/api/attention/seen", review)
    assert done.json() == {"count": 2}
    after = console.call("editor1", "GET", "/api/attention").json()["groups"]
    assert "messages~order_moved~" not in {group["key"] for group in after}


def test_a_group_of_another_site_is_not_seen(console: RunningConsole) -> None:
    """Neither its count nor its channel; reviewing all of a code leaves the other site's items."""
    theirs = console.messages["SITE2"]
    with console.database.write() as connection:
        connection.execute(
            text("UPDATE message SET state = 'parked', code = 'merged_elsewhere' WHERE id = :id"),
            {"id": theirs},
        )
        exceptions.add(connection, ExceptionSubject.MESSAGE, [(theirs, "several_orders")], now_ms())
    own = console.call("editor1", "GET", "/api/attention").text
    assert "merged_elsewhere" not in own
    assert "north" not in own
    everything = console.call("editor", "GET", "/api/attention").text
    assert "merged_elsewhere" in everything
    review = {"subject": "message", "code": "several_orders"}
    assert console.call("editor1", "POST", "/api/attention/seen", review).json() == {"count": 0}


def test_codes_without_an_entry_are_a_group(console: RunningConsole) -> None:
    """With the definition and its table; not for users of some sites, as tables serve all."""
    store_unmapped_code(console, "ZZ")
    key = CodeKey("orders", "sex", "M")  # it has an entry now
    unmapped_codes.add(console.database, {key: CodeUse("former", "PID-8.1", "empty")}, now_ms())

    def groups(who: str) -> list[dict[str, Any]]:
        found = console.call(who, "GET", "/api/attention").json()["groups"]
        return [group for group in found if group["subject"] == "codes"]

    assert groups("viewer1") == []
    (group,) = groups("viewer")
    assert group["count"] == 1
    assert group["action"] == "add codes"
    assert group["filters"] == {"definition": ["orders"]}
    assert "sex" in group["words"]


def test_an_item_of_another_site_does_not_exist(console: RunningConsole) -> None:
    """The response equals that for a missing order."""
    for row in (2, 999):
        response = console.call("editor1", "POST", f"/api/attention/order/{row}/seen", {})
        assert response.status_code == 404


def find(console: RunningConsole, who: str, number: str) -> list[str]:
    """Return the accessions of the orders that the search field finds."""
    response = console.call(who, "POST", "/api/find", {"text": number})
    assert response.status_code == 200, response.text
    return [hit["title"] for hit in response.json()["orders"]]


def order_of(console: RunningConsole, accession: str) -> int:
    with console.database.read() as connection:
        statement = text("SELECT id FROM bridge_order WHERE accession = :accession")
        return int(connection.execute(statement, {"accession": accession}).scalar_one())


def test_an_order_is_found_by_each_of_its_numbers(console: RunningConsole) -> None:
    """By accession, placer number and filler number."""
    payload = order(40, accession="A40").replace(b"ORC|NW|P40", b"ORC|NW|PL-40|FI-40")
    assert b"FI-40" in payload
    message = console.store("orders", payload)
    console.index()
    key = OrderKey("SITE1", "M40", "A40")
    with console.database.write() as connection:
        known = Order(key, OrderState.ORDERED, message, message, placer="PL-40", filler="FI-40")
        order_index.save(connection, [known])
    for number in ("A40", "PL-40", " FI-40 "):
        assert find(console, "operator", number) == ["A40"]
    assert find(console, "operator", "unknown") == []


@pytest.fixture
def restoring() -> Iterator[ExitStack]:
    """Undo changes in the data directory, which the tests of this module share."""
    with ExitStack() as stack:
        yield stack


def test_an_accession_mapped_from_another_field_finds_the_message(
    console: RunningConsole, restoring: ExitStack
) -> None:
    """The definition reads the accession from OBR-20; message search and order tracking find it."""
    orders = console.settings.home / "mappings" / "orders.yaml"
    written = orders.read_text("utf-8")
    accession = "  Accession: {from: OBR-20, required: true}\n"
    changed = re.sub(r"(?m)^  Accession:.*\n(?:    .*\n)*", accession, written, count=1)
    assert accession in changed
    orders.write_text(changed, "utf-8")
    restoring.callback(orders.write_text, written, "utf-8")
    payload = order(41).replace(b"||A41||||||CT", b"||||ACC-41||||CT")
    assert b"ACC-41" in payload
    message = console.store("orders", payload)
    console.index()
    key = OrderKey("SITE1", "M41", "ACC-41")
    with console.database.write() as connection:
        order_index.save(connection, [Order(key, OrderState.ORDERED, message, message)])

    wanted = {"filters": {"kind": "order", "number": "ACC-41"}}
    found = console.call("editor1", "POST", "/api/lists/messages", wanted).json()["rows"]
    assert [row["id"] for row in found] == [message]
    assert find(console, "editor1", "ACC-41") == ["ACC-41"]
    page = console.call("editor1", "GET", f"/api/orders/{order_of(console, 'ACC-41')}").json()
    assert [row["id"] for row in page["messages"]] == [message]
    assert "received" in {step["kind"] for step in page["steps"]}


def test_an_order_has_messages_with_another_number(console: RunningConsole) -> None:
    """A cancel with the placer number only; not for users who may not see its site."""
    first = console.store("orders", order(42, accession="A42"))
    other = console.store("north", order(43, accession="A43"))
    console.index()
    with console.database.write() as connection:
        known = Order(OrderKey("SITE1", "M42", "A42"), OrderState.CANCELLED, first, other)
        order_index.save(connection, [known])
    path = f"/api/orders/{order_of(console, 'A42')}"
    for who, wanted in (("editor", [first, other]), ("editor1", [first])):
        page = console.call(who, "GET", path).json()
        assert [message["id"] for message in page["messages"]] == wanted


@pytest.mark.parametrize(
    "option", ["--accession=A1", "--placer= P1 ", "--filler=F1", "--patient=M1"]
)
def test_commands_find_by_number(console: RunningConsole, option: str) -> None:
    """Messages by the message index, deliveries by the orders. The audit event lacks the number."""
    ran = {
        group: CliRunner().invoke(
            application, [group, "list", option, "--json", "--home", str(console.settings.home)]
        )
        for group in ("messages", "deliveries")
    }
    for kind, ours in (("messages", console.messages), ("deliveries", console.deliveries)):
        assert ran[kind].exit_code == 0, ran[kind].output
        assert [load["id"] for load in json.loads(ran[kind].stdout)] == [ours["SITE1"]]
    number = option.partition("=")[2].strip()
    events = console.audit_events("chief", action="search")
    assert any(event["subject"].startswith("deliveries by") for event in events)
    assert not any(number in event["subject"] for event in events)


@pytest.mark.parametrize("msh18", ["8859/1", ""])
def test_a_message_is_shown_in_its_own_character_set(console: RunningConsole, msh18: str) -> None:
    """By MSH-18, else by its bytes; in the console and on the command line."""
    text = order(44, msh10=f"C44{msh18}", name="Ó BRIAIN^SEÁN").decode()
    payload = text.replace("UNICODE UTF-8", msh18).encode("iso8859-1")
    message = console.store("orders", payload)
    content = console.call("editor", "GET", f"/api/messages/{message}/content").json()
    assert "|Ó BRIAIN^SEÁN|" in content["raw"]
    command = ["messages", "show", str(message), "--home", str(console.settings.home)]
    assert "|Ó BRIAIN^SEÁN|" in CliRunner().invoke(application, command).stdout


def test_commands_find_by_control_id(console: RunningConsole) -> None:
    """MSH-10 of received and of sent messages; one number at a time."""

    def found(group: str, *options: str) -> list[int]:
        command = [group, "list", *options, "--json", "--home", str(console.settings.home)]
        result = CliRunner().invoke(application, command)
        assert result.exit_code == 0, result.output
        return [load["id"] for load in json.loads(result.stdout)]

    assert found("messages", "--control-id", "C2") == [console.messages["SITE2"]]
    assert found("messages", "--control-id", "C2", "--listener", "orders") == []
    assert found("deliveries", "--control-id", "D2") == [console.deliveries["SITE2"]]
    assert found("deliveries", "--control-id", "C2") == []
    assert found("deliveries", "--order", "unknown") == []
    command = ["messages", "list", "--patient", "M1", "--order", "A1"]
    both = CliRunner().invoke(application, [*command, "--home", str(console.settings.home)])
    assert both.exit_code == 2


def test_a_search_by_patient_requires_bodies(console: RunningConsole) -> None:
    """It finds all orders on the user's sites, also by the patient id before a merge."""
    assert find(console, "operator", "M1") == []
    by_patient = {"filters": {"kind": "patient", "number": "M1"}}
    refused = console.call("viewer", "POST", "/api/lists/messages", by_patient)
    assert refused.status_code == 403
    assert find(console, "editor1", "M1") == ["A1"]
    assert find(console, "editor1", "M2") == []
    assert find(console, "editor", "M2") == ["A2"]
    with console.database.write() as connection:
        patient_records.merge(connection, "SITE1", "M0", "M1")
    assert find(console, "editor1", "M0") == ["A1"]
    events = console.audit_events("chief", action="search")
    assert "anything" in {event["subject"] for event in events}
    assert not any("M1" in event["subject"] for event in events)


def store_unmapped_code(console: RunningConsole, code: str, place: str = "PID-8.1") -> None:
    activate_at_start(console.settings, console.database, now_ms())
    version = console.call("author", "GET", "/api/mappings/orders").json()["in_force"]["version"]
    use = CodeUse(version, place, "empty", 3)
    unmapped_codes.add(console.database, {CodeKey("orders", "sex", code): use}, now_ms())


def codes(console: RunningConsole, who: str = "author") -> dict[str, dict[str, object]]:
    listed = console.call(who, "GET", "/api/unknown-codes").json()["rows"]
    return {row["code"]: row for row in listed}


def test_an_entry_for_an_unmapped_code(console: RunningConsole) -> None:
    """It goes to the author's draft; after the activation the code is no longer listed."""
    store_unmapped_code(console, "Q")
    assert (codes(console)["Q"]["count"], codes(console)["Q"]["value"]) == (3, "")
    path = "/api/mappings/orders/codes/sex"
    saved = console.call("author", "PUT", path, {"code": "Q", "value": 'O, "other"'})
    assert saved.status_code == 200, saved.text
    assert saved.json()["issues"] == []
    again = console.call("author", "PUT", path, {"code": "q", "value": "O"}).json()
    assert codes(console)["Q"]["value"] == "O"
    assert codes(console, "chief")["Q"]["value"] == "", "only the author sees a draft"
    draft = console.call("author", "GET", "/api/mappings/orders").json()["draft"]
    assert draft["files"]["codes/sex.csv"].endswith("\nQ,O,\n")
    body = {"reason": "a code more", "begun_on": draft["begun_on"], "revision": again["revision"]}
    done = console.call("author", "POST", "/api/mappings/orders/activate", body)
    assert done.status_code == 200, done.text
    assert "Q" not in codes(console)
    events = console.audit_events("chief", action="save draft")
    assert [event["subject"] for event in events] == ["mapping orders"] * 2


def test_codes_stay_listed_until_they_have_an_entry(console: RunningConsole) -> None:
    """Neither an activation nor a rollback forgets a code; one with an entry leaves the list."""
    for code in ("Q1", "Q2"):
        store_unmapped_code(console, code)

    def listed() -> dict[str, dict[str, object]]:
        own = {code: row for code, row in codes(console, "chief").items() if code in {"Q1", "Q2"}}
        return dict(sorted(own.items()))

    before = listed()
    assert list(before) == ["Q1", "Q2"]
    path = "/api/mappings/orders"
    saved = console.call("author", "PUT", f"{path}/codes/sex", {"code": "Q1", "value": "O"})
    draft = console.call("author", "GET", path).json()["draft"]
    revision = saved.json()["revision"]
    body = {"reason": "x", "begun_on": draft["begun_on"], "revision": revision}
    done = console.call("author", "POST", f"{path}/activate", body)
    assert done.status_code == 200, done.text
    assert listed() == {"Q2": before["Q2"]}
    active = console.call("author", "GET", path).json()["in_force"]["version"]
    back = {"reason": "y", "begun_on": active}
    done = console.call("author", "POST", f"{path}/rollback", back)
    assert done.status_code == 200, done.text
    assert listed() == before


def test_ignoring_an_unmapped_code(console: RunningConsole) -> None:
    """The list names the user; a second time is an error."""
    store_unmapped_code(console, "Z")
    body = {"mapping": "orders", "code_table": "sex", "code": "Z"}
    assert console.call("viewer", "POST", "/api/unknown-codes/leave", body).status_code == 403
    assert console.call("author", "POST", "/api/unknown-codes/leave", body).status_code == 200
    assert console.call("author", "POST", "/api/unknown-codes/leave", body).status_code == 404
    assert codes(console)["Z"]["seen_by"] == "author@site1.test"


def test_an_entry_for_a_missing_code_table(console: RunningConsole) -> None:
    path = "/api/mappings/orders/codes/nowhere"
    response = console.call("author", "PUT", path, {"code": "Q", "value": "O"})
    assert response.status_code == 404


def test_saving_a_draft_is_audited(console: RunningConsole) -> None:
    """A refused save is audited too, such as a Python hook without the permission `code`."""
    known = console.call("author", "GET", "/api/mappings/results").json()
    body = {"files": {"hook.py": "x = 1\n"}, "begun_on": "", "revision": 0}
    refused = console.call("author", "PUT", "/api/mappings/results/draft", body)
    assert refused.status_code == 403
    text = {"results.yaml": known["sources"]["results.yaml"] + "\n# more\n"}
    body = {"files": text, "begun_on": "", "revision": 0}
    assert console.call("author", "PUT", "/api/mappings/results/draft", body).status_code == 200
    events = console.audit_events("chief", target="mapping results")
    assert [(event["action"], event["outcome"]) for event in events] == [
        ("save draft", "done"),
        ("save draft", "not_permitted"),
    ]


def test_a_wrong_merge_is_undone(console: RunningConsole) -> None:
    """Operators of the site undo it with a reason. The audit trail has no number."""
    with console.database.write() as connection:
        identifier_changes.add_merge(connection, "SITE1", "7021", "7020", 1, None)
        patient_records.merge(connection, "SITE1", "7021", "7020")
    body = {"site": "SITE1", "number": "7021", "reason": "registration error"}
    path = "/api/merges/undo"
    assert console.call("viewer1", "POST", path, body).status_code == 403
    assert console.call("editor1", "POST", path, {**body, "reason": " "}).status_code == 400
    other = {**body, "site": "SITE2"}
    assert console.call("editor1", "POST", path, other).status_code == 404
    assert console.call("editor1", "POST", path, {**body, "number": "7020"}).status_code == 404
    unknown = {**body, "keep": ["A9"]}
    assert console.call("editor1", "POST", path, unknown).status_code == 409
    of_site = {"site": "SITE1", "number": "7021"}
    listed = console.call("editor1", "POST", "/api/merges", of_site).json()["rows"]
    assert [(row["prior_mrn"], row["mrn"]) for row in listed] == [("7021", "7020")]
    shown = console.call("editor1", "POST", "/api/merges/show", of_site)
    assert (shown.json()["mrn"], shown.json()["orders"]) == ("7020", [])
    assert [patient["mrn"] for patient in shown.json()["patients"]] == ["7021", "7020"]
    unread = console.call("editor1", "POST", "/api/merges/correct", body)
    assert unread.status_code == 404  # the merge is in force
    done = console.call("editor1", "POST", path, body)
    assert (done.status_code, done.json()) == (200, {"orders": 0, "moved": 0})
    undone = console.call("editor1", "POST", "/api/merges", {**of_site, "undone": True})
    assert [row["prior_mrn"] for row in undone.json()["rows"]] == ["7021"]
    corrected = console.call("editor1", "POST", "/api/merges/correct", body).json()
    assert corrected == {"queued": 0, "result_only": [], "nothing": []}
    assert console.call("editor1", "POST", "/api/merges/show", of_site).json()["undone_at"]
    assert console.call("editor1", "POST", path, body).status_code == 404
    with console.database.read() as connection:
        assert patient_records.survivors(connection, [("SITE1", "7021")]) == {}
    events = console.audit_events("chief", action="undo merge")
    assert ("done", "registration error") in {
        (event["outcome"], event["reason"]) for event in events
    }
    assert "7021" not in json.dumps(events)
