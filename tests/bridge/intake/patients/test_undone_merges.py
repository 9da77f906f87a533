"""Wrong merges and their repairs: what belongs to whom, and faults and messages in between."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import permutations
from typing import Any

import pytest

from bridge.admin.orders import merges
from bridge.contract.requests import ReturnedOrder
from bridge.contract.responses import UndoneMergeBody
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.records import identifier_changes, patient_records
from bridge.store.records.identifier_changes import UndoChoice
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.patients.test_merges import (
    EVA,
    IDA,
    REPAIRS,
    Person,
    event,
    exceptions,
    merge,
    order,
    patients,
)
from tests.eventually import eventually_async

IDAS, EVAS = (IDA.mrn, IDA.name), (EVA.mrn, EVA.name)


def ordered(number: int, minute: int) -> str:
    """Return an order of the freed person."""
    return (
        f"MSH|^~\\&|LABRIS|NORTH|BRIDGE|SITE1|202611280{minute}00+0100||ORM^O01^ORM_O01|C02-{number}"
        "|P|2.5.1\rPID|1||N7021^^^NORTH^MR||FREED^IDA||19610607|F\rPV1|1|O\r"
        f"ORC|NW|PA020{number}|FA020{number}||SC\r"
        f"OBR|1|PA020{number}|FA020{number}|71250^CT chest^C4||||||||||||||A020{number}||||||CT\r"
    )


def registered(trigger: str, structure: str, minute: int, *segments: str) -> str:
    """Return a message of the registration."""
    at = f"202611280{minute}00+0100"
    head = (
        f"MSH|^~\\&|LABRIS|NORTH|BRIDGE|SITE1|{at}||ADT^{trigger}^{structure}|C02-{minute}{trigger}"
        f"|P|2.5.1\rEVN|{trigger}|{at}\r"
    )
    return head + "".join(f"{segment}\r" for segment in segments)


FREED_PID = "PID|1||N7021^^^NORTH^MR||FREED^IDA||19610607|F"
SURVIVOR_PID = "PID|1||N7020^^^NORTH^MR||SURVIVOR^EVA||19800203|F"
MERGE = registered("A40", "ADT_A39", 810, SURVIVOR_PID, "MRG|N7021^^^NORTH^MR||||||FREED^IDA")
REPAIR_MESSAGES = {
    "A43": [registered("A43", "ADT_A43", 910, FREED_PID, "MRG|N7020^^^NORTH^MR")],
    "A37": [registered("A37", "ADT_A37", 910, SURVIVOR_PID, FREED_PID)],
    "A24 and its reversal": [
        registered("A24", "ADT_A24", 909, SURVIVOR_PID, FREED_PID),
        registered("A37", "ADT_A37", 910, FREED_PID, SURVIVOR_PID),
    ],
    "A28, then A43": [
        registered("A28", "ADT_A05", 909, FREED_PID, "PV1|1|O"),
        registered("A43", "ADT_A43", 910, FREED_PID, "MRG|N7020^^^NORTH^MR"),
    ],
    "A31, then A37": [
        registered("A31", "ADT_A05", 909, FREED_PID, "PV1|1|O"),
        registered("A37", "ADT_A37", 910, SURVIVOR_PID, FREED_PID),
    ],
}
FREED, SURVIVOR = ("N7021", "FREED^IDA"), ("N7020", "SURVIVOR^EVA")


@pytest.mark.parametrize("repair", REPAIR_MESSAGES)
@pytest.mark.parametrize("late", [False, True], ids=["", "the order before the repair"])
async def test_the_freed_number_is_her_own(hospital: Hospital, repair: str, late: bool) -> None:
    """
    Registration merges two persons, and repairs it an hour later.

    Each order is hers afterwards. The one that the merge had moved must be checked.
    """
    await hospital.send(ordered(1, 800).encode())
    await hospital.send(MERGE.encode())
    assert await patients(hospital) == {"A0201": SURVIVOR}
    if late:
        await hospital.send(ordered(2, 820).encode())
        assert hospital.last_message() == ("parked", "merge_contradicted")
    for message in REPAIR_MESSAGES[repair]:
        await hospital.send(message.encode())
    await hospital.send(ordered(3 if late else 2, 920).encode())
    await hospital.applied()
    expected = {"A0201": FREED, "A0202": FREED} | ({"A0203": FREED} if late else {})
    assert await patients(hospital) == expected
    births = hospital.rows("SELECT tags FROM bridge_order WHERE tags LIKE '%19800203%'")
    assert births == []
    assert hospital.states() <= {"done", "ignored"}
    checked = "SELECT o.accession FROM exception e JOIN bridge_order o ON o.id = e.row_id"
    assert hospital.rows(f"{checked} WHERE e.kind = 'order'") == [("A0201",)]


THIRD_PID = "PID|1||N7022^^^NORTH^MR||THIRD^TEA||19700101|F"
MERGE_INTO_THIRD = registered("A40", "ADT_A39", 930, THIRD_PID, "MRG|N7021^^^NORTH^MR")
MERGE_AGAIN = registered("A40", "ADT_A39", 940, SURVIVOR_PID, "MRG|N7021^^^NORTH^MR")
(UNDO_BY_A43,), (UNDO_BY_A37,) = REPAIR_MESSAGES["A43"], REPAIR_MESSAGES["A37"]
SEQUENCES = {
    "A40, A43": (MERGE, UNDO_BY_A43),
    "A40, A37": (MERGE, UNDO_BY_A37),
    "A40, A43, A40": (MERGE, UNDO_BY_A43, MERGE_AGAIN),
    "A40, A43, A40 into a third patient": (MERGE, UNDO_BY_A43, MERGE_INTO_THIRD),
}
ARRIVALS = [
    pytest.param(arriving, sent[-1], id=f"{name}: {places}")
    for name, sent in SEQUENCES.items()
    for places in permutations(range(len(sent)))
    for arriving in [[sent[place] for place in places]]
]


@pytest.mark.parametrize(("arriving", "last"), ARRIVALS)
async def test_what_was_sent_last_takes_precedence(
    hospital: Hospital, arriving: list[str], last: str
) -> None:
    """Of merges and undos, the time at which they were sent decides (MSH-7), in any order."""
    await hospital.send(ordered(1, 800).encode())
    for message in arriving:
        await hospital.send(message.encode())
        await hospital.send(message.replace("|C02-", "|REPEATED", 1).encode())
    await hospital.applied()
    owner = {MERGE_AGAIN: SURVIVOR, MERGE_INTO_THIRD: ("N7022", "THIRD^TEA")}.get(last, FREED)
    assert await patients(hospital) == {"A0201": owner}
    assert hospital.states() == {"done"}


async def test_a_number_that_was_given_to_a_third_person(hospital: Hospital) -> None:
    """
    The merged number has a new owner, and A43 returns it to the former one.

    The new person's order waits for a decision, and never gets the data of either of the two.
    """
    new = Person(IDA.mrn, "NEWMAN^OTTO", "19900101", "M")
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.send(order(new, "2"))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    await hospital.send(REPAIRS["A43"])
    await hospital.applied()
    assert await patients(hospital) == {"F1": IDAS}
    parked = hospital.rows("SELECT code FROM message WHERE state = 'parked'")
    assert parked == [("patient_name_mismatch",)]


async def test_a_repair_without_a_name(hospital: Hospital) -> None:
    """The name of the freed person stays known: her number does not take another person's order."""
    await hospital.send(ordered(1, 800).encode())
    await hospital.send(MERGE.encode())
    bare = FREED_PID.replace("FREED^IDA||19610607", "||")
    await hospital.send(UNDO_BY_A43.replace(FREED_PID, bare).encode())
    known = "SELECT tags FROM patient_demographics WHERE mrn = 'N7021'"
    assert "FREED^IDA" in hospital.rows(known)[0][0]


@pytest.mark.parametrize("trigger", ["A28", "A31", "A08"])
async def test_a_correction_alone_frees_no_number(hospital: Hospital, trigger: str) -> None:
    """It contradicts the survivor, needs a person, and changes nobody until a person decides."""
    await hospital.send(ordered(1, 800).encode())
    await hospital.send(MERGE.encode())
    await hospital.send(registered(trigger, "ADT_A05", 909, FREED_PID, "PV1|1|O").encode())
    assert hospital.last_message() == ("parked", "merge_contradicted")
    await hospital.send(ordered(2, 920).encode())
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert await patients(hospital) == {"A0201": SURVIVOR}
    await undo(hospital, "N7021")
    assert await patients(hospital) == {"A0201": FREED, "A0202": FREED}
    assert hospital.states() == {"done"}


NEWBORN = Person(IDA.mrn, "NEWBORN^OTTO", "20261101", "M")
MOVED_BACK = event("A43", IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r")


@pytest.mark.parametrize("trigger", ["A28", "A31", "A08", "A04"])
@pytest.mark.parametrize("early", [False, True], ids=["", "before the undo"])
async def test_a_freed_number_is_given_to_a_newborn(
    hospital: Hospital, trigger: str, early: bool
) -> None:
    """The old order keeps its name, and the newborn's messages wait for a person."""
    correction = event(trigger, NEWBORN.pid(), "PV1|1|O\r")
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    messages = [MOVED_BACK, correction]
    for message in reversed(messages) if early else messages:
        await hospital.send(message)
    await hospital.send(order(NEWBORN, "2"))
    await hospital.applied()
    assert await patients(hospital) == {"F1": IDAS}
    parked = hospital.rows("SELECT code FROM message WHERE state = 'parked' ORDER BY id")
    assert parked == [("number_reused",), ("patient_name_mismatch",)]
    assert ("message", "number_reused") in exceptions(hospital)


async def test_a_freed_number_without_orders_is_a_newborns(hospital: Hospital) -> None:
    await hospital.send(merge(EVA, IDA))
    await hospital.send(MOVED_BACK)
    await hospital.send(event("A28", NEWBORN.pid()))
    await hospital.send(order(NEWBORN, "2"))
    assert await patients(hospital) == {"F2": (NEWBORN.mrn, NEWBORN.name)}


@pytest.mark.parametrize(
    "corrections",
    [
        [Person(IDA.mrn, "MARRIED^IDA", IDA.birth)],
        [Person(IDA.mrn, "FREEDE^IDALIA", IDA.birth)],
        [Person(IDA.mrn, IDA.name, "19610706"), Person(IDA.mrn, "MARRIED^ADA", "19610706")],
    ],
    ids=["married", "another name", "the birth date, then the name"],
)
async def test_the_person_of_a_freed_number_is_corrected(
    hospital: Hospital, corrections: list[Person]
) -> None:
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.send(MOVED_BACK)
    for person in corrections:
        await hospital.send(event("A31", person.pid()))
    assert await patients(hospital) == {"F1": (IDA.mrn, corrections[-1].name)}


async def undo(
    hospital: Hospital,
    number: str = IDA.mrn,
    *,
    include_signed: bool = False,
    keep: Sequence[str] = (),
) -> tuple[int, int]:
    """Undo a merge as an operator does."""
    patient = (SITE, number)
    with hospital.database.read() as connection:
        pointer = patient_records.merge_pointers(connection, [patient])[patient]
    choice = merges.choice_of(hospital.database, pointer, keep, include_signed=include_signed)
    parts = (hospital.database, hospital.client, pointer, StepWriter(), choice)
    done = await merges.undo_pointer(*parts)
    hospital.worker.notify()
    await hospital.applied()
    return done


async def test_visits_return(hospital: Hospital) -> None:
    """A merge moves the pointers of visits, and undoing it moves them back."""
    third = Person("7022", "THIRD^TEA", "19700101")
    visit = "PV1|1|O" + "|" * 17 + "V1\r"
    moved = event("A45", IDA.pid(), f"MRG|{third.mrn}^^^NORTH^MR||||V1\r", visit)
    onward = event("A45", third.pid(), f"MRG|{IDA.mrn}^^^NORTH^MR||||V2\r", visit)
    pointers = "SELECT prior_mrn, prior_number, mrn, number FROM visit_transfer ORDER BY 1, 2"
    await hospital.send(moved)
    await hospital.send(onward)
    before = hospital.rows(pointers)
    assert before == [("7021", "V2", "7022", "V1"), ("7022", "V1", "7021", "V1")]
    await hospital.send(merge(EVA, IDA))
    assert hospital.rows(pointers) != before
    await hospital.send(REPAIRS["A43"])
    assert hospital.rows(pointers) == before


async def test_a_visit_that_moved_since_the_merge_stays(hospital: Hospital) -> None:
    """An order that A45 gave to a third patient does not return to the freed number."""
    third = Person("7022", "THIRD^TEA", "19700101")
    visit = "PV1|1|O" + "|" * 17 + "V1\r"
    message = order(IDA, "1").decode().replace("ORC|", visit + "ORC|", 1).encode()
    await hospital.send(message)
    await hospital.send(merge(EVA, IDA))
    await hospital.send(event("A45", third.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR||||V1\r", visit))
    await hospital.send(REPAIRS["A43"])
    await hospital.send(merge(EVA, third))
    await hospital.send(merge(EVA, IDA))
    await hospital.send(REPAIRS["A43"])
    assert await patients(hospital) == {"F1": EVAS}


async def test_what_remains_of_a_moved_order_is_restored(hospital: Hospital) -> None:
    """The order's new patient and the number that it left are merged, and this is undone."""
    third = Person("7022", "THIRD^TEA", "19700101")
    visit = "PV1|1|O" + "|" * 17 + "V1\r"
    await hospital.send(order(IDA, "1").replace(b"ORC|", visit.encode() + b"ORC|", 1))
    await hospital.send(event("A45", EVA.pid(), f"MRG|{IDA.mrn}^^^NORTH^MR||||V1\r", visit))
    await hospital.send(merge(third, IDA))
    rows = (
        "SELECT mrn, state, kind, signal FROM bridge_order AS o"
        " LEFT JOIN order_signal AS s ON s.order_id = o.id ORDER BY 1, 3, 4"
    )
    before = hospital.rows(rows)
    assert {row[:2] for row in before} == {(EVA.mrn, "ordered"), (third.mrn, "cancelled")}
    await hospital.send(merge(EVA, third))
    assert {row[:2] for row in hospital.rows(rows)} == {(EVA.mrn, "ordered")}
    await hospital.send(event("A43", third.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
    assert hospital.rows(rows) == before


def failing(
    hospital: Hospital, *, after: bool
) -> Callable[..., Coroutine[Any, Any, UndoneMergeBody]]:
    """Let the next undo in the report engine fail, before or after the engine has made it."""
    real = hospital.client.undo_merge
    failures = [EngineFailure("/api/patient/unmerge", FailureKind.TRANSIENT, "unreachable")]

    async def call(
        site: str,
        mrn: str,
        prior_mrn: str,
        orders: Sequence[ReturnedOrder] = (),
        *,
        include_signed: bool = False,
    ) -> UndoneMergeBody:
        if failures and not after:
            raise failures.pop()
        done = await real(site, mrn, prior_mrn, orders, include_signed=include_signed)
        if failures:
            raise failures.pop()
        return done

    return call


async def prepared(hospital: Hospital) -> dict[str, tuple[str, str]]:
    """Merge two patients with orders in all states, and return whose they are if it is undone."""
    for number in "123":
        await hospital.send(order(IDA, number))
    await hospital.send(order(EVA, "0"))
    await hospital.send(merge(EVA, IDA))
    await hospital.read_and_sign("F2", "Normal.", EVA.mrn)
    await hospital.send(order(EVA, "3", "CA"))
    hospital.time.leap += 1000
    return {"F0": EVAS, "F1": IDAS, "F2": EVAS}


def index(hospital: Hospital) -> list[Any]:
    return hospital.rows("SELECT accession, mrn, state FROM bridge_order ORDER BY 1, 2")


RETURNED = [
    ("F0", "7020", "ordered"),
    ("F1", "7021", "ordered"),
    ("F2", "7020", "ordered"),
    ("F3", "7021", "cancelled"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("by", ["A43", "operator"])
async def test_a_fault_between_engine_and_bridge(hospital: Hospital, by: str, after: bool) -> None:
    """The undo is repeated, and ends as if nothing had happened."""
    expected = await prepared(hospital)
    hospital.client.undo_merge = failing(hospital, after=after)  # type: ignore[method-assign]
    if by == "A43":
        await hospital.hand_over(REPAIRS["A43"])
        await eventually_async(lambda: hospital.states() == {"done"})
    else:
        with pytest.raises(EngineFailure):
            await undo(hospital)
        assert await undo(hospital) == (2, 1)
    assert await patients(hospital) == expected
    assert index(hospital) == RETURNED


async def test_messages_wait_while_an_operator_undoes_a_merge(hospital: Hospital) -> None:
    """Neither the survivor's nor the freed person's messages are applied to a half-moved order."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    real, begun, end = hospital.client.undo_merge, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any, **options: Any) -> UndoneMergeBody:
        begun.set()
        await end.wait()
        return await real(*arguments, **options)

    hospital.client.undo_merge = slow  # type: ignore[method-assign]
    undoing = asyncio.create_task(undo(hospital))
    await begun.wait()
    await hospital.hand_over(order(EVA, "1", "XO"))
    await hospital.hand_over(order(IDA, "2"))
    waiting = "SELECT count(*) FROM message WHERE state = 'queued' AND code = 'merge_being_undone'"
    await eventually_async(lambda: hospital.rows(waiting) == [(2,)])
    end.set()
    assert await undoing == (1, 0)
    await hospital.applied()
    rows = hospital.rows("SELECT state, code FROM message ORDER BY id DESC LIMIT 2")
    assert rows == [("done", ""), ("parked", "patient_conflict")]
    assert await patients(hospital) == {"F1": IDAS, "F2": IDAS}


async def test_an_undo_waits_for_messages_that_are_being_applied(hospital: Hospital) -> None:
    """A late order that is just being registered for the survivor returns, too."""
    maiden = Person(IDA.mrn, "MAIDEN^EVA", EVA.birth)
    await hospital.send(order(maiden, "1"))
    await hospital.send(merge(EVA, maiden))
    real, begun, end = hospital.client.launch, asyncio.Event(), asyncio.Event()

    async def slow(launch: Any) -> Any:
        begun.set()
        await end.wait()
        return await real(launch)

    hospital.client.launch = slow  # type: ignore[method-assign]
    await hospital.hand_over(order(maiden, "2"))
    await begun.wait()
    undoing = asyncio.create_task(undo(hospital))
    begins = "SELECT count(*) FROM merge_undo"
    await eventually_async(lambda: hospital.rows(begins) == [(1,)])
    end.set()
    assert await undoing == (2, 0)
    assert await patients(hospital) == dict.fromkeys(("F1", "F2"), (IDA.mrn, maiden.name))
    assert exceptions(hospital) == {("order", "merge_undone")}
    assert hospital.rows(begins) == [(0,)]


@pytest.mark.parametrize("fault", ["", "repeated", "completed"])
async def test_an_operator_chooses_which_orders_return(hospital: Hospital, fault: str) -> None:
    """The others stay with the survivor for good, also if the undo is interrupted."""
    for number in "123":
        await hospital.send(order(IDA, number))
    await hospital.send(merge(EVA, IDA))
    with pytest.raises(merges.NoSuchMergedOrder):
        await undo(hospital, keep=["F1", "F9"])
    if fault:
        hospital.client.undo_merge = failing(hospital, after=True)  # type: ignore[method-assign]
        with pytest.raises(EngineFailure):
            await undo(hospital, keep=["F2"])
    if fault == "completed":
        parts = (hospital.database, hospital.client, StepWriter())
        assert await merges.complete_undos(*parts, hospital.time() + 60_001) == 1
    else:
        assert await undo(hospital, keep=[] if fault else ["F2"]) == (2, 1)
    expected = {"F1": IDAS, "F2": EVAS, "F3": IDAS}
    assert await patients(hospital) == expected
    assert exceptions(hospital) == {("order", "merge_undone")}
    await hospital.send(order(IDA, "2", "XO"))
    assert hospital.last_message() == ("parked", "patient_conflict")
    await hospital.send(order(IDA, "4"))
    assert await patients(hospital) == {**expected, "F4": IDAS}
    await hospital.send(merge(EVA, IDA))
    await undo(hospital)
    assert await patients(hospital) == {**expected, "F4": IDAS}


@pytest.mark.parametrize("fault", ["", "completed"])
async def test_an_operator_returns_what_a_message_left(hospital: Hospital, fault: str) -> None:
    """A43 leaves a signed order with the survivor. It returns as it was, also after a fault."""
    await prepared(hospital)
    before = hospital.rows("SELECT accession, mrn FROM bridge_order WHERE accession = 'F2'")
    await hospital.send(MOVED_BACK)
    assert (await patients(hospital))["F2"] == EVAS
    assert before == hospital.rows("SELECT accession, mrn FROM bridge_order WHERE accession = 'F2'")
    left = merges.find_to_undo(hospital.database, IDA.mrn, SITE)
    parts = (
        hospital.database,
        hospital.client,
        left,
        StepWriter(),
        UndoChoice(include_signed=True),
    )
    if fault:
        hospital.client.undo_merge = failing(hospital, after=True)  # type: ignore[method-assign]
        with pytest.raises(EngineFailure):
            await merges.undo_pointer(*parts)
        again = (hospital.database, hospital.client, StepWriter(), hospital.time() + 60_001)
        assert await merges.complete_undos(*again) == 1
    else:
        assert await merges.undo_pointer(*parts) == (1, 0)
    assert await patients(hospital) == {"F0": EVAS, "F1": IDAS, "F2": IDAS}
    ((tags, signal),) = hospital.rows(
        "SELECT tags, s.kind FROM bridge_order AS o LEFT JOIN order_signal AS s"
        " ON s.order_id = o.id AND s.kind = 'merged_from' WHERE accession = 'F2'"
    )
    assert IDA.name in tags
    assert signal is None
    with pytest.raises(merges.NoSuchMerge):
        merges.find_to_undo(hospital.database, IDA.mrn, SITE)
    await hospital.send(merge(EVA, IDA))
    await hospital.send(MOVED_BACK.replace(b"|S", b"|AGAIN", 1))
    assert await patients(hospital) == {"F0": EVAS, "F1": IDAS, "F2": IDAS}


async def test_the_history_of_undone_merges_ends(hospital: Hospital) -> None:
    """Entries of undone merges are deleted after a time, those of merges in force are not."""
    await prepared(hospital)
    await undo(hospital)
    await hospital.send(merge(EVA, Person("7022", "THIRD^TEA", "19700101")))
    history = "SELECT prior_mrn FROM identifier_change ORDER BY id"
    assert hospital.rows(history) == [("7021",), ("7022",)]
    identifier_changes.delete_old(hospital.database, hospital.time() + 1000)
    assert hospital.rows(history) == [("7022",)]


async def test_an_interrupted_undo_is_completed(hospital: Hospital) -> None:
    """As its operator wanted it, once, and the messages that waited are applied."""
    await prepared(hospital)
    hospital.client.undo_merge = failing(hospital, after=True)  # type: ignore[method-assign]
    with pytest.raises(EngineFailure):
        await undo(hospital, include_signed=True)
    await hospital.hand_over(order(IDA, "4"))
    parts = (hospital.database, hospital.client, StepWriter())
    assert await merges.complete_undos(*parts, hospital.time()) == 0  # it may be running
    later = hospital.time() + patient_records.UNDO_ENDS_AFTER_MS
    assert [await merges.complete_undos(*parts, later) for _ in range(2)] == [1, 0]
    await hospital.applied()
    assert await patients(hospital) == {"F0": EVAS, "F1": IDAS, "F2": IDAS, "F4": IDAS}
    assert hospital.rows("SELECT * FROM merge_undo") == []


async def test_an_undo_that_ends_halfway_holds_messages_for_some_time(hospital: Hospital) -> None:
    """Messages wait for the repetition, not for ever."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    hospital.client.undo_merge = failing(hospital, after=True)  # type: ignore[method-assign]
    with pytest.raises(EngineFailure):
        await undo(hospital)
    await hospital.hand_over(order(EVA, "2"))
    waiting = "SELECT count(*) FROM message WHERE state = 'queued' AND code = 'merge_being_undone'"
    await eventually_async(lambda: hospital.rows(waiting) == [(1,)])
    hospital.time.leap += patient_records.UNDO_ENDS_AFTER_MS
    await hospital.applied()
    assert hospital.last_message() == ("done", "")
