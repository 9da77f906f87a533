"""What a later message says of sections, addenda and documents that a receiver has."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.delivery.delivery_history import (
    DeliveredEvent,
    current_observations,
    document_names,
    read_histories,
    read_sent_observations,
)
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from mappings.hl7.message import Message
from mappings.outbound.results import ResultEvent, SentSection
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.test_delivery_history import compiled
from tests.bridge.delivery.test_order_to_result import sign_addendum
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.queue.samples import NOW, release
from tests.conformance.parsers import structure_errors

A1 = OrderKey(SITE, "M1", "A1")
RESULTS = frozenset({ResultEvent.PRELIMINARY, ResultEvent.FINAL, ResultEvent.ADDENDUM})
FIRST = "FINDINGS:\nA nodule.\n\nRECOMMENDATION:\nBiopsy.\n\nFINDINGS:\nAnother."
THEN = "FINDINGS:\nNo nodule.\n\nIMPRESSION:\nNormal."


def observations(message: bytes) -> dict[tuple[str, str], tuple[str, str]]:
    """Return OBX-11 and the last OBX-5 by OBX-3.1 and OBX-4 of results."""
    return {
        (s.value("OBX-3.1"), s.value("OBX-4")): (s.value("OBX-11"), s.value("OBX-5"))
        for s in Message.parse(message).named("OBX")
        if s.value("OBX-11") != "O"
    }


@pytest.mark.parametrize("name", ["results", "rad128", "mdm"])
async def test_the_final_text_leaves_sections_out(
    tmp_path: Path, database: Database, name: str
) -> None:
    """A section of the preliminary text that the final text lacks is deleted."""
    ris = destination(mappings=compiled(name, sections="loinc"), events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        await page("save", text=FIRST)
        await hospital.client.prelim(A1, "Residents", "R1")
        await hospital.follow()
        (first,) = await hospital.delivered(1)
        await page("save", text=THEN)
        await page("sign")
        await hospital.follow()
        _, final = await hospital.delivered(2)
    assert observations(first).keys() == {("59776-5", "1"), ("18783-1", "1"), ("59776-5", "2")}
    sent = observations(final)
    present = {("59776-5", "1"): ("F", "No nodule."), ("19005-8", "1"): ("F", "Normal.")}
    deleted = {("18783-1", "1"): ("D", ""), ("59776-5", "2"): ("D", "")}
    if name == "rad128":
        present = {key: (status, text) for key, (status, text) in sent.items() if status == "F"}
        assert present.keys() == {("59776-5", "1"), ("19005-8", "1")}
    assert sent == (present if name == "mdm" else present | deleted), (
        "a document replaces all of itself"
    )
    assert not structure_errors(final)


async def test_a_withdrawal_names_every_section(tmp_path: Path, database: Database) -> None:
    ris = destination(mappings=compiled("results", sections="loinc"), events=RESULTS)
    async with open_hospital(tmp_path, database, ris, sign_delay=60) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", FIRST)
        await sign_addendum(page, "Addition.")
        await hospital.client.release_addendum(A1)
        await hospital.follow()
        await hospital.delivered(1)
        await page("unsign")
        await hospital.follow()
        sent, withdrawn = map(observations, await hospital.delivered(2))
    assert sent.keys() <= withdrawn.keys()
    assert {status for status, _ in withdrawn.values()} == {"W"}


def test_sections_of_another_receiver(database: Database) -> None:
    outbox, head = Outbox(database, "test"), "MSH|^~\\&|A|B|C|D|2026||ORU^R01|1|P|2.5.1\r"
    names = ("ris", "other")
    for place, destination_name in enumerate(names):
        with database.write() as connection:
            outbox.enqueue(connection, [release(f"K{place}", destination=destination_name)], NOW)
        (claimed,) = outbox.claim(destination_name, NOW, 1)
        message = f"{head}OBX|1|TX|{destination_name}^x^LN|1|x||||||F\r".encode()
        outbox.store_payloads({claimed.delivery_id: (message, "1")})
        outbox.settle([DeliveryOutcome(claimed.delivery_id, QueueEvent.ACCEPTED)], NOW)
    for place, destination_name in enumerate(names):
        with database.write() as connection:
            outbox.enqueue(connection, [release(f"L{place}", destination=destination_name)], NOW)
        (claimed,) = outbox.claim(destination_name, NOW, 1)
        claimed = replace(claimed, release_key="R1:final:2:all")
        with database.read() as connection:
            found = read_sent_observations(connection, claimed)
        assert found == (SentSection(destination_name, "LN", "1"),)


def test_the_history_of_one_order(database: Database) -> None:
    """The result of another order of the report is no earlier one; a damaged one is not read."""
    outbox, history, claims = Outbox(database, "test"), [], list[ClaimedDelivery]()
    message = b"MSH|^~\\&|A|B|C|D|2026||ORU^R01|1|P|2.5.1\rOBX|1|TX|1^x^LN|1|x||||||F\r"
    for key in ("R1:final:1:a", "R1:final:1:b", "R1:final:2:a"):
        with database.write() as connection:
            outbox.enqueue(connection, [release(key, destination="ris")], NOW)
        (claimed,) = outbox.claim("ris", NOW, 1)
        claims.append(claimed)
        with database.read() as connection:
            (before,) = read_histories(connection, [claimed], "ris").values()
            history.append((before.delivered, read_sent_observations(connection, claimed)))
        outbox.store_payloads({claimed.delivery_id: (message, "1")})
        outbox.settle([DeliveryOutcome(claimed.delivery_id, QueueEvent.ACCEPTED)], NOW)
    first = ([DeliveredEvent(ResultEvent.FINAL)], (SentSection("1", "LN", "1"),))
    assert history == [([], ()), ([], ()), first]
    with database.write() as connection:
        connection.execute(text("UPDATE delivery_body SET payload = :other"), {"other": b"MSH|"})
        assert read_sent_observations(connection, claims[-1]) is None


def test_current_observations() -> None:
    """Deleted, wrong and cancelled observations are removed; order details are never included."""
    head = "MSH|^~\\&|A|B|C|D|2026||ORU^R01|1|P|2.5.1\r"

    def message(*rows: tuple[str, str, str]) -> bytes:
        lines = (f"OBX|1|TX|{code}^x^LN|{sub}|x||||||{status}\r" for code, sub, status in rows)
        return (head + "".join(lines)).encode()

    first = message(("1", "1", "P"), ("1", "1", "P"), ("2", "1", "P"), ("3", "", "O"))
    assert current_observations([first]) == (
        SentSection("1", "LN", "1"),
        SentSection("2", "LN", "1"),
    )
    assert current_observations([first, message(("2", "1", "D"))]) == (SentSection("1", "LN", "1"),)
    assert current_observations([first, message(("1", "1", "W"), ("2", "1", "X"))]) == ()


PRELIMINARY, FINAL = DeliveredEvent(ResultEvent.PRELIMINARY), DeliveredEvent(ResultEvent.FINAL)
CORRECTION, CANCELLATION = (
    DeliveredEvent(ResultEvent.CORRECTION),
    DeliveredEvent(ResultEvent.CANCELLATION),
)


def early(number: int) -> DeliveredEvent:
    """Return an addendum that is released before its report."""
    return DeliveredEvent(ResultEvent.ADDENDUM, number)


def withdrawn(number: int) -> DeliveredEvent:
    return DeliveredEvent(ResultEvent.RETRACTION, number)


@pytest.mark.parametrize(
    ("delivered", "number", "parent"),
    [
        ([FINAL], "", None),
        ([PRELIMINARY, FINAL], "", None),
        ([FINAL, early(2)], ".A2", ""),
        ([early(1), withdrawn(1)], ".R1", ".A1"),
        ([PRELIMINARY, early(1), withdrawn(1)], ".R1", ".A1"),
        ([early(1), early(2), withdrawn(1), withdrawn(2)], ".R2", ".A2"),
        ([early(1), withdrawn(1), CORRECTION], ".R2", ".R1"),
        ([PRELIMINARY, early(1), withdrawn(1), CORRECTION], ".R2", ""),
        ([FINAL, CORRECTION, CORRECTION], ".R2", ".R1"),
        ([FINAL, CORRECTION, early(1)], ".A1", ".R1"),
        ([PRELIMINARY, CANCELLATION], "", None),
        ([PRELIMINARY, FINAL, CANCELLATION, CORRECTION], ".R1", ".N1"),
        ([PRELIMINARY, CANCELLATION, PRELIMINARY], ".N1", None),
    ],
)
def test_parent_documents(delivered: list[DeliveredEvent], number: str, parent: str | None) -> None:
    """The parent of a retraction is its addendum, that of a correction is the report."""
    base = document_names("r", "r:final:1:x", [FINAL]).number
    names = document_names("r", "r:final:1:x", delivered)
    assert names.number == base + number
    assert names.parent == ("" if parent is None else base + parent)
