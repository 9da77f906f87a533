"""Scheduled steps of a running service: HL7 over MLLP, new definitions, kills, the commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.store.databases import bridge_database
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import adt, order
from tests.eventually import eventually

OVERLAY = "include: worklist.yaml\nitem: {PatientComments: second version}\n"


def switch_on(house: House, definition: str = "worklist") -> None:
    house.settings = f'[dicom]\nbind = "127.0.0.1:{free_port()}"\nworklist = "{definition}"\n'
    house.configure()


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """An installation without a worklist, not started."""
    url = "" if database_url.startswith("sqlite") else database_url
    house = House(tmp_path / "home", database=url)
    house.make()
    yield house
    house.kill()


def planned(number: int, **options: Any) -> bytes:
    """An order for a day in the future; orders of the past get no steps afterwards."""
    return order(number, **options).replace(b"20260102030000", b"20991231030000")


def steps(house: House) -> list[dict[str, Any]]:
    query = "SELECT * FROM scheduled_step ORDER BY accession, position"
    with bridge_database(house.home) as database, database.read() as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def computations(house: House) -> list[int | None]:
    """Return how far the steps of stored orders were computed: None if all are."""
    with bridge_database(house.home) as database, database.read() as connection:
        return list(connection.scalars(text("SELECT cursor FROM step_computation")))


def comments(house: House) -> set[str]:
    items = [json.loads(step["item"]) for step in steps(house)]
    return {value for item in items for value in item.get("00104000", {}).get("Value", [""])}


def test_orders_become_steps(house: House) -> None:
    """A step is there when its message is applied, follows its order, and is on its page."""
    switch_on(house)
    house.start()
    house.send(order(1, study="-"), order(2))
    house.settle()
    first, second = steps(house)
    assert first["study_uid"].startswith("2.25.")
    assert second["study_uid"] == "1.2.826.0.1.3680043.10.3"
    assert {row["status"] for row in (first, second)} == {"SCHEDULED"}
    (listed,) = [row for row in house.worklist() if row["orders"][0]["Accession"] == "A1"]
    assert listed["orders"][0]["StudyInstanceUID"] == first["study_uid"]
    house.send(order(1, control="CA", study="-"), adt("A40", 9, "M3", "DOE^JANE", "M2"))
    house.settle()
    first, second = steps(house)
    assert (first["status"], second["mrn"]) == ("CANCELLED", "M3")
    assert "Step A1 (CT) cancelled" in house.bridge("orders", "show", "A1")


def test_the_worklist_is_switched_on_later(house: House) -> None:
    """Orders that are known get their steps; a service without a worklist has none."""
    house.start()
    house.send(planned(1, study="-"), planned(2), planned(3, control="CA"), order(4))
    house.settle()
    assert steps(house) == []
    house.stop()
    switch_on(house)
    house.start()
    eventually(lambda: computations(house) == [None])
    assert [row["accession"] for row in steps(house)] == ["A1", "A2"]
    (uid,) = {row["study_uid"] for row in steps(house) if row["accession"] == "A1"}
    house.send(planned(1, control="XO", study="-"))
    house.settle()
    assert steps(house)[0]["study_uid"] == uid
    house.stop()
    house.settings = ""
    house.configure()
    house.start()
    eventually(lambda: computations(house) == [])
    house.send(planned(2, control="CA"))
    house.settle()
    house.stop()
    switch_on(house)
    house.start()
    eventually(lambda: [row["status"] for row in steps(house)] == ["SCHEDULED", "CANCELLED"])


@pytest.mark.slow
def test_a_new_definition_after_a_kill(house: House) -> None:
    """Its items replace those of all open orders, although the service is killed meanwhile."""
    (house.home / "mappings" / "mine.yaml").write_text("include: worklist.yaml\n", "utf-8")
    switch_on(house, "mine")
    house.start()
    house.send(*(order(number) for number in range(60)))
    house.settle()
    house.bridge("mapping", "activate", "mine", "--reason", "first")
    (house.home / "mappings" / "mine.yaml").write_text(OVERLAY, "utf-8")
    house.bridge("mapping", "activate", "mine", "--reason", "second")
    house.kill()
    house.start()
    eventually(lambda: comments(house) == {"second version"})
    assert len(steps(house)) == 60
    house.bridge("mapping", "rollback", "mine", "--reason", "back")
    eventually(lambda: comments(house) == {""})


def test_the_commands_know_the_kind(house: House, tmp_path: Path) -> None:
    """Check, try, diff, activate and shadow run work as for the other kinds."""
    sample = tmp_path / "order.hl7"
    sample.write_bytes(order(1))
    house.bridge("mapping", "check")
    tried = house.bridge("mapping", "try", "worklist", str(sample))
    assert "status: SCHEDULED" in tried
    assert "AccessionNumber: A1" in tried
    (trial,) = json.loads(house.bridge("mapping", "try", "worklist", str(sample), "--json"))
    assert trial["items"][0]["00080050"] == {"vr": "SH", "Value": ["A1"]}
    (house.home / "mappings" / "mine.yaml").write_text("include: worklist.yaml\n", "utf-8")
    switch_on(house, "mine")
    house.start()
    house.send(order(1))
    house.bridge("mapping", "activate", "--reason", "all that the settings use")
    assert "second" not in house.bridge("mapping", "diff", "mine", "--last", "5")
    (house.home / "mappings" / "mine.yaml").write_text(OVERLAY, "utf-8")
    assert "PatientComments" in house.bridge("mapping", "diff", "mine", "--last", "5", expect=1)
    shadow = house.bridge("mapping", "shadow", "mine", expect=1)
    assert "PatientComments" in shadow
    (house.home / "mappings" / "mine.yaml").write_text("include: orders.yaml\n", "utf-8")
    refused = house.bridge("mapping", "activate", "mine", "--reason", "wrong", expect=1)
    assert "not a definition of the kind worklist" in refused
    assert "not a definition of the kind worklist" in house.bridge("check", expect=None)
