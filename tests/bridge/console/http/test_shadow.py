"""Shadow runs: what a draft does to stored messages, counted without values, kept as evidence."""

from typing import Any

import pytest

from bridge.admin.definitions import shadow
from bridge.admin.definitions.activation import activate_at_start
from bridge.console.http.models.shadow import ShadowPageResponse
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole
from tests.bridge.console.http.test_background import run

PATH = "/api/mappings/orders"
FORBIDDEN, UNKNOWN, INVALID = 403, 404, 422
OLD = "BodyPartExamined: [OBR-15.4.2, OBR-15.4.1]"
NEW = "BodyPartExamined: {from: ZDS-1.1, required: true}"


@pytest.fixture(autouse=True)
def shipped(console: RunningConsole) -> None:
    """Activate the files, as the service does at its start."""
    activate_at_start(console.settings, console.database, console.clock())


def definition(console: RunningConsole) -> Any:
    return console.call("author", "GET", PATH).json()


def save_draft(console: RunningConsole) -> int:
    """Save a draft that refuses orders without ZDS, and changes a tag of the others."""
    found = definition(console)
    active = found["in_force"]["version"]
    text = console.call("author", "GET", f"{PATH}/versions/{active}").json()["files"]["orders.yaml"]
    assert OLD in text
    revision = (found["draft"] or {"revision": 0})["revision"]
    files = {"orders.yaml": text.replace(OLD, NEW)}
    body = {"files": files, "begun_on": active, "revision": revision}
    saved = console.call("author", "PUT", f"{PATH}/draft", body)
    assert saved.status_code == 200, saved.text
    return int(saved.json()["revision"])


@pytest.mark.parametrize("sample", [5000, 4])
def test_a_draft_is_compared_on_stored_messages(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    """New refusals come first; the values of a message are shown with the right only."""
    monkeypatch.setattr(shadow, "SAMPLE", sample)
    first = 300 if sample == 4 else 400
    changed = [console.store("orders", order(first + number)) for number in range(6)]
    refused = [console.store("north", order(first + 10 + n, study="-")) for n in range(2)]
    save_draft(console)
    assert console.call("operator", "POST", f"{PATH}/shadow", {}).status_code == FORBIDDEN
    started = console.call("author", "POST", f"{PATH}/shadow", {"days": 1})
    assert started.status_code == 200, started.text
    done = run(console, started.json())
    assert done["state"] == "done", done
    result = done["result"]
    assert result["compared"] == result["total"] == done["handled"]
    assert result["classes"]["accepted_to_refused"] >= len(refused)
    assert (result["fields"][0]["field"], result["fields"][0]["kind"]) == (
        *("accepted_to_refused", "outcome"),
    )
    assert set(refused) <= set(result["fields"][0]["ids"])
    by_field = {entry["field"]: entry for entry in result["fields"]}
    assert by_field["tag:BodyPartExamined"]["count"] >= len(changed)
    assert 0 < result["estimate"]["share"] <= 1
    assert "1.2.826" not in str(done)
    sample_path = f"{PATH}/shadow/{done['id']}/sample/{changed[0]}"
    found = console.call("author", "GET", sample_path).json()["differences"]
    (body_part,) = [entry for entry in found if entry["target"] == "tag:BodyPartExamined"]
    assert body_part["before"] == ""
    assert body_part["after"].startswith("1.2.826")
    other = f"/api/mappings/patients/shadow/{done['id']}/sample/{changed[0]}"
    assert console.call("author", "GET", other).status_code == UNKNOWN


def test_an_activation_keeps_what_a_shadow_run_has_proved(console: RunningConsole) -> None:
    """Only for the version that was compared."""
    revision = save_draft(console)
    begun_on = definition(console)["in_force"]["version"]
    job = run(console, console.call("author", "POST", f"{PATH}/shadow", {"days": 1}).json())
    other = run(
        console, console.call("author", "POST", f"{PATH}/shadow", {"version": "active"}).json()
    )
    body = {"reason": "ZDS", "begun_on": begun_on, "revision": revision}
    wrong = console.call("author", "POST", f"{PATH}/activate", {**body, "shadow_job": other["id"]})
    assert wrong.status_code == INVALID
    assert (
        console.call(
            "author", "POST", f"{PATH}/activate", {**body, "shadow_job": job["id"]}
        ).status_code
        == 200
    )
    history = console.call("author", "GET", f"{PATH}/history").json()
    rows = history["rows"] if isinstance(history, dict) else history
    evidence = rows[0]["evidence"]
    assert (evidence["job"], evidence["compared"]) == (job["id"], job["result"]["compared"])
    assert evidence["classes"]["accepted_to_refused"] > 0
    assert rows[-1]["evidence"] is None
    active = definition(console)["in_force"]["version"]
    back = {"reason": "back", "begun_on": active}
    assert console.call("author", "POST", f"{PATH}/rollback", back).status_code == 200


def test_what_would_be_compared(console: RunningConsole) -> None:
    """The page shows it before the start; a draft with mistakes can not be compared."""
    save_draft(console)
    response = console.call("author", "GET", f"{PATH}/shadow?days=1")
    assert response.status_code == 200, response.text
    page = ShadowPageResponse.model_validate(response.json())
    assert page.survey is not None
    assert page.survey.list == "messages"
    assert {"orders", "north"} <= set(page.survey.connections)
    assert page.survey.before != page.survey.after
    assert page.survey.count > 0
    job = console.call("author", "POST", f"{PATH}/shadow", {"connections": ["north"]}).json()
    run(console, job)
    page = ShadowPageResponse.model_validate(console.call("author", "GET", f"{PATH}/shadow").json())
    assert (page.runs[0].job.id, page.runs[0].connections) == (job["id"], ["north"])
    assert console.call("chief", "GET", f"{PATH}/shadow").json()["runs"]
    assert console.call("operator", "GET", f"{PATH}/shadow").status_code == FORBIDDEN

    found = definition(console)
    body = {"files": {"orders.yaml": "tags: {Nothing: PID-2}"}, "begun_on": "", "revision": 0}
    body |= {"begun_on": found["draft"]["begun_on"], "revision": found["draft"]["revision"]}
    assert console.call("author", "PUT", f"{PATH}/draft", body).status_code == 200
    page = ShadowPageResponse.model_validate(console.call("author", "GET", f"{PATH}/shadow").json())
    assert page.survey is None
    assert "mistake" in page.why_not
    console.call("author", "DELETE", f"{PATH}/draft")


def test_versions_of_both_directions_are_not_compared(console: RunningConsole) -> None:
    """A draft that turns a definition that writes messages into one that reads them."""
    path = "/api/mappings/results"
    found = console.call("author", "GET", path).json()
    body = {"begun_on": found["in_force"]["version"], "revision": 0}
    body |= {"files": {"results.yaml": "kind: orders\ninclude: orders.yaml\n"}}
    assert console.call("author", "PUT", f"{path}/draft", body).status_code == 200
    response = console.call("author", "POST", f"{path}/shadow", {})
    assert response.status_code == INVALID
    assert "reads messages" in response.json()["detail"]
    console.call("author", "DELETE", f"{path}/draft")
