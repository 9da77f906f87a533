"""The trace of a message, the outline of a definition, and changes of a rule, by the routes."""

import pytest

from bridge.admin.access.permissions import Permission
from tests.bridge.console.http.running_console import PATIENTS, USERS, RunningConsole

MINE = "include: orders.yaml\n# 😀\ntags:\n  Race: PID-10\n"


def test_a_trace_has_the_places_of_the_values(console: RunningConsole) -> None:
    """Each target has its rule and line; the offsets are those of the stored bytes."""
    number = console.messages["SITE1"]
    found = console.call("editor", "GET", f"/api/messages/{number}/trace").json()
    assert (found["definition"], found["active"], found["refusal"]) == ("orders", True, None)
    (event,) = found["events"]
    assert (event["mrn"], event["accession"], event["row"]["key"]) == ("M1", "A1", "NW")
    assert all(target["explained"] for target in event["targets"])
    name = next(target for target in event["targets"] if target["target"] == "tag:PatientName")
    assert name["value"] == PATIENTS["SITE1"]
    (source,) = name["sources"]
    assert (source["outcome"], source["file"]) == ("used", "orders.yaml")
    assert source["line"] > 1
    ((start, end),) = source["spans"]
    raw = console.call("editor", "GET", f"/api/messages/{number}/content").json()["raw"]
    assert raw[start:end] == source["raw"]


def test_an_order_after_the_last_one(console: RunningConsole) -> None:
    """The part after the last order is empty; an unknown message does not exist."""
    number = console.messages["SITE1"]
    found = console.call("editor", "GET", f"/api/messages/{number}/trace?first=5").json()
    assert (found["events"], found["left"]) == ([], 0)
    assert console.call("editor", "GET", "/api/messages/999999/trace").status_code == 404
    assert (
        console.call("editor", "GET", f"/api/messages/{number}/trace?first=-1").status_code == 400
    )


def test_the_outline_of_a_definition(console: RunningConsole) -> None:
    found = console.call("author", "GET", "/api/mappings/orders/outline?version=active").json()
    rules = {rule["target"]: rule for rule in found["rules"]}
    assert found["kind"] == "orders"
    assert rules["tag:PatientSex"]["words"] == (
        "reads PID-8.1; as upper; translated by sex; unknown codes: empty"
    )
    assert rules["meta:Priority"]["sources"][0]["text"] == "ORC-7.6"
    assert console.call("author", "GET", "/api/mappings/none/outline").status_code == 404


def edits(console: RunningConsole, target: str, change: dict[str, object]) -> object:
    body = {"files": {"mine.yaml": MINE}, "target": target, "change": change}
    response = console.call("author", "POST", "/api/mappings/mine/edits", body)
    return response.json() if response.status_code == 200 else response.status_code


def test_a_change_of_a_rule(console: RunningConsole) -> None:
    """The offsets are those of a browser, in which some characters count twice."""
    found = edits(console, "tag:Race", {"kind": "add_source", "source": "PID-9"})
    assert isinstance(found, dict)
    units = MINE.encode("utf-16-le")
    for edit in reversed(found["edits"]):
        start, end = 2 * edit["start"], 2 * edit["end"]
        units = units[:start] + edit["insert"].encode("utf-16-le") + units[end:]
    assert units.decode("utf-16-le") == MINE.replace("PID-10", "[PID-10, PID-9]")
    assert (found["file"], found["said"]) == ("mine.yaml", "Race reads PID-10, else PID-9")
    assert (found["rule"]["parts"], found["rule"]["own"]) == (["PID-10", "PID-9"], {})


def test_several_changes_are_one(console: RunningConsole) -> None:
    """The rule that is returned has the parts for the next change."""
    changes = [
        {"kind": "set_source", "number": 0, "source": {"first": "PID-9"}},
        {"kind": "set_modifier", "modifier": "when", "setting": {"PID-8": ["M", "F"]}},
    ]
    found = edits(console, "tag:Race", {"kind": "together", "changes": changes})
    assert isinstance(found, dict)
    assert found["said"] == "Race reads the first PID-9; only if PID-8 is M or F"
    assert found["rule"]["parts"] == [{"first": "PID-9"}]
    assert found["rule"]["own"] == {"when": {"PID-8": ["M", "F"]}}


def test_an_entry_of_a_code_table(console: RunningConsole) -> None:
    """The edit is one line of the table; the page applies it like that of a rule."""
    found = edits(console, "codes:sex", {"kind": "set_code", "code": "X9", "entry": "O"})
    assert isinstance(found, dict)
    assert (found["file"], found["said"], found["rule"]) == (
        "codes/sex.csv",
        "sex: X9 gives O",
        None,
    )
    assert [edit["insert"].strip() for edit in found["edits"]] == ["X9,O,"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "set_rule", "rule": ["PDI-9"]}, 422),
        ({"kind": "set_modifier", "modifier": "codes", "setting": "no-table"}, 422),
        ({"kind": "remove_source", "number": 7}, 422),
        ({"kind": "add_source", "source": 1.5}, 400),
        ({"kind": "set_code", "code": "X", "entry": "O"}, 422),
        ({"kind": "together", "changes": [{"kind": "set_code", "code": "X", "entry": "O"}]}, 400),
        ({"kind": "other"}, 400),
        ({"kind": "remove_source", "number": 0, "more": 1}, 400),
    ],
)
def test_a_change_that_is_refused(
    console: RunningConsole, change: dict[str, object], status: int
) -> None:
    assert edits(console, "tag:Race", change) == status


def test_a_change_with_a_hook_needs_the_permission(console: RunningConsole) -> None:
    """A mapping author adds no Python code by a rule edit."""
    assert Permission.CODE not in USERS["author"].permissions
    body = {
        "files": {"mine.yaml": MINE, "odd.py": "def value(message):\n    return 'x'\n"},
        "target": "tag:Race",
        "change": {"kind": "set_rule", "rule": {"hook": "odd:value"}},
    }
    assert console.call("author", "POST", "/api/mappings/mine/edits", body).status_code == 403
