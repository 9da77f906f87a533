"""Modalities report their procedure steps (MPPS): stored first, answered, applied to the orders."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.tag import Tag
from pydicom.uid import (
    UID,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    generate_uid,
)
from pynetdicom.dsutils import encode

from bridge.admin.causes import cause_of
from bridge.dicom.performed import REQUIRED
from bridge.intake.process.job_context import MessageChanges
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.process.received_objects import read_received
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.orders.received_objects import (
    DICOM_LISTENER,
    MAX_PERFORMED,
    PERFORMED_STEP,
    PerformedStep,
    PerformedSteps,
    StepEvent,
    combined_event,
    with_performed,
)
from bridge.queue.claims import ClaimedMessage
from bridge.store.records import waiting_messages
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.scheduled_steps import dump_performed, load_performed
from parsers.dicom_file import FileMeta, read_meta
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import PEERS, Hospital
from tests.bridge.dicom.conftest import MAX_SIZE
from tests.bridge.dicom.modality import Modality, data_set, ended, new_step, scheduled
from tests.bridge.dicom.orders import (
    applied,
    await_examinations,
    exceptions,
    new_order,
    order_states,
    received_messages,
)
from tests.bridge.intake.messages import adt, order_group, order_message

UIDS = ("1.2.1", "1.2.2", "1.2.3")
MESSAGES = st.lists(st.tuples(st.sampled_from(UIDS), st.sampled_from(StepEvent)))


@given(MESSAGES)
def test_what_performed_steps_say_together(messages: list[tuple[str, StepEvent]]) -> None:
    """
    Any order of messages has one result: the first end of each performed step counts.

    Started while one has not ended; else completed if one is; else discontinued if one is.
    """
    performed: PerformedSteps = {}
    for uid, event in messages:
        performed = with_performed(performed, uid, PerformedStep(event))
    ends = [
        next((event for own, event in messages if own == uid and event != StepEvent.STARTED), None)
        for uid in dict(messages)
    ]
    expected = None
    if None in ends:
        expected = StepEvent.STARTED
    elif StepEvent.COMPLETED in ends:
        expected = StepEvent.COMPLETED
    elif StepEvent.DISCONTINUED in ends:
        expected = StepEvent.DISCONTINUED
    elif ends:
        expected = StepEvent.REVERTED
    assert combined_event(performed) is expected
    assert load_performed(dump_performed(performed)) == performed


def test_many_performed_steps() -> None:
    """A modality that begins a step again and again costs no more than the newest ones."""
    performed: PerformedSteps = {}
    for number in range(3 * MAX_PERFORMED):
        performed = with_performed(performed, f"1.2.{number}", PerformedStep(StepEvent.STARTED))
    assert len(performed) == MAX_PERFORMED
    assert f"1.2.{3 * MAX_PERFORMED - 1}" in performed


@pytest.mark.parametrize(
    "syntax", [ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian]
)
async def test_a_completed_examination_makes_an_awaited_order_readable(
    hospital: Hospital, modality: Modality, syntax: UID
) -> None:
    await_examinations(hospital)
    await hospital.send(new_order())
    assert order_states(hospital) == ["awaited"]
    modality.syntax = str(syntax)
    uid = generate_uid()
    assert (await modality.create(uid, new_step())).Status == 0x0000
    await applied(hospital)
    assert order_states(hospital) == ["awaited"]
    assert (await modality.set(uid, ended())).Status == 0x0000
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert received_messages(hospital) == [
        ("N-CREATE MPPS", "done", "step_started"),
        ("N-SET MPPS", "done", "step_completed"),
    ]
    assert exceptions(hospital) == []


async def test_an_order_that_is_stored_after_the_match(
    hospital: Hospital, modality: Modality
) -> None:
    """The order was not known when the step was read; its transaction found no waiting message."""
    await_examinations(hospital)
    uid = generate_uid()
    await modality.create(uid, new_step())
    await applied(hospital)
    ((number, payload),) = hospital.rows(
        "SELECT id, payload FROM message JOIN message_body ON id = message_id"
    )
    claimed = ClaimedMessage(
        number, bytes(payload), DICOM_LISTENER, "", "", (), 1, 0, 0, "N-CREATE MPPS"
    )
    with hospital.database.write() as connection:
        read = read_received(connection, claimed, PEERS).received
        waiting_messages.forget(connection, [number])
    assert read is not None
    await hospital.send(new_order())
    assert received_messages(hospital) == [("N-CREATE MPPS", "parked", "object_without_order")]
    repository = OrderRepository(hospital.database, hospital.time, peer_sites=PEERS)
    change = MessageChanges(number, (), received=read, waits_for=read.missing_keys)
    with hospital.database.write() as connection:
        repository.write(connection, [change])
    await applied(hospital)
    assert received_messages(hospital) == [("N-CREATE MPPS", "done", "step_started")]
    with hospital.database.write() as connection:
        assert not waiting_messages.exist(connection)


async def test_a_message_is_stored_before_its_status(
    hospital: Hospital, modality: Modality
) -> None:
    """The file in the log has the bytes of the data set, and names sender, class and instance."""
    uid = generate_uid()
    step = new_step()
    await modality.create(uid, step)
    await hospital.worker.stop()
    ((payload,),) = hospital.rows(
        "SELECT payload FROM message_body JOIN message ON id = message_id"
    )
    meta, body = read_meta(bytes(payload))
    assert meta == FileMeta(PERFORMED_STEP, uid, str(ExplicitVRLittleEndian), "CT1")
    assert body == encode(step, is_implicit_vr=False, is_little_endian=True)


@pytest.mark.parametrize(
    ("reason", "images", "state", "status"),
    [
        ("110504", 0, "cancelled", []),  # patient died
        ("110510", 0, "cancelled", []),  # duplicate order
        ("110510", None, "awaited", []),  # it does not say whether there are images
        ("110510", 2, "ordered", ["A1"]),  # there is something to read
        ("110505", 0, "awaited", []),  # refused: perhaps tomorrow
        ("110501", 0, "awaited", []),  # equipment failure: on another device
        ("110514", 0, "awaited", []),  # wrong worklist entry
        ("", 0, "awaited", []),
        ("", 3, "ordered", ["A1"]),
    ],
)
async def test_a_discontinued_examination(
    hospital: Hospital,
    modality: Modality,
    reason: str,
    images: int | None,
    state: str,
    status: list[str],
) -> None:
    """Images make an order readable; without images the reason decides whether it ends."""
    await_examinations(hospital)
    await hospital.send(new_order())
    uid = generate_uid()
    await modality.create(uid, new_step())
    await modality.set(uid, ended("DISCONTINUED", images=images, reason=reason))
    await applied(hospital)
    assert order_states(hospital) == [state]
    assert list(await hospital.descriptions()) == status


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ("PerformedProcedureStepEndDate", "step_without_end"),
        ("PerformedProcedureStepEndTime", "step_without_end"),
        ("PerformedSeriesSequence", "step_without_end"),
        ("", "step_completed"),
    ],
)
async def test_an_end_that_says_too_little(
    hospital: Hospital, modality: Modality, missing: str, code: str
) -> None:
    """Real modalities leave out end or series: it is accepted, and the order's page says so."""
    await_examinations(hospital)
    await hospital.send(new_order())
    await modality.create(uid := generate_uid(), new_step())
    last = ended()
    if missing:
        delattr(last, missing)
    assert (await modality.set(uid, last)).Status == 0x0000
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]
    assert received_messages(hospital)[-1] == ("N-SET MPPS", "done", code)
    assert exceptions(hospital) == []
    shown = cause_of(ExceptionSubject.MESSAGE, "done", code).words
    assert ("no end or no series" in shown) == bool(missing)


async def test_a_group_of_orders(hospital: Hospital, modality: Modality) -> None:
    """One performed step of several orders changes all of them."""
    await_examinations(hospital)
    await hospital.send(new_order(1))
    await hospital.send(new_order(2))
    await hospital.send(new_order(3))
    uid = generate_uid()
    await modality.create(uid, new_step(scheduled("A1"), scheduled("A2")))
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["ordered", "ordered", "awaited"]


async def test_several_performed_steps_of_one_order(hospital: Hospital, modality: Modality) -> None:
    """The first completed one makes the order readable; a discontinued one leaves it so."""
    await_examinations(hospital)
    await hospital.send(new_order())
    uids = [generate_uid(), generate_uid()]
    for uid in uids:
        await modality.create(uid, new_step())
    await modality.set(uids[0], ended())
    await modality.set(uids[1], ended("DISCONTINUED", images=None, reason="110510"))
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]


async def test_a_step_without_an_order_waits_for_it(hospital: Hospital, modality: Modality) -> None:
    """It is an exception, and is applied when the order arrives."""
    await_examinations(hospital)
    uid = generate_uid()
    await modality.create(uid, new_step())
    await modality.set(uid, ended())
    await applied(hospital)
    waiting = ("parked", "object_without_order")
    assert received_messages(hospital) == [
        ("N-CREATE MPPS", *waiting),
        ("N-SET MPPS", *waiting),
    ]
    assert exceptions(hospital) == ["object_without_order"] * 2
    await hospital.send(new_order(2))
    assert received_messages(hospital)[0][1:] == waiting
    await hospital.send(new_order(1))
    await applied(hospital)
    assert order_states(hospital) == ["awaited", "ordered"]
    assert exceptions(hospital) == []
    assert hospital.rows("SELECT * FROM waiting_message") == []


async def test_a_group_of_which_one_order_is_unknown(
    hospital: Hospital, modality: Modality
) -> None:
    """The known order is changed; the message waits for the other one."""
    await_examinations(hospital)
    await hospital.send(new_order(1))
    uid = generate_uid()
    await modality.create(uid, new_step(scheduled("A1"), scheduled("A2")))
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]
    await hospital.send(new_order(2))
    await applied(hospital)
    assert order_states(hospital) == ["ordered", "ordered"]
    assert {state for _, state, _ in received_messages(hospital)} == {"done"}


async def test_another_patient(hospital: Hospital, modality: Modality) -> None:
    """A step that names the order of another patient changes nothing, and is an exception."""
    await_examinations(hospital)
    await hospital.send(new_order())
    uid = generate_uid()
    await modality.create(uid, new_step(mrn="M2"))
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["awaited"]
    outcomes = {row[1:] for row in received_messages(hospital)}
    assert outcomes == {("parked", "patient_conflict")}
    assert exceptions(hospital) == ["patient_conflict"] * 2


@pytest.mark.parametrize("mrn", ["", " "])
async def test_a_step_without_a_patient(hospital: Hospital, modality: Modality, mrn: str) -> None:
    """Number and patient must both fit."""
    await_examinations(hospital)
    await hospital.send(new_order())
    await modality.create(generate_uid(), new_step(mrn=mrn))
    await applied(hospital)
    assert received_messages(hospital)[0][1:] == ("parked", "patient_conflict")


async def test_a_merged_patient(hospital: Hospital, modality: Modality) -> None:
    """The modality may still have the number before the merge."""
    await_examinations(hospital)
    await hospital.send(new_order())
    uid = generate_uid()
    await modality.create(uid, new_step())
    await applied(hospital)
    policy = ListenerPolicy("ris", inbound(), site=SITE)
    hospital.use(policy)
    await hospital.send(adt("A40", "M9", "M1"))
    await modality.set(uid, ended())
    await applied(hospital)
    assert hospital.rows("SELECT mrn, state FROM bridge_order") == [("M9", "ordered")]


async def test_an_order_of_a_study(hospital: Hospital, modality: Modality) -> None:
    """Without an accession number the study identifies the order."""
    await_examinations(hospital)
    study = "1.2.840.99999.77"
    group = order_group("NW", "P1", "F1", accession="A1") + f"ZDS|{study}^RIS^Application^DICOM\r"
    await hospital.send(order_message(group, sent=1))
    uid = generate_uid()
    await modality.create(uid, new_step(scheduled("", study=study)))
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]


async def test_a_number_that_dicom_cuts(hospital: Hospital, modality: Modality) -> None:
    """An accession number has 16 characters in DICOM; the study finds the order."""
    await_examinations(hospital)
    study, accession = "1.2.840.99999.78", "ACC-2026-11-30-0001"
    group = order_group("NW", "P1", "F1", accession=accession)
    await hospital.send(order_message(group + f"ZDS|{study}\r", sent=1))
    await modality.create(uid := generate_uid(), new_step(scheduled(accession[:16], study=study)))
    await modality.set(uid, ended())
    await applied(hospital)
    assert order_states(hospital) == ["ordered"]


class TestRefusals:
    async def test_the_same_instance_twice(self, hospital: Hospital, modality: Modality) -> None:
        uid = generate_uid()
        await modality.create(uid, new_step())
        status = await modality.create(uid, new_step())
        assert status.Status == 0x0111
        assert len(received_messages(hospital)) == 1

    async def test_a_new_step_is_in_progress(self, hospital: Hospital, modality: Modality) -> None:
        for status in ("COMPLETED", "DISCONTINUED", "BEGUN"):
            answer = await modality.create(generate_uid(), new_step(status=status))
            assert (answer.Status, answer.ErrorComment[:11]) == (0x0106, "(0040,0252)")
        assert received_messages(hospital) == []

    async def test_the_required_attributes(self, hospital: Hospital, modality: Modality) -> None:
        """Each must be present and have a value; the answer names it."""
        for keyword in REQUIRED:
            empty = new_step()
            setattr(empty, keyword, [] if keyword.endswith("Sequence") else "")
            without = new_step()
            delattr(without, keyword)
            for step, status in ((without, 0x0120), (empty, 0x0121)):
                answer = await modality.create(generate_uid(), step)
                assert answer.Status == status
                assert answer.ErrorComment.startswith(str(Tag(keyword)))
        assert received_messages(hospital) == []

    async def test_a_study_of_each_scheduled_step(self, modality: Modality) -> None:
        answer = await modality.create(generate_uid(), new_step(scheduled("A1", study="")))
        assert (answer.Status, answer.ErrorComment[:11]) == (0x0121, "(0020,000D)")

    @pytest.mark.parametrize("last", ["COMPLETED", "DISCONTINUED"])
    @pytest.mark.parametrize("is_applied", [True, False])
    async def test_no_change_after_the_end(
        self, hospital: Hospital, modality: Modality, last: str, *, is_applied: bool
    ) -> None:
        """The status is known at once, also before the consumer has seen the step."""
        uid = generate_uid()
        await modality.create(uid, new_step())
        await modality.set(uid, ended(last))
        if is_applied:
            await applied(hospital)
        for later in (ended("COMPLETED"), ended("DISCONTINUED"), ended(last)):
            answer = await modality.set(uid, later)
            assert (answer.Status, answer.ErrorID) == (0x0110, 0xA710)
        await applied(hospital)
        assert len(received_messages(hospital)) == 2

    async def test_an_unknown_instance(self, hospital: Hospital, modality: Modality) -> None:
        assert (await modality.set(generate_uid(), ended())).Status == 0x0112
        assert received_messages(hospital) == []

    async def test_an_unknown_status(self, hospital: Hospital, modality: Modality) -> None:
        await modality.create(uid := generate_uid(), new_step())
        answer = await modality.set(uid, ended("PAUSED"))
        assert (answer.Status, answer.ErrorComment[:11]) == (0x0106, "(0040,0252)")
        assert (await modality.set(uid, ended())).Status == 0x0000

    async def test_changes_while_it_is_in_progress(
        self, hospital: Hospital, modality: Modality
    ) -> None:
        """Each is stored, a repeated one once."""
        await modality.create(uid := generate_uid(), new_step())
        for description in ("one", "two", "two"):
            change = data_set(PerformedProcedureStepDescription=description)
            assert (await modality.set(uid, change)).Status == 0x0000
        assert len(received_messages(hospital)) == 3
        assert (await modality.set(uid, ended())).Status == 0x0000

    async def test_a_data_set_that_is_too_large(
        self, hospital: Hospital, modality: Modality
    ) -> None:
        modality.syntax = str(ImplicitVRLittleEndian)
        step = new_step(CommentsOnThePerformedProcedureStep="x" * MAX_SIZE)
        assert (await modality.create(generate_uid(), step)).Status == 0x0213
        assert received_messages(hospital) == []

    async def test_two_ends_at_the_same_time(self, hospital: Hospital, modality: Modality) -> None:
        """One of them is stored."""
        await modality.create(uid := generate_uid(), new_step())
        answers = await asyncio.gather(
            *(modality.set(uid, ended(images=number)) for number in range(4))
        )
        assert sorted(answer.Status for answer in answers) == [0x0000, *[0x0110] * 3]

    async def test_without_an_instance_uid(self, hospital: Hospital, modality: Modality) -> None:
        """The bridge makes the UID and returns it."""
        assert (await modality.create(None, new_step())).Status == 0x0000
        assert len(received_messages(hospital)) == 1
