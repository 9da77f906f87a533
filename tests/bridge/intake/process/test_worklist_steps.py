"""Scheduled procedure steps: what modalities ask for, stored with each change of an order."""

import json
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from bridge.contract import OrderKey
from bridge.intake.process.scheduled_steps import StepRules, StepWriter, StoredOrderSteps
from bridge.orders.received_objects import PerformedStep, StepEvent
from bridge.store.database import Database
from bridge.store.records import scheduled_steps
from bridge.store.records.scheduled_steps import ScheduledStep, StepFilter, StepStatus
from config import Settings
from mappings.compiler import DEFINITIONS, load
from mappings.hl7.message import Message
from mappings.outbound.worklist_item import WorklistMapping
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.process.test_scheduled_steps import CT, MR, PET, omi, steps

NUMBERS = count(1)
DAY = 86_400_000  # ms
STUDY, ACCESSION, PATIENT_ID = "0020000D", "00080050", "00100020"
S, D, C = StepStatus.SCHEDULED, StepStatus.DISCONTINUED, StepStatus.CANCELLED


def rules(**changes: Any) -> StepRules:
    mapping = load(DEFINITIONS, "worklist")
    assert isinstance(mapping, WorklistMapping)
    return StepRules(mapping, **changes)


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    writer = StepWriter(rules(default_zone="Europe/Berlin"))
    async with open_hospital(tmp_path, database, destination(), steps=writer) as running:
        yield running


def orm(
    control: str = "NW",
    status: str = "SC",
    *,
    number: int = 1,
    mrn: str = "M1",
    name: str = "TESTER^TILDA",
    visit: str = "PV1|1|O",
    start: str = "",
    parent: str = "",
    sent: str = "1200",
    more: tuple[str, ...] = (),
) -> bytes:
    place = f"{'|' * 14}A{number}|R{number}|S{number}|||"
    lines = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121{sent}00||ORM^O01|O{next(NUMBERS)}|P|2.5.1",
        f"PID|1||{mrn}^^^MAIN^MR||{name}||19700101|F",
        visit,
        f"ORC|{control}|P{number}|F{number}||{status}||^^^{start}|{parent}",
        f"OBR|1|P{number}|F{number}|7125{number}^CT chest {number}^C4{place}|CT",
        *more,
    )
    return "\r".join([*lines, ""]).encode()


def adt(event: str, *lines: str) -> bytes:
    head = f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121130000||ADT^{event}|D{next(NUMBERS)}|P|2.5.1"
    return "\r".join([head, f"EVN|{event}|20261121130000", *lines, ""]).encode()


def say(
    connection: Connection,
    key: OrderKey,
    step_ids: Collection[str],
    event: StepEvent,
    instance: str = "1.2.3",
) -> None:
    """Store what a performed step says of scheduled steps."""
    scheduled_steps.set_performed(connection, key, step_ids, instance, PerformedStep(event), 1)


def on_worklist(hospital: Hospital, **conditions: Any) -> list[ScheduledStep]:
    with hospital.database.read() as connection:
        return scheduled_steps.find_page(connection, StepFilter(**conditions), None, 100)[0]


def all_of(hospital: Hospital, accession: str = "A1", mrn: str = "M1") -> list[ScheduledStep]:
    with hospital.database.read() as connection:
        return scheduled_steps.steps_of(connection, [OrderKey(SITE, mrn, accession)])


def statuses(hospital: Hospital, accession: str = "A1", mrn: str = "M1") -> list[StepStatus]:
    return [step.status for step in all_of(hospital, accession, mrn)]


def item(step: ScheduledStep) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(step.item)
    return found


def value(elements: dict[str, Any], tag: str) -> Any:
    return next(iter(elements[tag].get("Value", ())), "")


async def test_an_order_with_two_steps(hospital: Hospital) -> None:
    """Case 12: one procedure, two steps, each with its station, modality and protocol."""
    timed = ["TQ1|1||||||20261201090000+0000"]
    lines = steps("NW", PET, CT)
    await hospital.send(omi(lines[0], *timed, *lines[1:]))
    pet, ct = on_worklist(hospital)
    assert [(one.step_id, one.modality, one.stations) for one in (pet, ct)] == [
        ("S1", "PT", ("PETAE",)),
        ("S2", "CT", ("CTAE1", "CTAE2")),
    ]
    assert (pet.day, pet.time) == (20261201, "100000")  # in the zone of the site
    assert {pet.study_uid, ct.study_uid} == {"1.2.840.99999.1"}
    (step,) = item(ct)["00400100"]["Value"]
    assert value(step, "00400020") == "SCHEDULED"
    assert value(item(ct), "00401001") == "RP1"
    assert value(step["00400008"]["Value"][0], "00080100") == "CTPROT"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([("NW", "SC")], S),
        ([("NW", "SC"), ("SC", "AR")], StepStatus.ARRIVED),
        ([("NW", "SC"), ("SC", "IP")], StepStatus.STARTED),
        ([("NW", "SC"), ("SC", "CM")], StepStatus.COMPLETED),
        ([("NW", "SC"), ("CA", "CA")], C),
        ([("NW", "SC"), ("DC", "DC")], D),
        ([("NW", "SC"), ("DC", "CA")], D),
        ([("NW", "SC"), ("HD", "HD")], StepStatus.HELD),
        ([("NW", "SC"), ("HD", "HD"), ("RL", "SC")], S),
        ([("NW", "SC"), ("CA", "CA"), ("NW", "SC")], S),
        ([("CA", "CA"), ("NW", "SC")], S),
        ([("SC", "SC"), ("NW", "SC")], S),
        ([("NW", "SC"), ("DC", "DC"), ("NW", "SC")], S),
    ],
    ids=lambda found: " ".join("/".join(one) for one in found) if isinstance(found, list) else "",
)
async def test_the_status_follows_the_order(
    hospital: Hospital, messages: list[tuple[str, str]], expected: StepStatus
) -> None:
    for control, status in messages:
        await hospital.send(orm(control, status))
    assert statuses(hospital) == [expected]
    listed = expected in scheduled_steps.ON_WORKLIST
    assert len(on_worklist(hospital)) == listed


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("NW SN RO CH XO XX XR SC NA RL OE OR", S),
        ("OK RE SR SS SU UA UC UD UF UH UM UR UX PA LI CN DE OP", S),
        ("CA CR OC RP RQ RU", C),
        ("DC DR OD", D),
        ("HD HR OH", StepStatus.HELD),
    ],
    ids=["opened", "ignored", "cancelled", "discontinued", "held"],
)
async def test_each_order_control_code(
    hospital: Hospital, codes: str, expected: StepStatus
) -> None:
    """What ORC-1 does to the step of a scheduled order, without ORC-5."""
    for number, code in enumerate(codes.split(), start=1):
        await hospital.send(orm(number=number))
        await hospital.send(orm(code, "", number=number))
        assert statuses(hospital, f"A{number}") == [expected], code


async def test_a_replacement_under_the_same_accession(hospital: Hospital) -> None:
    """The step of the replaced order leaves the worklist, and that of the new one is on it."""
    await hospital.send(orm())
    lines = orm("RP", "", number=1).decode().split("\r")
    new = orm("RO", number=2).decode().replace("|A2|", "|A1|").split("\r")
    await hospital.send("\r".join([*lines[:4], *new[3:]]).encode())
    assert [step.step_id for step in on_worklist(hospital)] == ["S2"]


async def test_a_parent_and_its_children(hospital: Hospital) -> None:
    """A hold, release or end of the parent is that of the children, and no exception."""
    parent = "P90^RIS"
    for number in (1, 2):
        await hospital.send(orm("CH", number=number, parent=parent))
    for control, expected in (("HD", StepStatus.HELD), ("RL", S), ("DC", D)):
        head = orm().decode().split("\r")[:3]
        await hospital.send("\r".join([*head, f"ORC|{control}|P90|F90", ""]).encode())
        assert [*statuses(hospital, "A1"), *statuses(hospital, "A2")] == [expected] * 2
        assert hospital.last_message() == ("done", "")


async def test_a_number_is_assigned(hospital: Hospital) -> None:
    """SN has a placer number only; after NA the order is cancelled by its filler number."""
    head = orm().decode().split("\r")[:3]
    await hospital.send("\r".join([*head, "ORC|SN|P5|||SC", "OBR|1|P5||X^CT^L", ""]).encode())
    assert statuses(hospital, "P5") == [S]
    head = orm().decode().split("\r")[:3]
    await hospital.send("\r".join([*head, "ORC|NA|P5|F5", ""]).encode())
    head = orm().decode().split("\r")[:3]
    await hospital.send("\r".join([*head, "ORC|CA||F5", ""]).encode())
    assert statuses(hospital, "P5") == [C]


async def test_procedures_of_one_message_end_apart(hospital: Hospital) -> None:
    """OMI with several OBR and IPC: each OBR has its own steps, with its own end."""
    other = [line.replace("A1^", "A2^") for line in (CT, MR)]
    await hospital.send(omi(*steps("NW", PET), *steps("NW", *other, number=2)))
    began = steps("SC", PET)
    began[0] = began[0].replace("||SC", "||IP")
    await hospital.send(omi(*began, *steps("CA", *other, number=2)))
    assert statuses(hospital, "A1") == [StepStatus.STARTED]
    assert statuses(hospital, "A2") == [C, C]


async def test_a_repeated_cancellation_of_one_procedure(hospital: Hospital) -> None:
    """The other procedure of the accession stays scheduled; a person is told."""
    await hospital.send(omi(*steps("NW", PET), *steps("NW", CT, number=2)))
    for code in ("", "several_orders"):
        await hospital.send(omi(*steps("CA", CT, number=2)))
        assert [step.step_id for step in on_worklist(hospital)] == ["S1"]
        assert hospital.last_message() == ("done", code)
    await hospital.send(omi(*steps("CA", PET)))
    assert not on_worklist(hospital)


async def test_a_change_adds_and_removes_steps(hospital: Hospital) -> None:
    await hospital.send(omi(*steps("NW", PET)))
    await hospital.send(omi(*steps("XO", PET, CT, MR)))
    assert [step.step_id for step in on_worklist(hospital)] == ["S1", "S2", "S3"]
    await hospital.send(omi(*steps("XO", MR)))
    assert [step.step_id for step in on_worklist(hospital)] == ["S3"]


async def test_a_status_message_keeps_what_it_does_not_repeat(hospital: Hospital) -> None:
    """Neither the steps nor their start are lost by a message with ORC and OBR alone."""
    lines = steps("NW", PET, CT)
    await hospital.send(omi(lines[0], "TQ1|1||||||20261201090000", *lines[1:]))
    await hospital.send(omi(*steps("SC")))
    found = on_worklist(hospital)
    assert [(step.step_id, step.stations, step.day, step.time) for step in found] == [
        ("S1", ("PETAE",), 20261201, "090000"),
        ("S2", ("CTAE1", "CTAE2"), 20261201, "090000"),
    ]


async def test_a_step_id_that_is_not_known(hospital: Hospital) -> None:
    """It means the step of an order that has only one, and none of several."""
    await hospital.send(orm())
    await hospital.send(omi(*steps("NW", PET, CT)).replace(b"A1", b"A2").replace(b"M1", b"M2"))
    with hospital.database.write() as connection:
        for number in (1, 2):
            key = OrderKey(SITE, f"M{number}", f"A{number}")
            say(connection, key, ["S9"], StepEvent.STARTED)
    assert statuses(hospital) == [StepStatus.STARTED]
    assert statuses(hospital, "A2", "M2") == [S, S]


async def test_what_a_modality_said_survives_changes(hospital: Hospital) -> None:
    await hospital.send(omi(*steps("NW", PET, CT)))
    with hospital.database.write() as connection:
        key = OrderKey(SITE, "M1", "A1")
        say(connection, key, ["S1"], StepEvent.COMPLETED)
        say(connection, key, ["S2"], StepEvent.STARTED)
    await hospital.send(omi(*steps("XO", PET, CT)))
    assert statuses(hospital) == [StepStatus.COMPLETED, StepStatus.STARTED]
    (started,) = on_worklist(hospital)
    assert value(item(started)["00400100"]["Value"][0], "00400020") == "STARTED"
    await hospital.send(omi(*steps("CA", PET, CT)))
    assert statuses(hospital) == [StepStatus.COMPLETED, C]


NEW, BEGUN, DONE = (("NW", "SC"), ("SC", "IP"), ("SC", "CM"))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([(*NEW, "1200"), (*DONE, "1210"), (*BEGUN, "1205")], StepStatus.COMPLETED),
        ([(*NEW, "1200"), (*BEGUN, "1205"), (*DONE, "1210")], StepStatus.COMPLETED),
        ([(*NEW, "1200"), (*DONE, "1210"), (*BEGUN, "1215")], StepStatus.STARTED),
        (
            [(*NEW, "1200"), (*DONE, "1210"), (*BEGUN, "1215"), (*DONE, "1220")],
            StepStatus.COMPLETED,
        ),
        ([(*NEW, "1200"), (*DONE, "1210"), (*NEW, "1200")], StepStatus.COMPLETED),
        ([(*NEW, "1200"), (*DONE, "1210"), ("XO", "SC", "1205")], StepStatus.COMPLETED),
        ([(*NEW, "1200"), ("SC", "IP", "1210"), ("SC", "AR", "1205")], StepStatus.STARTED),
        ([(*DONE, "1210"), (*NEW, "1200")], StepStatus.COMPLETED),
    ],
)
async def test_the_status_that_was_sent_last(
    hospital: Hospital, messages: list[tuple[str, str, str]], expected: StepStatus
) -> None:
    """Of two messages of one sender the one that was sent later (MSH-7) sets the status."""
    for control, status, sent in messages:
        await hospital.send(orm(control, status, sent=sent))
    assert statuses(hospital) == [expected]


@pytest.mark.parametrize("said", [StepEvent.COMPLETED, StepEvent.DISCONTINUED])
async def test_no_message_reopens_what_a_modality_ended(
    hospital: Hospital, said: StepEvent
) -> None:
    """A later status of the RIS leaves a performed step as the modality ended it."""
    await hospital.send(orm())
    with hospital.database.write() as connection:
        key = OrderKey(SITE, "M1", "A1")
        say(connection, key, (), said)
    for control, status, sent in ((*BEGUN, "1215"), ("XO", "SC", "1220"), (*NEW, "1225")):
        await hospital.send(orm(control, status, sent=sent))
        assert statuses(hospital) == [StepStatus[said.name]]
    assert on_worklist(hospital) == []


async def test_the_order_ends_what_a_modality_began(hospital: Hospital) -> None:
    """Many modalities never say that they have finished; what they say later changes nothing."""
    await hospital.send(orm())
    key = OrderKey(SITE, "M1", "A1")

    def report(event: StepEvent, instance: str = "1.2.3") -> None:
        with hospital.database.write() as connection:
            say(connection, key, (), event, instance)

    report(StepEvent.STARTED)
    await hospital.send(orm("XO", "SC", sent="1205"))
    assert statuses(hospital) == [StepStatus.STARTED]
    await hospital.send(orm(*DONE, sent="1210"))
    assert statuses(hospital) == [StepStatus.COMPLETED]
    report(StepEvent.STARTED, "1.2.4")
    report(StepEvent.DISCONTINUED, "1.2.4")
    report(StepEvent.DISCONTINUED)
    assert statuses(hospital) == [StepStatus.COMPLETED]


async def test_a_generated_study_uid_is_the_same_everywhere(hospital: Hospital) -> None:
    """On the worklist, in the report's tags and in the result; a change without a UID keeps it."""
    await hospital.send(orm())
    (step,) = on_worklist(hospital)
    assert step.study_uid.startswith("2.25.")
    assert len(step.study_uid) <= 64
    await hospital.send(orm("XO", "SC"))
    assert [one.study_uid for one in on_worklist(hospital)] == [step.study_uid]
    (row,) = (await hospital.client.worklist(SITE)).items
    assert row["orders"][0]["StudyInstanceUID"] == step.study_uid
    await hospital.read_and_sign("A1", "Done.")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    result = Message.parse(oru)
    assert result.value("ZDS-1") == f"{step.study_uid}^^Application^DICOM"
    assert len(result.named("ZDS")) == 1


async def test_the_senders_study_uid(hospital: Hospital) -> None:
    """It is used, and returns once; an order message replaces a UID that was made before it."""
    await hospital.send(orm("SC", "SC"))
    assert on_worklist(hospital)[0].study_uid.startswith("2.25.")
    sent = "1.2.840.99999.7"
    await hospital.send(orm(more=(f"ZDS|{sent}^RIS^Application^DICOM",)))
    assert [step.study_uid for step in on_worklist(hospital)] == [sent]
    await hospital.read_and_sign("A1", "Done.")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    assert [row.value("1.1") for row in Message.parse(oru).named("ZDS")] == [sent]


async def test_a_later_uid_does_not_replace_a_generated_one(hospital: Hospital) -> None:
    await hospital.send(orm())
    (made,) = on_worklist(hospital)
    await hospital.send(orm("XO", "SC", more=("ZDS|1.2.840.99999.8^RIS^Application^DICOM",)))
    assert [step.study_uid for step in on_worklist(hospital)] == [made.study_uid]


async def test_a_signed_report_ends_the_steps(hospital: Hospital) -> None:
    """Nobody else may ever say that the examination is done; a change does not return it."""
    await hospital.send(orm())
    await hospital.send(orm(number=2))
    await hospital.read_and_sign("A1", "Normal.")
    await hospital.follow()
    assert {step.key.accession for step in on_worklist(hospital)} == {"A2"}
    await hospital.send(orm("XO"))
    assert {step.key.accession for step in on_worklist(hospital)} == {"A2"}


@pytest.mark.parametrize(
    ("control", "status", "day", "expected"),
    [
        ("XO", "SC", 0, StepStatus.EXPIRED),
        ("XO", "SC", 60, S),
        ("SC", "AR", 0, StepStatus.ARRIVED),
        ("CA", "CA", 0, C),
    ],
    ids=["another value", "another day", "arrived", "cancelled"],
)
async def test_a_step_that_nobody_ended_expires(
    hospital: Hospital, control: str, status: str, day: int, expected: StepStatus
) -> None:
    """A step of a later day stays; so does one that has just arrived, for a day in the past."""
    settings = Settings(home=Path("/"), dicom={"steps_expire": "30d"})
    now = hospital.time()
    day_of = {days: f"{datetime.fromtimestamp(now / 1000, UTC) + timedelta(days):%Y%m%d}"
              for days in (-90, 0, 30, 60)}  # fmt: skip
    await hospital.send(orm(start=day_of[0]))
    await hospital.send(orm(number=2, start=day_of[30]))
    await hospital.send(orm(number=3, start=day_of[-90]))
    for days, listed in ((29, {"A1", "A2", "A3"}), (32, {"A2"})):
        later = now + days * DAY
        StoredOrderSteps(settings, hospital.database, partial(int, later)).expire()
        assert {step.key.accession for step in on_worklist(hospital)} == listed
    await hospital.send(orm(control, status, start=day_of[day]))
    assert statuses(hospital) == [expected]


async def test_a_performed_step_of_an_expired_one(hospital: Hospital) -> None:
    await hospital.send(orm(start="20261121"))
    with hospital.database.write() as connection:
        scheduled_steps.expire(connection, datetime(2999, 1, 1, tzinfo=UTC), 1)
        assert not scheduled_steps.find_page(connection, StepFilter(), None, 9)[0]
        key = OrderKey(SITE, "M1", "A1")
        say(connection, key, ["S1"], StepEvent.STARTED)
    assert statuses(hospital) == [StepStatus.STARTED]


async def test_steps_move_with_a_merge(hospital: Hospital) -> None:
    """They keep their UID and what modalities said; the items name the survivor."""
    await hospital.send(orm())
    await hospital.send(orm(number=2, mrn="M2"))
    (before,) = on_worklist(hospital, mrn="M1")
    with hospital.database.write() as connection:
        key = OrderKey(SITE, "M1", "A1")
        say(connection, key, ["S1"], StepEvent.STARTED)
    pid = "PID|1||M2^^^MAIN^MR||TESTER^TILDA||19700101|F"
    await hospital.send(adt("A40", pid, "MRG|M1^^^MAIN^MR"))
    assert not on_worklist(hospital, mrn="M1")
    moved, own = sorted(on_worklist(hospital, mrn="M2"), key=lambda step: step.step_id)
    assert (moved.study_uid, moved.status) == (before.study_uid, StepStatus.STARTED)
    assert {value(item(step), PATIENT_ID) for step in (moved, own)} == {"M2"}
    await hospital.send(orm("XO", "SC", mrn="M1"))
    assert {step.study_uid for step in on_worklist(hospital)} == {moved.study_uid, own.study_uid}


async def test_a_corrected_name_is_on_the_worklist(hospital: Hospital) -> None:
    await hospital.send(orm())
    pid = "PID|1||M1^^^MAIN^MR||TESTER^THEA||19710101|F"
    await hospital.send(adt("A08", pid, "PV1|1|O"))
    (step,) = on_worklist(hospital)
    assert value(item(step), "00100010") == {"Alphabetic": "TESTER^THEA"}
    assert value(item(step), "00100030") == "19710101"


async def test_a_value_that_does_not_fit(hospital: Hospital) -> None:
    """The order exists, the step is listed without the value, and an exception names it."""
    long = "A" * 17
    await hospital.send(orm().replace(b"|A1|", f"|{long}|".encode()))
    assert await hospital.report(long) is not None
    (step,) = on_worklist(hospital)
    assert not value(item(step), ACCESSION)
    assert hospital.rows("SELECT kind, code FROM exception") == [
        ("message", "worklist_item AccessionNumber")
    ]


async def test_two_accessions_of_one_message(hospital: Hospital) -> None:
    """Each is a procedure of its own, with its own study."""
    other = [line.replace("A1^", "A2^").replace(".1|", ".2|") for line in (CT, MR)]
    await hospital.send(omi(*steps("NW", PET), *steps("NW", *other, number=2)))
    assert [(step.key.accession, step.step_id) for step in on_worklist(hospital)] == [
        ("A1", "S1"),
        ("A2", "S2"),
        ("A2", "S3"),
    ]


async def test_two_accessions_below_one_obr(hospital: Hospital) -> None:
    """Both steps keep their numbers, and a person is told once that the report has one of them."""
    other = CT.replace("A1^", "A2^")
    await hospital.send(omi(*steps("NW", PET, other)))
    found = [(step.step_id, value(item(step), ACCESSION)) for step in on_worklist(hospital)]
    assert found == [("S1", "A1"), ("S2", "A2")]
    assert hospital.last_message() == ("done", "several_accessions")
    await hospital.send(omi(*steps("XO", PET, other)))
    assert hospital.last_message() == ("done", "")
    await hospital.send(omi(*steps("CA")))
    assert not on_worklist(hospital)


async def test_without_a_worklist(tmp_path: Path, database: Database) -> None:
    """No steps are stored, and orders get no UID."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.send(orm())
        assert not on_worklist(hospital)
        (row,) = (await hospital.client.worklist(SITE)).items
        assert "StudyInstanceUID" not in row["orders"][0]


async def test_an_undone_merge_returns_steps_without_anything_of_the_survivor(
    hospital: Hospital,
) -> None:
    """Number, name, birth date and all else are those of the order again; its status is kept."""
    await hospital.send(orm(number=1, mrn="M1", name="FREED^IDA"))
    await hospital.send(orm(number=2, mrn="M2", name="SURVIVOR^EVA"))
    (before,) = on_worklist(hospital, mrn="M1")
    survivor = "PID|1||M2^^^MAIN^MR||SURVIVOR^EVA||19800202|M|||^^TOWN"
    await hospital.send(adt("A40", survivor, "MRG|M1^^^MAIN^MR"))
    merged = on_worklist(hospital, mrn="M2")
    assert {step.key.accession for step in merged} == {"A1", "A2"}
    assert before.workitem_uid in {step.workitem_uid for step in merged}
    with hospital.database.write() as connection:
        key = OrderKey(SITE, "M2", "A1")
        say(connection, key, [before.step_id], StepEvent.STARTED)
    freed = "PID|1||M1^^^MAIN^MR||FREED^IDA||19700101|F"
    await hospital.send(adt("A43", freed, "MRG|M2^^^MAIN^MR"))
    (after,) = on_worklist(hospital, mrn="M1")
    assert after.status is StepStatus.STARTED
    assert after.workitem_uid == before.workitem_uid
    assert "SURVIVOR" not in after.item
    assert "19800202" not in after.item
    assert json.loads(after.item)["00100010"] == json.loads(before.item)["00100010"]
    (stays,) = on_worklist(hospital, mrn="M2")
    assert stays.key.accession == "A2"


async def test_steps_move_with_a_visit(hospital: Hospital) -> None:
    """The step of an order that goes to another patient keeps its UID and its status."""
    visit = f"PV1|1|O{'|' * 17}V1"
    await hospital.send(orm(visit=visit))
    (before,) = on_worklist(hospital)
    with hospital.database.write() as connection:
        key = OrderKey(SITE, "M1", "A1")
        say(connection, key, [], StepEvent.STARTED)
    pid = "PID|1||M9^^^MAIN^MR||OTHER^OLGA||19800101|F"
    await hospital.send(adt("A45", pid, "MRG|M1^^^MAIN^MR||||V1", visit))
    (moved,) = on_worklist(hospital)
    assert moved.workitem_uid == before.workitem_uid
    assert (moved.key.mrn, moved.study_uid, moved.status) == (
        *("M9", before.study_uid),
        StepStatus.STARTED,
    )
    assert value(item(moved), PATIENT_ID) == "M9"
