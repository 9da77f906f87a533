"""Messages: edit and resend, and replay in bulk."""

import pytest
from sqlalchemy import text

from bridge.console.http import messages
from bridge.queue import queries
from bridge.queue.states import QueueState
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole


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
    return [each.replace(before, after) for each in sheet["segments"]]


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
        each: console.call("viewer", "GET", f"/api/messages/{each}").json()["timeline"]
        for each in (old, new)
    }
    assert [s["message"] for s in steps[old] if s["kind"] == "sent_again"] == [new]
    assert [s["message"] for s in steps[new] if s["kind"] == "edited"] == [old]
    events = console.call("chief", "GET", f"/api/deeds?subject=message+{old}").json()["rows"]
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
    assert [each["place"] for each in faults] == ["PID-3.1"]
    body = {"segments": segments, "reason": "try"}
    refused = console.call("editor", "POST", f"{path}/send-again", body)
    assert (refused.status_code, "PID-3.1" in refused.json()["detail"]) == (409, True)
    bad = [segments[0].replace("^~", "~^"), *segments[1:]]
    response = console.call("editor", "POST", f"{path}/check", {"segments": bad})
    assert (response.status_code, response.json()["place"]) == (400, "MSH-2")
    assert queries.messages(console.database, queries.Filter(limit=1))[0].id == newest


def test_a_search_is_replayed(console: RunningConsole) -> None:
    """Oldest first, each with an audit event; for a limited user only messages of their sites."""
    ours = [console.store("orders", order(50 + number)) for number in range(3)]
    theirs = console.store("north", order(60))
    for each in (*ours, theirs):
        park(console, each, "table_locked")
    console.index()
    wanted = {"state": "parked", "text": "locked"}
    response = console.call("editor1", "POST", "/api/messages/replay", wanted).json()
    assert (response["queued"], response["failed"], response["more"]) == (3, [], False)
    states = {each: queries.message(console.database, each).row.state for each in (*ours, theirs)}
    assert states == {**dict.fromkeys(ours, QueueState.QUEUED), theirs: QueueState.PARKED}
    events = console.call("chief", "GET", "/api/deeds?action=replay").json()["rows"]
    assert {f"message {each}" for each in ours} <= {each["subject"] for each in events}


def test_a_large_search_is_replayed_oldest_first(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer messages wait for the next call, so that a cancel follows its order."""
    monkeypatch.setattr(messages, "MAX_REPLAYED", 3)
    monkeypatch.setattr(messages, "_PAGE", 2)
    stored = [console.store("orders", order(70 + number)) for number in range(5)]
    for each in stored:
        park(console, each, "very_many")
    wanted = {"state": "parked", "text": "very_many"}
    response = console.call("chief", "POST", "/api/messages/replay", wanted).json()
    assert (response["queued"], response["more"]) == (3, True)
    states = [queries.message(console.database, each).row.state for each in stored]
    assert states == [QueueState.QUEUED] * 3 + [QueueState.PARKED] * 2
    response = console.call("chief", "POST", "/api/messages/replay", wanted).json()
    assert (response["queued"], response["more"]) == (2, False)


@pytest.mark.parametrize("state", [None, "done", "queued", "cancelled"])
def test_only_parked_and_refused_messages_are_replayed_in_bulk(
    console: RunningConsole, state: str | None
) -> None:
    response = console.call("chief", "POST", "/api/messages/replay", {"state": state})
    assert response.status_code == 409
