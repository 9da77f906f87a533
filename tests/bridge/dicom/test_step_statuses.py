"""What modalities say of an order goes out as HL7 status messages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydicom.uid import generate_uid

from bridge.delivery.change_feed import ChangeProcessor
from bridge.delivery.step_statuses import StepStatuses
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.database import Database
from mappings.hl7.message import Message
from mappings.hl7.path import Path as Place
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.dicom.modality import Modality, data_set, ended, new_step, scheduled
from tests.bridge.dicom.orders import applied, await_examinations, new_order
from tests.bridge.intake.process.test_scheduled_steps import CT, PET, omi, steps
from tests.bridge.intake.process.test_worklist_steps import rules

RIS = destination(events=frozenset({ResultEvent.ORDER_STATUS}))


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a receiver of status messages."""
    writer = StepWriter(rules())
    async with open_hospital(tmp_path, database, RIS, steps=writer) as made:
        yield made


def queue_statuses(hospital: Hospital) -> int:
    processor = ChangeProcessor(hospital.database, hospital.outbox, [RIS], hospital.time)
    queued = StepStatuses(processor).queue()
    for courier in hospital.couriers:
        courier.notify()
    return queued


async def sent(hospital: Hospital, number: int) -> list[tuple[str, ...]]:
    """Return ORC-1, ORC-5, OBR-25 and OBR-18 of the messages."""
    payloads = await hospital.delivered(number)
    places = [Place.parse(place) for place in ("ORC-1", "ORC-5", "OBR-25", "OBR-18")]
    return [tuple(map(Message.parse(payload).value, places)) for payload in payloads]


async def test_statuses_are_sent(hospital: Hospital, modality: Modality) -> None:
    """Begun and completed, once each, also of an order that has no report yet."""
    await_examinations(hospital)
    await hospital.send(new_order())
    await modality.create(uid := generate_uid(), new_step())
    await applied(hospital)
    assert queue_statuses(hospital) == 1
    assert await sent(hospital, 1) == [("SC", "IP", "I", "A1")]
    await modality.set(uid, data_set(PerformedProcedureStepDescription="more"))
    await modality.set(uid, ended())
    await applied(hospital)
    assert queue_statuses(hospital) == 1
    assert (await sent(hospital, 2))[1] == ("SC", "CM", "I", "A1")
    assert queue_statuses(hospital) == 0


async def test_a_discontinued_group(hospital: Hospital, modality: Modality) -> None:
    """Each order has a message of its own."""
    for number in (1, 2):
        await hospital.send(new_order(number))
    await modality.create(uid := generate_uid(), new_step(scheduled("A1"), scheduled("A2")))
    await modality.set(uid, ended("DISCONTINUED", images=0, reason="110501"))
    await applied(hospital)
    assert queue_statuses(hospital) == 4
    found = await sent(hospital, 4)
    assert sorted(found) == [
        ("SC", "DC", "I", "A1"),
        ("SC", "DC", "I", "A2"),
        ("SC", "IP", "I", "A1"),
        ("SC", "IP", "I", "A2"),
    ]


@pytest.mark.parametrize("second", ["COMPLETED", "DISCONTINUED"])
async def test_an_order_of_two_steps(hospital: Hospital, modality: Modality, second: str) -> None:
    """It is completed with its last step: a receiver would close it before."""
    await hospital.send(omi(*steps("NW", PET, CT)))
    for step, status in (("S1", "COMPLETED"), ("S2", second)):
        await modality.create(uid := generate_uid(), new_step(scheduled("A1", step)))
        await modality.set(uid, ended(status, images=0))
    await applied(hospital)
    assert queue_statuses(hospital) == 3
    assert [found[1] for found in await sent(hospital, 3)] == ["IP", "IP", "CM"]


async def test_one_of_two_is_discontinued(hospital: Hospital, modality: Modality) -> None:
    """The order is not discontinued while another performed step of it runs or is completed."""
    await hospital.send(omi(*steps("NW", PET, CT)))
    uids = generate_uid(), generate_uid()
    for uid, step in zip(uids, ("S1", "S2"), strict=True):
        await modality.create(uid, new_step(scheduled("A1", step)))
    await modality.set(uids[0], ended("DISCONTINUED", images=0, reason="110510"))
    await modality.set(uids[1], ended())
    await applied(hospital)
    assert queue_statuses(hospital) == 3
    assert [found[1] for found in await sent(hospital, 3)] == ["IP", "IP", "CM"]


async def test_a_message_that_is_applied_again_sends_nothing(
    hospital: Hospital, modality: Modality
) -> None:
    """A replay has the same key as the first message."""
    await hospital.send(new_order())
    await modality.create(generate_uid(), new_step())
    await applied(hospital)
    assert queue_statuses(hospital) == 1
    hospital.rows("SELECT 1")
    with hospital.database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO step_event (message_id, site, accession, mrn, status, at)"
            " SELECT id, 'SITE1', 'A1', 'M1', 'Started', 1 FROM message WHERE listener = 'dicom'"
        )
    assert queue_statuses(hospital) == 0
