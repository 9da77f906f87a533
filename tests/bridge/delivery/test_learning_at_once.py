"""What is learned of one report is written in the loop's turn, unless somebody might wait."""

import threading

import pytest
from typing_extensions import override

from bridge.delivery.destinations import Destination
from bridge.delivery.learning import BRIEF, MESSAGES, Learned, Learner
from bridge.engine_client.models import (
    Change,
    ChangePage,
    ExportedText,
    OrderKey,
    ReportStatus,
    Said,
    StatusRecord,
)
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.outbound import OutboundMapping

pytestmark = pytest.mark.anyio

SHIPPED = read_folder(DEFINITIONS)
COSTLY = """
include: results.yaml
segments:
  - MSH: {3: US}
  - ZZZ: {1: {value: $order.Accession, when: {$placer: {matches: '(a+)+$'}}}}
"""


class Watched(Learner):
    """A learner that notes in which thread it learns."""

    threads: tuple[int, ...] = ()

    @override
    def learn(self, feed: str, page: ChangePage) -> Learned:
        self.threads += (threading.get_ident(),)
        return super().learn(feed, page)


def results(text: str = "include: results.yaml") -> OutboundMapping:
    """A definition of results."""
    made = compile_sources({**SHIPPED, "mine.yaml": text}, "mine")
    assert isinstance(made, OutboundMapping)
    return made


def change(number: int, words: str = "", orders: int = 1) -> Change:
    """A change of a report of so many orders, and what it says."""
    keys = tuple(OrderKey("SITE1", "M1", f"A{each}") for each in range(1, orders + 1))
    record = StatusRecord("r1", ReportStatus.DRAFT, "", None, keys)
    said = Said(ExportedText(words, None, None), ()) if words else None
    return Change(number, number, "report_opened", record, (), None, said=said)


async def is_here(database: Database, page: ChangePage, *mappings: OutboundMapping) -> bool:
    """Learn, and tell whether that was in the loop's turn."""
    destinations = [Destination(f"ris{place}", (each,)) for place, each in enumerate(mappings)]
    learner = Watched(database, Outbox(database, "test"), destinations, lambda: 0)
    await learner.learned("changes", page)
    assert learner.cursor("changes") == page.cursor
    (thread,) = learner.threads[-1:]
    return thread == threading.get_ident()


async def test_where_it_is_learned(database: Database) -> None:
    """In the loop's turn on a file, where it is little; in a thread on a server."""
    is_file = database.dialect == "sqlite"
    assert await is_here(database, ChangePage((change(1, "Clear."),), 1), results()) == is_file
    many = tuple(change(2 + each) for each in range(BRIEF + 1))
    assert not await is_here(database, ChangePage(many, 9))
    assert not await is_here(database, ChangePage((change(10, "long " * 2**12),), 10))


async def test_what_another_process_is_asked_for_is_not_waited_for(database: Database) -> None:
    """As a pattern that may take too long: a definition with one is for a thread."""
    page = ChangePage((change(1),), 1)
    assert not await is_here(database, page, results(), results(COSTLY))


@pytest.mark.parametrize("receivers", [1, 3])
async def test_a_report_of_many_orders_is_not_brief(database: Database, receivers: int) -> None:
    """Each order may be a message to each receiver: a handful of messages is."""
    is_file = database.dialect == "sqlite"
    fits = MESSAGES // receivers
    made = [results()] * receivers
    assert await is_here(database, ChangePage((change(1, orders=fits),), 1), *made) == is_file
    assert not await is_here(database, ChangePage((change(2, orders=fits + 1),), 2), *made)


async def test_others_who_write_are_not_waited_for(database: Database) -> None:
    """A thread waits for them."""
    writing, enough = threading.Event(), threading.Event()

    def write() -> None:
        with database.write():
            writing.set()
            enough.wait(10)

    other = threading.Thread(target=write)
    other.start()
    writing.wait(10)
    threading.Timer(0.05, enough.set).start()
    assert not await is_here(database, ChangePage((change(1),), 1))
    other.join()
