"""The search field finds any number or name, for those who may search for it."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.bridge.console.http.running_console import RunningConsole


def found(console: RunningConsole, who: str, wanted: str) -> dict[str, Any]:
    response = console.call(who, "POST", "/api/find", {"text": wanted})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def ids(hits: list[dict[str, Any]]) -> set[int]:
    return {int(hit["id"]) for hit in hits}


@pytest.mark.parametrize("number", ["A1", "a1", " A1 ", "P1"])
def test_an_order_is_found_by_its_numbers(console: RunningConsole, number: str) -> None:
    """In any letter case, with its messages and results."""
    result = found(console, "operator", number)
    assert [(hit["title"], hit["detail"]) for hit in result["orders"]] == [("A1", "SITE1")]
    assert console.messages["SITE1"] in ids(result["messages"])
    assert "order" in result["kinds"]


def test_a_control_id_finds_its_message(console: RunningConsole) -> None:
    result = found(console, "operator", "C1")
    assert console.messages["SITE1"] in ids(result["messages"])
    assert "control" in result["kinds"]


def test_patients_are_found_by_those_who_read_content(console: RunningConsole) -> None:
    """By number and by a word of the name; the answer contains neither."""
    for wanted in ("M1", "jane"):
        assert found(console, "operator", wanted)["messages"] == []
        assert found(console, "operator", wanted)["orders"] == []
        result = found(console, "editor", wanted)
        assert console.messages["SITE1"] in ids(result["messages"])
        assert "JANE" not in str(result)
    assert [hit["title"] for hit in found(console, "editor", "M1")["orders"]] == ["A1"]


def test_a_limited_user_finds_nothing_of_another_site(console: RunningConsole) -> None:
    for wanted in ("A2", "M2", "C2", "north"):
        result = found(console, "editor1", wanted)
        lists = ("orders", "messages", "deliveries", "channels", "similar")
        assert not any(result[name] for name in lists), wanted


def test_ids_of_rows_and_names_of_channels_are_found(console: RunningConsole) -> None:
    """Definitions only by their authors."""
    own = console.messages["SITE1"]
    assert own in ids(found(console, "operator", str(own))["messages"])
    channels = found(console, "operator", "orde")["channels"]
    assert [(hit["id"], hit["exact"]) for hit in channels] == [("listener/orders", False)]
    assert found(console, "operator", "orders")["definitions"] == []
    assert "orders" in {hit["id"] for hit in found(console, "chief", "orders")["definitions"]}


def test_a_report_is_found_by_the_beginning_of_its_id(console: RunningConsole) -> None:
    """As pages shorten it."""
    found_order = found(console, "operator", "A1")["orders"][0]
    change = text("UPDATE bridge_order SET report_id = :report WHERE accession = 'A1'")
    with console.database.write() as connection:
        connection.execute(change, {"report": "3b1f9c02-5a1e-4c8e-9d7a-0123456789ab"})
    try:
        for beginning in ("3b1f9c02", "3B1F9C02-5a1e"):
            result = found(console, "operator", beginning)
            assert [hit["id"] for hit in result["orders"]] == [found_order["id"]]
        assert found(console, "operator", "3b1f9c03")["orders"] == []
    finally:
        with console.database.write() as connection:
            connection.execute(change, {"report": "R1"})


def test_a_search_leaves_an_event_without_its_text(console: RunningConsole) -> None:
    found(console, "operator", "A1")
    rows = console.call("chief", "POST", "/api/lists/audit", {}).json()["rows"]
    assert ("search", "anything") in {(row["action"], row["subject"]) for row in rows}
    assert "A1" not in str(rows)
    assert console.call("viewer", "POST", "/api/find", {"text": "A1"}).status_code == 403
