"""The check of patients before the acknowledgment: AE 204 for a merged identifier."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bridge.intake.receive.handler import FrameOffload
from bridge.intake.receive.patient_check import merged_patient_check
from bridge.store.database import Database
from bridge.store.records import patient_records
from config.listeners import Acknowledge, MergedPatients
from mappings.hl7.refusals import AckCode
from tests.bridge.intake.fixture import LISTENING, IntakeFixture, open_intake, order
from tests.bridge.intake.messages import adt


@asynccontextmanager
async def refusing(
    database: Database, merged: MergedPatients = MergedPatients.REFUSE
) -> AsyncIterator[IntakeFixture]:
    """An intake whose listener does not redirect; O1 was merged into N1."""
    async with open_intake(database, merged=merged) as intake:
        with database.write() as connection:
            patient_records.merge(connection, "SITE1", "O1", "N1")
        listening = intake.handler._policy
        check = merged_patient_check(listening, database)
        assert check is not None
        intake.handler.use(listening.with_checks(check))
        offload = FrameOffload(intake.handler, needs_lookup=check.applies_to)
        intake.front = lambda handle: offload
        yield intake


async def test_the_old_number_is_refused(database: Database) -> None:
    """The old number gets AE 204 at PID-3. The survivor's number is accepted."""
    async with refusing(database) as intake:
        for payload in (order("ID1", mrn="O1"), adt("A08", "O1")):
            ack = await intake.ask(payload)
            assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("204",))
        assert intake.rows("error_place") == [("PID-3",), ("PID-3",)]
        assert (await intake.ask(order("ID2", mrn="N1"))).code is AckCode.ACCEPT


async def test_further_merges(database: Database) -> None:
    """Repeated and further merges are accepted, although they contain a merged number."""
    async with refusing(database) as intake:
        for payload in (adt("A40", "N1", "O1"), adt("A40", "X1", "N1")):
            assert (await intake.ask(payload)).code is AckCode.ACCEPT


async def test_one_of_a_batch(database: Database) -> None:
    """Other messages of the batch are accepted."""
    async with refusing(database) as intake:
        batch = b"BHS|^~\\&|R\r" + order("B1", mrn="O1") + order("B2") + b"BTS|2\r"
        (reply,) = await intake.send(batch)
        assert b"MSA|AE|B1" in reply
        assert b"MSA|AA|B2" in reply


async def test_an_unreadable_message(database: Database) -> None:
    """The evaluation refuses an unreadable message, not the check."""
    async with refusing(database) as intake:
        assert (await intake.ask(b"GET / HTTP/1.1\r\n")).error_codes == ("100",)
        assert (await intake.ask(order(mrn=""))).error_codes == ("101",)


async def test_a_defect_of_the_lookup(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose patients cannot be checked gets AE 207, and the sender may retry."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with refusing(database) as intake:
        with monkeypatch.context() as patch:
            patch.setattr(patient_records, "find_merges_and_transfers", fail)
            ack = await intake.ask(order("ID1", mrn="O1"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("207",))


async def test_a_circular_merge(database: Database) -> None:
    """A circle gets AE 205 at MRG-1 on each listener. A repeated or further merge is accepted."""
    async with refusing(database, MergedPatients.REDIRECT) as intake:
        ack = await intake.ask(adt("A40", "O1", "N1"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("205",))
        assert intake.rows("error_place") == [("MRG-1",)]
        for payload in (adt("A40", "N1", "O1"), adt("A40", "O1", "X1"), order("ID1", mrn="O1")):
            assert (await intake.ask(payload)).code is AckCode.ACCEPT


def test_no_unneeded_lookups(database: Database) -> None:
    """With redirects only merges are looked up, whatever a text contains, with `stored` nothing."""
    known = merged_patient_check(LISTENING, database)
    assert known is not None
    text, merge = order() + b"NTE|1||MRSA, 4MRGN\r", adt("A40", "A", "B")
    assert [known.applies_to(item) for item in (order(), text, merge)] == [False, False, True]
    long = b"NTE|1||" + b"x" * 2**20 + b"\r"
    separator = merge.index(b"PID|")
    assert known.applies_to(merge[:separator] + long + merge[separator:].replace(b"\r", b"\n"))
    stored = replace(LISTENING, merged=MergedPatients.REFUSE, acknowledge=Acknowledge.STORED)
    assert merged_patient_check(stored, database) is None
