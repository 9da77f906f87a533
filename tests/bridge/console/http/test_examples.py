"""Examples: de-identified messages become regression tests of a definition."""

from typing import Any

import pytest

from bridge.admin.definitions import examples
from bridge.admin.definitions.activation import activate_at_start
from bridge.admin.definitions.commands import check_files
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole
from tests.bridge.console.http.test_background import create, run
from tests.bridge.console.http.test_shadow import save_draft

PATH = "/api/mappings/orders/examples"
FORBIDDEN, UNKNOWN, INVALID = 403, 404, 422
OPTIONS = {"format": "deidentified", "as_examples": "orders"}


@pytest.fixture(autouse=True)
def shipped(console: RunningConsole) -> None:
    """Activate the files, as the service does at its start."""
    activate_at_start(console.settings, console.database, console.clock())


def listed(console: RunningConsole, version: str = "draft") -> list[dict[str, Any]]:
    response = console.call("author", "GET", f"{PATH}?version={version}")
    assert response.status_code == 200, response.text
    rows: list[dict[str, Any]] = response.json()["rows"]
    return rows


def warnings(console: RunningConsole) -> list[str]:
    """Return what the editor says about the examples of the author's draft."""
    found = console.call("author", "GET", "/api/mappings/orders").json()
    return [issue["message"] for issue in found["issues"] if issue["code"] == "example"]


def test_a_selection_becomes_a_regression_test(console: RunningConsole) -> None:
    """A draft that reads an example otherwise is told; the author accepts, or corrects it."""
    ids = [
        console.store("orders", order(500, name="CANARY^NELL")),
        console.store("orders", order(501, name="CANARY^NELL", study="-")),
    ]
    assert (
        create(console, "editor", "export", {"ids": ids}, options=OPTIONS).status_code == FORBIDDEN
    )
    job = run(console, create(console, "author", "export", {"ids": ids}, options=OPTIONS).json())
    assert (job["state"], job["succeeded"]) == ("done", 2), job
    assert job["result"]["definition"] == "orders"
    found = listed(console, "active")
    assert [row["state"] for row in found] == ["same", "same"]
    assert found[0]["added_by"] == "author@site1.test"
    stored = examples.all_of(console.database, "orders")
    assert all(b"CANARY" not in item.payload for item in stored)
    assert "CANARY" not in str([item.expected for item in stored])
    assert warnings(console) == []

    save_draft(console)
    by_id = {row["id"]: row for row in listed(console)}
    with_study, without = (by_id[row["id"]] for row in found)
    assert {with_study["state"], without["state"]} == {"differs"}
    assert [item["field"] for item in with_study["differences"]] == [
        "ORC[1].clinical_info.BodyPartExamined"
    ]
    assert {"field": "accepted", "before": "yes", "after": "no"} in without["differences"]
    assert len(warnings(console)) == 2
    assert "BodyPartExamined" in warnings(console)[0]

    body = {"ids": [with_study["id"]]}
    accepted = console.call("author", "POST", f"{PATH}/accept", body)
    assert accepted.json() == {"accepted": 1}
    assert len(warnings(console)) == 1
    assert [row["state"] for row in listed(console, "active")] == ["differs", "same"]
    issues, failed = check_files(console.settings.home, "orders")
    assert (failed, [issue.code for issue in issues].count("example")) == (False, 1)

    assert console.call("author", "DELETE", f"{PATH}/{without['id']}").status_code == 200
    assert console.call("author", "DELETE", f"{PATH}/{without['id']}").status_code == UNKNOWN
    assert [row["id"] for row in listed(console)] == [with_study["id"]]
    actions = {row["action"] for row in console.audit_events("chief")}
    assert {"accept examples", "remove example"} <= actions


def test_what_is_refused(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other formats, definitions that read no messages, and too many examples."""
    ids = {"ids": [console.messages["SITE1"]]}
    raw = {**OPTIONS, "format": "raw"}
    response = create(console, "author", "export", ids, options=raw, reason="x")
    assert response.status_code == INVALID
    other = {**OPTIONS, "as_examples": "results"}
    job = run(console, create(console, "author", "export", ids, options=other).json())
    assert (job["state"], job["result"]["error"]) == ("failed", "mistakes")
    before = len(examples.all_of(console.database, "orders"))
    monkeypatch.setattr(examples, "MAX_EXAMPLES", before)
    job = run(console, create(console, "author", "export", ids, options=OPTIONS).json())
    assert (job["state"], job["result"]["error"]) == ("failed", "mistakes")
    assert len(examples.all_of(console.database, "orders")) == before
