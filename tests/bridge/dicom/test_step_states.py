"""The state of each scheduled step: several of a procedure, several performed steps of one."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid

from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.orders.page import order_page, read_order
from bridge.admin.orders.unread import read_reported, return_order
from bridge.dicom.answers import AnswerCounter
from bridge.dicom.performed import PerformedSteps
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.search import find_rows
from bridge.dicom.server import Peer
from bridge.dicom.workitems import STATE, STATES, workitem
from bridge.dicom.worklist import WorklistService
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.database import Database
from bridge.store.records.scheduled_steps import StepFilter
from config import Settings
from config.dicom import DicomPeer, DicomSettings
from mappings.compiler import DEFINITIONS
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.dicom.conftest import MAX_SIZE
from tests.bridge.dicom.modality import Modality, data_set, ended, new_step, scheduled, serving
from tests.bridge.dicom.orders import applied, exceptions
from tests.bridge.dicom.test_pages import EVERYTHING
from tests.bridge.intake.messages import order_message
from tests.bridge.intake.process.test_reported_elsewhere import status_group
from tests.bridge.intake.process.test_scheduled_steps import CT, PET, omi, steps
from tests.bridge.intake.process.test_worklist_steps import rules
from tests.conformance.dicom.port import dump, findscu
from tests.programs import DCMTK

pytestmark = pytest.mark.needs(DCMTK)
PEER = Peer("CT1", "127.0.0.1", DicomPeer.model_validate(
    {"ae_title": "CT1", "addresses": ["127.0.0.0/8"], "may": ["worklist", "performed"]}
))  # fmt: skip
STEP_KEYS = ("(0040,0009) SH", "(0040,0020) CS")
S1, S2 = scheduled("A1", "S1"), scheduled("A1", "S2")
STORED = "SELECT step_id, status, performed, workitem_uid FROM scheduled_step ORDER BY position"


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    """A bridge with a worklist, and one procedure of two steps: S1 (PET) and S2 (CT)."""
    writer = StepWriter(rules())
    async with open_hospital(tmp_path, database, destination(), steps=writer) as made:
        await made.send(omi(*steps("NW", PET, CT)))
        yield made


@pytest.fixture
def modality(hospital: Hospital, received: ReceivedLog) -> Iterator[Modality]:
    """A modality that asks the worklist and reports performed steps."""
    answers = AnswerCounter(hospital.metrics, lambda *_: None, lambda *_: None)
    worklist = WorklistService(hospital.database, hospital.metrics, lambda *_: None)
    with serving(PerformedSteps(received, MAX_SIZE, answers), worklist, peer=PEER) as port:
        yield Modality(port)


def on_worklist(modality: Modality) -> dict[str, str]:
    """Return the status of each step by its ID, as findscu gets it."""
    found = [
        answer.ScheduledProcedureStepSequence[0]
        for answer in findscu(modality.port, dump(step=STEP_KEYS))[0]
    ]
    return {
        str(step.ScheduledProcedureStepID): str(step.ScheduledProcedureStepStatus) for step in found
    }


def change(sent: bytes) -> bytes:
    """Return a change of the procedure that was sent later, with ORC-5 SC."""
    return omi(*steps("XO", PET, CT)).replace(b"20261121120000", sent)


def on_page(hospital: Hospital) -> list[str]:
    """Return what the page of the order says of its steps."""
    ((order_id,),) = hospital.rows("SELECT id FROM bridge_order")
    subjects_of = MessageSubjects(Settings(home=Path()), hospital.database)
    stored = read_order(hospital.database, subjects_of, order_id, EVERYTHING)
    shown = order_page(stored, None, hospital.time())["steps"]
    texts = [step["text"] for step in shown if step["kind"] == "scheduled_step"]
    return sorted(text.partition(" at ")[0] for text in texts)


def as_workitems(hospital: Hospital) -> set[str]:
    """Return the states of the workitems of the steps."""
    chosen = StepFilter(statuses=list(STATES))
    found = find_rows(hospital.database, chosen, {}, workitem)
    return {item[STATE]["Value"][0] for _, item in found}


async def test_steps_of_one_procedure(hospital: Hospital, modality: Modality) -> None:
    """Each performed step changes the scheduled one that it names, and no other."""
    assert on_worklist(modality) == {"S1": "SCHEDULED", "S2": "SCHEDULED"}
    await modality.create(uid := generate_uid(), new_step(S1))
    await applied(hospital)
    assert on_worklist(modality) == {"S1": "STARTED", "S2": "SCHEDULED"}
    assert on_page(hospital) == ["Step S1 (PT) started", "Step S2 (CT) scheduled"]
    await modality.set(uid, ended())
    await applied(hospital)
    assert on_worklist(modality) == {"S2": "SCHEDULED"}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) scheduled"]
    await modality.create(uid := generate_uid(), new_step(S2))
    await modality.set(uid, ended("DISCONTINUED", images=0))
    await applied(hospital)
    assert on_worklist(modality) == {}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) discontinued"]
    assert exceptions(hospital) == []


async def test_a_group_case(hospital: Hospital, modality: Modality) -> None:
    """One performed step of both scheduled steps changes both (IHE SWF, group case)."""
    await modality.create(uid := generate_uid(), new_step(S1, S2))
    await applied(hospital)
    assert on_worklist(modality) == {"S1": "STARTED", "S2": "STARTED"}
    await modality.set(uid, ended())
    await applied(hospital)
    assert on_worklist(modality) == {}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) completed"]


async def test_an_append_case(hospital: Hospital, modality: Modality) -> None:
    """A completed step is begun again while a second performed step runs (IHE SWF)."""
    first, second = generate_uid(), generate_uid()
    await modality.create(first, new_step(S1))
    await modality.set(first, ended())
    await applied(hospital)
    assert on_worklist(modality) == {"S2": "SCHEDULED"}
    await modality.create(second, new_step(S1))
    await applied(hospital)
    assert on_worklist(modality) == {"S1": "STARTED", "S2": "SCHEDULED"}
    await modality.set(second, ended("DISCONTINUED", images=0, reason="110501"))
    await applied(hospital)
    assert on_worklist(modality) == {"S2": "SCHEDULED"}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) scheduled"]


@pytest.mark.parametrize("by", ["reader", "operator"])
async def test_an_order_is_read_here_after_all(
    hospital: Hospital, modality: Modality, tmp_path: Path, by: str
) -> None:
    """The worklist has its step again at once, as after a message; S1 was performed."""
    await modality.create(uid := generate_uid(), new_step(S1))
    await modality.set(uid, ended())
    await applied(hospital)
    await hospital.send(order_message(status_group("SC", "F"), sent=300))
    await hospital.send(change(b"20261121130100"))
    assert on_worklist(modality) == {}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) completed"]
    if by == "reader":
        await (await hospital.page("A1"))("unread")
        await hospital.follow()
    else:
        shutil.copytree(DEFINITIONS, tmp_path / "mappings")
        settings = Settings(home=tmp_path, dicom=DicomSettings(bind="127.0.0.1:0"))
        order = read_reported(hospital.database, 1)
        await return_order(settings, hospital.database, hospital.client, order)
    assert on_worklist(modality) == {"S2": "SCHEDULED"}
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) scheduled"]
    stored = hospital.rows(STORED)
    await hospital.send(change(b"20261121130200"))
    assert hospital.rows(STORED) == stored


async def test_a_step_that_is_begun_again(hospital: Hospital, modality: Modality) -> None:
    """After a discontinued performed step a second one begins and completes the scheduled step."""
    first, second = generate_uid(), generate_uid()
    await modality.create(first, new_step(S1))
    await modality.set(first, ended("DISCONTINUED", images=0, reason="110501"))
    await applied(hospital)
    assert on_worklist(modality) == {"S2": "SCHEDULED"}
    await modality.create(second, new_step(S1))
    await applied(hospital)
    assert on_worklist(modality) == {"S1": "STARTED", "S2": "SCHEDULED"}
    await modality.set(second, ended())
    await applied(hospital)
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) scheduled"]


WRONG_PROCEDURE, WRONG_ENTRY = "110510", "110514"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ended("DISCONTINUED", images=0), ended(), "completed"),
        (ended(), ended("DISCONTINUED", images=0), "completed"),
        (ended("DISCONTINUED"), ended("DISCONTINUED", images=0), "discontinued"),
        (ended("DISCONTINUED", images=0, reason=WRONG_ENTRY), ended(), "completed"),
        (ended("DISCONTINUED", images=0, reason=WRONG_PROCEDURE), ended(), "completed"),
        (
            ended("DISCONTINUED", images=0),
            ended("DISCONTINUED", images=0, reason=WRONG_ENTRY),
            "discontinued",
        ),
    ],
)
async def test_two_at_a_time(
    hospital: Hospital,
    modality: Modality,
    first: Dataset,
    second: Dataset,
    expected: str,
) -> None:
    """A scheduled step is begun while one of its performed steps runs, however the other ended."""
    one, other = generate_uid(), generate_uid()
    for uid in (one, other):
        await modality.create(uid, new_step(S1, S2))
    await modality.set(one, first)
    await modality.set(other, data_set(PerformedProcedureStepDescription="goes on"))
    await applied(hospital)
    assert on_worklist(modality) == {"S1": "STARTED", "S2": "STARTED"}
    assert on_page(hospital) == ["Step S1 (PT) started", "Step S2 (CT) started"]
    assert as_workitems(hospital) == {"IN PROGRESS"}
    await modality.set(other, second)
    await applied(hospital)
    assert on_worklist(modality) == {}
    assert on_page(hospital) == [f"Step S1 (PT) {expected}", f"Step S2 (CT) {expected}"]
    assert as_workitems(hospital) == {"COMPLETED" if expected == "completed" else "CANCELED"}
    assert exceptions(hospital) == []


async def test_an_order_with_another_step_to_do(hospital: Hospital, modality: Modality) -> None:
    """A step that will not take place ends its order only if no other step of it is left."""
    for step, expected in ((S1, "ordered"), (S2, "cancelled")):
        await modality.create(uid := generate_uid(), new_step(step))
        await modality.set(uid, ended("DISCONTINUED", images=0, reason=WRONG_PROCEDURE))
        await applied(hospital)
        assert hospital.rows("SELECT state FROM bridge_order") == [(expected,)]
        assert on_worklist(modality) == ({"S2": "SCHEDULED"} if step is S1 else {})
    assert on_page(hospital) == ["Step S1 (PT) discontinued", "Step S2 (CT) discontinued"]


async def test_all_steps_of_an_order_at_once(hospital: Hospital, modality: Modality) -> None:
    """One performed step that will not take place ends the order whose steps it all names."""
    await modality.create(uid := generate_uid(), new_step(S1, S2))
    await modality.set(uid, ended("DISCONTINUED", images=0, reason=WRONG_PROCEDURE))
    await applied(hospital)
    assert hospital.rows("SELECT state FROM bridge_order") == [("cancelled",)]
    assert on_worklist(modality) == {}


async def test_an_order_with_something_to_read(hospital: Hospital, modality: Modality) -> None:
    """A step that will not take place ends no order of which another one was examined."""
    first, second = generate_uid(), generate_uid()
    await modality.create(first, new_step(S1))
    await modality.set(first, ended())
    await modality.create(second, new_step(S2))
    await modality.set(second, ended("DISCONTINUED", images=0, reason=WRONG_PROCEDURE))
    await applied(hospital)
    assert hospital.rows("SELECT state FROM bridge_order") == [("ordered",)]
    assert on_page(hospital) == ["Step S1 (PT) completed", "Step S2 (CT) discontinued"]
