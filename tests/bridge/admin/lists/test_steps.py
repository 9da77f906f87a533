"""The list of scheduled procedure steps, on both databases, and the command that prints it."""

import pytest

from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.admin.lists import steps
from bridge.admin.lists.listing import UNLIMITED, Access, ListRequest
from bridge.contract import OrderKey
from bridge.orders.order import Order, OrderState
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.records.scheduled_steps import ScheduledStep, StepStatus, replace_all

KEYS = [OrderKey("S1", "M1", "A1"), OrderKey("S1", "M2", "A2"), OrderKey("S2", "M3", "A3")]
STEPS = (
    (KEYS[0], 0, StepStatus.SCHEDULED, "CT", ("CT1", "CT2"), 20261130, "143000"),
    (KEYS[0], 1, StepStatus.STARTED, "PT", ("PT1",), 20261130, "150000"),
    (KEYS[1], 0, StepStatus.CANCELLED, "CT", ("CT1",), 20261130, "0900"),
    (KEYS[2], 0, StepStatus.ARRIVED, "MR", (), None, ""),
)


@pytest.fixture
def filled(database: Database) -> Database:
    with database.write() as connection:
        stored = [
            Order(key, OrderState.ORDERED, 1, 1, placer=f"P{key.accession}^HIS") for key in KEYS[:2]
        ]
        order_index.save(connection, stored)
        for key in KEYS:
            own = [
                ScheduledStep(
                    key, position, f"S{position}", "1.2", status, modality, stations, "Room 1",
                    day, time, "{}", 5,
                )
                for owner, position, status, modality, stations, day, time in STEPS
                if owner == key
            ]  # fmt: skip
            replace_all(connection, {key: own})
    return database


def starts(database: Database, access: Access = UNLIMITED, **filters: object) -> list[str]:
    """Return modality and start of the steps that match."""
    with database.read() as connection:
        rows = steps.page(connection, ListRequest(filters), access).rows
        assert steps.count(connection, filters, access) == (len(rows), True)
    return [f"{row.modality} {row.start}" for row in rows]


def test_steps_are_those_that_modalities_see(filled: Database) -> None:
    """Cancelled ones are shown if they are asked for; a step without a start comes last."""
    seen = ["PT 2026-11-30T15:00:00", "CT 2026-11-30T14:30:00", "MR "]
    assert sorted(starts(filled)) == sorted(seen)
    assert starts(filled, day="2026-11-30") == seen[:2]
    assert starts(filled, status=["CANCELLED"]) == ["CT 2026-11-30T09:00"]
    assert starts(filled, station=["CT2"]) == seen[1:2]
    assert starts(filled, station=["CT"]) == []
    assert starts(filled, modality=["MR", "PT"], site=["S1"]) == seen[:1]
    assert starts(filled, number="A3") == ["MR "]


def test_an_account_sees_the_steps_of_its_sites(filled: Database) -> None:
    limited = Access(frozenset({"S2"}), frozenset())
    assert starts(filled, limited) == ["MR "]
    with pytest.raises(PermissionDenied):
        steps.column_values(filled, [1], ["accession"], limited)


def test_a_step_leads_to_its_order(filled: Database) -> None:
    with filled.read() as connection:
        rows = steps.page(connection, ListRequest({"number": "A1"}), UNLIMITED).rows
    (order_id,) = {row.order_id for row in rows}
    assert order_id is not None
    names = ["accession", "placer"]
    found = steps.column_values(filled, [row.id for row in rows], names, UNLIMITED)
    assert {tuple(value.values()) for value in found.values.values()} == {("A1", "PA1")}


@pytest.mark.parametrize(
    "filters", [{"day": "tomorrow"}, {"status": ["LATE"]}, {"mood": "good"}, {"station": []}]
)
def test_an_invalid_filter_is_refused(filled: Database, filters: dict[str, object]) -> None:
    with filled.read() as connection, pytest.raises(InvalidContent):
        steps.page(connection, ListRequest(filters), UNLIMITED)
