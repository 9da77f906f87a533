"""Lists by priority: the most urgent order first, whatever words the sender uses."""

from typing import Any

import pytest

from bridge.engine.rules.order import Priority
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
from bridge.engine.service.worklist import (
    RowsQuery,
    Sort,
    SortColumn,
    WorklistQuery,
    read_rows,
    read_worklist,
)
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import ServiceHarness

SITE = "SITE1"
PATIENT = {"PatientName": "Doe^Jane", "PatientBirthDate": "19800101"}
SENT = {
    "ROUTINE": "R",
    "NONE": None,
    "STAT": "S",
    "LATER": "prn",
    "PREOP": "Preop",
    "SOON": " asap ",
    "UNKNOWN": "U-7",
    "URGENT": "Urgent",
    "STAT2": "stat",
    "NUMBER": 1,
}
BY_PRIORITY = [
    *("STAT", "STAT2", "SOON", "URGENT", "PREOP", "ROUTINE", "NONE", "UNKNOWN", "NUMBER", "LATER"),
]


def add(harness: ServiceHarness, accession: str, priority: Any) -> None:
    metadata = {} if priority is None else {"Priority": priority}
    order = OrderInput("M1", accession, tags=PATIENT, metadata=metadata)
    harness.do(register, SITE, order)
    harness.later(60)


@pytest.fixture
def sent(harness: ServiceHarness) -> ServiceHarness:
    for accession, priority in SENT.items():
        add(harness, accession, priority)
    return harness


def rows(harness: ServiceHarness, **query: Any) -> list[str]:
    """Return the accessions of the app's list, most urgent first."""
    wanted = RowsQuery(SITE, sort=SortColumn.PRIORITY, **{"descending": False, **query})
    with harness.work() as work:
        found = read_rows(work.session, wanted, 1, harness.now)
    return [row["clinicalInfo"][0]["Accession"] for row in found.items]


def pages(harness: ServiceHarness, limit: int = 3, **query: Any) -> list[str]:
    found, cursor = [], ""
    while True:
        wanted = WorklistQuery(SITE, limit=limit, cursor=cursor, **query)
        with harness.work() as work:
            page = read_worklist(work.session, wanted, harness.now)
        found += [item["clinicalInfo"][0]["Accession"] for item in page.items]
        if page.next is None:
            return found
        cursor = page.next


def test_the_most_urgent_comes_first_then_the_oldest(sent: ServiceHarness) -> None:
    """An order without a priority, or with an unknown one, is routine."""
    assert rows(sent) == BY_PRIORITY
    assert pages(sent, sort=Sort.PRIORITY) == BY_PRIORITY
    assert rows(sent, descending=True)[0] == "LATER"
    assert pages(sent, sort=Sort.LEAST_URGENT)[0] == "LATER"


def test_filters_by_priority_and_modality(sent: ServiceHarness) -> None:
    """Routine includes orders without a known priority."""
    assert rows(sent, priority=Priority.STAT) == ["STAT", "STAT2"]
    assert rows(sent, priority=Priority.ROUTINE) == ["ROUTINE", "NONE", "UNKNOWN", "NUMBER"]
    urgent = [Priority.STAT, Priority.ASAP]
    assert pages(sent, sort=Sort.CREATED, priorities=urgent) == ["STAT", "SOON", "URGENT", "STAT2"]
    tags = {**PATIENT, "Modality": "mr"}
    sent.do(register, SITE, OrderInput("M1", "MR", tags=tags, metadata={"Priority": "S"}))
    assert rows(sent, modality="MR", priority=Priority.STAT) == ["MR"]


def test_a_group_has_its_most_urgent_priority(harness: ServiceHarness) -> None:
    """The urgent order of a group counts, also if it is not the anchor."""
    for accession, priority in (("A1", "R"), ("A2", "A"), ("A3", "S")):
        add(harness, accession, priority)
    group = [harness.identity("A1"), harness.identity("A3")]
    harness.do(link_orders, group)
    assert rows(harness) == ["A1", "A2"]
    harness.do(unlink_orders, group[1:])
    assert rows(harness) == ["A3", "A2", "A1"]


def test_a_changed_priority_moves_the_order(harness: ServiceHarness) -> None:
    """An order change (XO) with another priority is sorted by it; one without keeps it."""
    add(harness, "A1", "R")
    add(harness, "A2", "R")
    add(harness, "A2", "S")
    assert rows(harness) == ["A2", "A1"]
    add(harness, "A2", None)
    assert rows(harness) == ["A2", "A1"]
    add(harness, "A2", "R")
    assert rows(harness) == ["A1", "A2"]
