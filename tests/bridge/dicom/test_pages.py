"""Operators see what modalities sent: on the order's page, on a page of its own, as attributes."""

from pathlib import Path

import pytest
from pydicom.uid import generate_uid

from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.errors import InvalidState, PermissionDenied
from bridge.admin.items.message_page import message_content, message_page
from bridge.admin.items.resending import ReceivedMessage
from bridge.admin.lists import message_columns
from bridge.admin.lists.definitions import MESSAGES
from bridge.admin.lists.listing import Access, ListRequest
from bridge.admin.messages.message_index import MessageIndexer, NumberKind, origin_of
from bridge.admin.messages.message_replay import MessageSubjects, StoredMessageReplay
from bridge.admin.orders.page import ask_engine, order_page, read_order
from bridge.orders.received_objects import KEY_OBJECTS
from bridge.queue import queries
from config import Settings
from config.dicom import DicomSettings
from tests.bridge.admin.messages.full_index import index_all
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.dicom.modality import PEER, Modality, data_set, ended, new_step, report
from tests.bridge.dicom.orders import applied, await_examinations, new_order, received_messages
from tests.bridge.intake.messages import adt

EVERYTHING = Access.of(Grant("chief@a.test", ConsoleRole.SYSTEM_ADMINISTRATOR, bodies=True))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, dicom=DicomSettings(peer=[PEER.settings]))


def ids(hospital: Hospital) -> list[int]:
    query = "SELECT id FROM message WHERE listener = 'dicom' ORDER BY id"
    return [number for (number,) in hospital.rows(query)]


async def test_the_page_of_an_order(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """Everything that the modality did is in the timeline, and its objects with their texts."""
    await_examinations(hospital)
    await hospital.send(new_order())
    await modality.create(uid := generate_uid(), new_step())
    await modality.set(uid, ended())
    await applied(hospital)
    await modality.store(report())
    await modality.store(report(sop_class=KEY_OBJECTS, text="Image 3"))
    await applied(hospital)
    subjects_of = MessageSubjects(settings, hospital.database)
    index_all(MessageIndexer(hospital.database, subjects_of, hospital.time))
    ((order_id,),) = hospital.rows("SELECT id FROM bridge_order")
    stored = read_order(hospital.database, subjects_of, order_id, EVERYTHING)
    page = order_page(stored, await ask_engine(hospital.client, stored), hospital.time())
    assert [one["set_aside"] for one in page["structured"]] == [False, False]
    texts = [one["text"] for one in page["structured"]]
    assert "Nodule 8 mm" in texts[0]
    assert "Image 3" in texts[1]
    technical = Access.of(Grant("tech@a.test", ConsoleRole.SYSTEM_ADMINISTRATOR))
    stored = read_order(hospital.database, subjects_of, order_id, technical)
    state = await ask_engine(hospital.client, stored)
    assert state is not None
    assert state.structured == []
    shown = [f"{step['text']} {step['detail']}".strip() for step in page["steps"]]
    for text in (
        "N-CREATE MPPS from dicom, acknowledged 0000",
        "Applied The modality has begun the examination: CT1",
        "N-SET MPPS from dicom, acknowledged 0000",
        "Applied The modality has completed the examination: CT1",
        "C-STORE SR from dicom, acknowledged 0000",
        "C-STORE KO from dicom, acknowledged 0000",
        "Applied The object was added to the report: CT1",
    ):
        assert text in shown, shown


async def test_messages_are_found(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """By order, patient, name, instance and sender; on the sites of the order."""
    await hospital.send(new_order())
    made = report()
    await modality.store(made)
    await applied(hospital)
    subjects_of = MessageSubjects(settings, hospital.database)
    index_all(MessageIndexer(hospital.database, subjects_of, hospital.time))
    (number,) = ids(hospital)
    own = Grant("viewer@a.test", ConsoleRole.OPERATOR, bodies=True, sites=frozenset({SITE}))
    searches = (
        {"number": "A1", "kind": NumberKind.ORDER.value},
        {"number": "M1", "kind": NumberKind.PATIENT.value},
        {"number": made.SOPInstanceUID, "kind": NumberKind.CONTROL.value},
        {"name": "tester"},
        {"sender": ["dicom|CT1|"]},
        {"type": ["C-STORE SR"]},
        {"channel": ["dicom"]},
    )
    for filters in searches:
        with hospital.database.read() as connection:
            found = MESSAGES.page(connection, ListRequest(filters), Access.of(own)).rows
            assert number in [row.id for row in found], filters
    other = Grant("viewer@b.test", ConsoleRole.OPERATOR, bodies=True, sites=frozenset({"OTHER"}))
    with hospital.database.read() as connection:
        assert MESSAGES.page(connection, ListRequest({}), Access.of(other)).rows == []


async def test_the_columns_of_the_list(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """Objects and performed steps have the columns of HL7 messages, with their permissions."""
    await hospital.send(new_order())
    await modality.create(uid := generate_uid(), new_step())
    await modality.set(uid, ended())
    await modality.store(report())
    await applied(hospital)
    subjects_of = MessageSubjects(settings, hospital.database)
    names = ["accession", "patient", "name", "sender", "path:PID-3.1"]
    shown = message_columns.values(hospital.database, subjects_of, ids(hospital), names, EVERYTHING)
    expected = dict(zip(names, ("A1", "M1", "TESTER, TILDA", "CT1", ""), strict=True))
    assert list(shown.values.values()) == [expected] * 3
    technical = Access.of(Grant("tech@a.test", ConsoleRole.SYSTEM_ADMINISTRATOR))
    with pytest.raises(PermissionDenied):
        message_columns.values(hospital.database, subjects_of, ids(hospital), names, technical)
    elsewhere = Access.of(
        Grant("far@a.test", ConsoleRole.SITE_ADMINISTRATOR, True, frozenset({"OTHER"}))
    )
    found = message_columns.values(hospital.database, subjects_of, ids(hospital), names, elsewhere)
    assert found.values == {}


async def test_the_content_of_a_message(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """Attributes with their names, no binary value, nothing to edit, never read as HL7."""
    await hospital.send(new_order())
    made = report()
    made.add_new(0x00091010, "OB", bytes(range(256)))
    made.add_new(0x00090010, "LO", "PRIVATE")
    await modality.store(made)
    await applied(hospital)
    (number,) = ids(hospital)
    detail = queries.message(hospital.database, number)
    content = message_content(detail, "utf-8", [])
    lines = content["raw"].splitlines()
    assert "From CT1" in lines
    assert "(0010,0020) LO Patient ID: M1" in lines
    assert "(0009,1010) OB Private: 256 bytes" in lines
    assert any(line.strip() == "(0040,A160) UT Text Value: Nodule 8 mm" for line in lines)
    assert (content["tree"], content["is_dicom"]) == ([], True)
    assert content["ack"] == {"raw": "Status 0000", "code": "", "errors": []}
    assert [call["call"] for call in content["calls"]] == ["update-dicomsr"]
    subjects_of = MessageSubjects(settings, hospital.database)
    page = message_page(hospital.database, detail, subjects_of(origin_of(detail)), EVERYTHING)
    assert sorted(page["may"]) == ["content", "replay"]
    assert [order["accession"] for order in page["orders"]] == ["A1"]
    message = ReceivedMessage(settings, hospital.database, subjects_of, number)
    with pytest.raises(InvalidState, match="DICOM"):
        message.sheet()
    with pytest.raises(InvalidState, match="DICOM"):
        message.resend(["MSH|"], lambda _: True, "op@a.test", "reason")


async def test_an_operator_replays(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """What contradicted its order is attached after the correction."""
    await hospital.send(new_order(mrn="M2"))
    await modality.store(report())
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "parked", "patient_conflict")]
    await hospital.send(adt("A40", "M1", "M2"))  # both numbers are one person
    (number,) = ids(hospital)
    StoredMessageReplay(settings, hospital.database).replay(number)
    hospital.worker.notify_of_old_messages()
    await applied(hospital)
    assert received_messages(hospital) == [("C-STORE SR", "done", "object_stored")]


async def test_a_changed_step_is_about_the_orders_of_the_created_one(
    hospital: Hospital, modality: Modality, settings: Settings
) -> None:
    """An N-SET names neither patient nor order."""
    await hospital.send(new_order())
    await modality.create(uid := generate_uid(), new_step())
    await modality.set(uid, data_set(PerformedProcedureStepDescription="more"))
    await applied(hospital)
    subjects_of = MessageSubjects(settings, hospital.database)
    for number in ids(hospital):
        subjects = subjects_of(origin_of(queries.message(hospital.database, number)))
        assert subjects == (frozenset({SITE}), frozenset({"M1"}), frozenset({"A1"}))
