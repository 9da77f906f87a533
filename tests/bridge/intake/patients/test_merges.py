"""Merges of patients: chains, circles, late messages, and merges that are undone."""

from dataclasses import dataclass, replace

import pytest

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.queue.arrivals import lane
from bridge.store.database import Database
from bridge.store.records import patient_records
from config.listeners import MergedPatients
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import IDS, adt, order_group, order_message

NAME = "TESTER^TILDA"


async def owners(hospital: Hospital) -> dict[str, str]:
    """Return the patient of each report. Assert that the order index is equal."""
    rows = (await hospital.client.worklist(SITE)).items
    keys = [listed for row in rows for listed in row["clinicalInfo"]]
    found = {key["Accession"]: key["PatientMRN"] for key in keys}
    index = hospital.rows("SELECT accession, mrn FROM bridge_order WHERE state = 'ordered'")
    assert sorted(found.items()) == sorted(index)
    return found


async def test_every_merge(hospital: Hospital) -> None:
    """Each event that merges or renumbers moves the orders of the old number."""
    events = ("A18", "A30", "A34", "A36", "A39", "A40", "A46", "A47")
    for event in events:
        await hospital.send(order_message(order_group("NW", "P" + event, event), mrn="OLD" + event))
        await hospital.send(adt(event, "NEW" + event, "OLD" + event))
    assert await owners(hospital) == {event: "NEW" + event for event in events}


async def test_a_number_of_another_patient(hospital: Hospital) -> None:
    """A47 to a number of another patient is parked until a correction arrives."""
    other = "SMITH^BOB"
    await hospital.send(order_message(order_group("NW", "P1", "F1")))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), mrn="M2", name=other))
    await hospital.send(adt("A47", "M2", "M1"))
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
    assert await owners(hospital) == {"F1": "M1", "F2": "M2"}
    rows = (await hospital.client.worklist(SITE)).items
    names = {listed["Accession"]: listed["PatientName"] for row in rows for listed in row["orders"]}
    assert names == {"F1": NAME, "F2": other}
    await hospital.send(adt("A08", "M2"))  # the same patient under a wrong name
    await hospital.applied()
    assert await owners(hospital) == {"F1": "M2", "F2": "M2"}


async def test_orders_under_the_new_number_arrive_first(hospital: Hospital) -> None:
    """The former name identifies the patient, although A47 has a newer name."""
    for mrn in ("M1", "M2"):
        await hospital.send(order_message(order_group("NW", "P" + mrn, "F" + mrn), mrn=mrn))
    await hospital.send(adt("A47", "M2", "M1", name="MARRIED^TILDA"))
    assert await owners(hospital) == {"FM1": "M2", "FM2": "M2"}


async def test_several_prior_numbers(hospital: Hospital) -> None:
    """MRG-1 has two retired numbers, and the orders of both move."""
    for mrn in ("M1", "M2"):
        await hospital.send(order_message(order_group("NW", "P" + mrn, "F" + mrn), mrn=mrn))
    await hospital.send(adt("A40", "M3^^^MAIN^MR", "M1^^^MAIN^MR~M2^^^MAIN^MR"))
    assert await owners(hospital) == {"FM1": "M3", "FM2": "M3"}


async def test_a_chain_of_merges(hospital: Hospital) -> None:
    """After a chain of merges all orders are the last survivor's, for each number of a message."""
    for mrn in ("M1", "M2", "M3"):
        await hospital.send(order_message(order_group("NW", "P" + mrn, "F" + mrn), mrn=mrn))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(adt("A40", "M3", "M2"))
    await hospital.send(order_message(order_group("NW", "P4", "F4"), mrn="M1"))
    await hospital.send(adt("A40", "M2", "M0"))  # into a merged patient
    await hospital.send(order_message(order_group("NW", "P5", "F5"), mrn="M0"))
    accessions = ["FM1", "FM2", "FM3", "F4", "F5"]
    assert await owners(hospital) == dict.fromkeys(accessions, "M3")


async def test_a_circle_is_refused(hospital: Hospital) -> None:
    """A merge that closes a circle is parked, and changes nothing."""
    await hospital.send(order_message(order_group("NW", "P1", "F1")))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(adt("A40", "M1", "M2"))
    assert hospital.last_message() == ("parked", "merge_cycle")
    assert await owners(hospital) == {"F1": "M2"}


async def test_a_repeated_merge(hospital: Hospital) -> None:
    """A repeated merge changes nothing."""
    await hospital.send(order_message(order_group("NW", "P1", "F1")))
    for _ in range(2):
        await hospital.send(adt("A40", "M2", "M1"))
    assert hospital.last_message() == ("done", "")
    assert await owners(hospital) == {"F1": "M2"}


async def test_late_messages_are_about_the_survivor(hospital: Hospital) -> None:
    """Changes, cancellations and demographics with the old number apply to the survivor."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), order_group("NW", "P2", "F2")))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(order_message(order_group("XO", "P1", "F1", what="CT Neck"), mrn="M1"))
    await hospital.send(order_message(order_group("CA", "P2", "F2"), mrn="M1"))
    await hospital.send(adt("A08", "M1", name="TESTER^THEA"))
    assert await owners(hospital) == {"F1": "M2"}
    (row,) = (await hospital.client.worklist(SITE)).items
    assert row["orders"][0]["StudyDescription"] == "CT Neck"
    assert "THEA" in row["orders"][0]["PatientName"]


async def test_several_pairs(hospital: Hospital) -> None:
    """A40 with three pairs merges all, and applies the waiting messages of each."""
    for mrn in ("O1", "O2", "O3"):
        await hospital.send(order_message(order_group("NW", "P" + mrn, "F" + mrn), mrn=mrn))
    pairs = [f"PID|1||N{n}||{NAME}||19700101|F\rMRG|O{n}\r" for n in (1, 2, 3)]
    head = adt("A40", "X").split(b"PID|")[0]
    late = order_message(order_group("NW", "P9", "F9"), mrn="O3")
    await hospital.hand_over(head + "".join(pairs).encode())
    await hospital.hand_over(late)
    await hospital.applied()
    assert await owners(hospital) == {"FO1": "N1", "FO2": "N2", "FO3": "N3", "F9": "N3"}


async def test_the_old_number_may_be_refused(hospital: Hospital) -> None:
    """A listener without redirects parks late messages, and applies merges."""
    listening = replace(ListenerPolicy("ris", inbound(), site=SITE), merged=MergedPatients.REFUSE)
    hospital.use(listening)
    await hospital.send(order_message(order_group("NW", "P1", "F1")))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(order_message(order_group("XO", "P1", "F1"), mrn="M1"))
    assert hospital.last_message() == ("parked", "patient_merged")
    await hospital.send(adt("A40", "M3", "M2"))
    assert await owners(hospital) == {"F1": "M3"}


def test_pointers_never_chain(database: Database) -> None:
    """Each identifier points to the last survivor. A circle changes nothing."""
    with database.write() as connection:
        assert patient_records.merge(connection, SITE, "A", "B") == "B"
        assert patient_records.merge(connection, SITE, "B", "C") == "C"
        assert patient_records.merge(connection, SITE, "D", "A") == "C"
        assert patient_records.merge(connection, SITE, "C", "A") == "C"
        assert patient_records.merge(connection, "SITE2", "A", "Z") == "Z"
    with database.read() as connection:
        everybody = [(SITE, item) for item in "ABCD"] + [("SITE2", "A")]
        found = patient_records.survivors(connection, everybody)
    assert found == {(SITE, item): "C" for item in "ABD"} | {("SITE2", "A"): "Z"}


@pytest.mark.parametrize(("cancelled", "left"), [(20, []), (5, ["F1"])])
@pytest.mark.parametrize("by", ["M1", "M2"])
async def test_cancelled_under_the_other_identifier(
    hospital: Hospital, by: str, cancelled: int, left: list[str]
) -> None:
    """An order cancelled before the merge stays cancelled, on any path of the messages."""
    order = "M1" if by == "M2" else "M2"
    await hospital.send(order_message(order_group("NW", "P1", "F1"), mrn=order, sent=10))
    await hospital.send(order_message(order_group("CA", "P1", "F1"), mrn=by, sent=cancelled))
    for _ in range(2):
        await hospital.send(adt("A40", "M2", "M1"))
        assert await owners(hospital) == dict.fromkeys(left, "M2")


async def test_two_identifiers_are_one_patient(hospital: Hospital) -> None:
    """Concurrent messages under both identifiers are applied one after the other."""
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.worker.stop()
    await hospital.hand_over(order_message(order_group("NW", "P1", "F1"), mrn="M1", sent=2))
    await hospital.hand_over(order_message(order_group("CA", "P1", "F1"), mrn="M2", sent=3))
    await hospital.worker.start()
    await hospital.applied()
    assert await owners(hospital) == {}


async def test_one_study_under_two_identifiers(hospital: Hospital) -> None:
    """One study ordered under two identifiers is one report, at any time of the merge."""
    study = "ZDS|1.2.3.4^RIS^Application^DICOM\r"
    await hospital.send(order_message(order_group("NW", "P1", "F1") + study, mrn="M1"))
    await hospital.send(order_message(order_group("NW", "P2", "F2") + study, mrn="M2"))
    await hospital.send(order_message(order_group("NW", "P3", "F3"), mrn="M1"))
    await hospital.send(adt("A40", "M2", "M1"))
    rows = (await hospital.client.worklist(SITE)).items
    groups = [{listed["Accession"] for listed in row["clinicalInfo"]} for row in rows]
    assert sorted(groups, key=len) == [{"F3"}, {"F1", "F2"}]
    (reports,) = zip(*hospital.rows("SELECT DISTINCT report_id FROM bridge_order"), strict=True)
    assert sorted(reports) == sorted(row["reportId"] for row in rows)


async def test_two_lanes_after_a_merge(hospital: Hospital) -> None:
    """A message under the old number also waits in the survivor's lane."""
    await hospital.send(order_message(order_group("NW", "P1", "F1")))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(order_message(order_group("XO", "P1", "F1"), mrn="M1"))
    lanes = hospital.rows("SELECT lane_1, lane_2, state FROM message ORDER BY id DESC LIMIT 1")
    assert lanes == [(lane(f"{SITE}|M1"), lane(f"{SITE}|M2"), "done")]


@dataclass(frozen=True)
class Person:
    mrn: str
    name: str
    birth: str
    sex: str = "F"

    def pid(self, mrn: str = "") -> str:
        return f"PID|1||{mrn or self.mrn}^^^NORTH^MR||{self.name}||{self.birth}|{self.sex}\r"


EVA = Person("7020", "SURVIVOR^EVA", "19800203")
IDA = Person("7021", "FREED^IDA", "19610607")
PEOPLE = {
    "another name and birth date": IDA,
    "the same name": Person("7021", "SURVIVOR^EVA", "19610607"),
    "a twin": Person("7021", "SURVIVOR^ADA", "19800203"),
    "another sex": Person("7021", "SURVIVOR^EVA", "19800203", "M"),
    "no birth date": Person("7021", "FREED^IDA", ""),
}


def order(person: Person, number: str, control: str = "NW", mrn: str = "") -> bytes:
    """Build an order message about a person."""
    message = order_message(order_group(control, "P" + number, "F" + number))
    head, _, rest = message.decode().partition("PID|")
    return (head + person.pid(mrn) + rest.partition("\r")[2]).encode()


def event(trigger: str, *segments: str) -> bytes:
    head = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ADT^{trigger}|S{next(IDS)}|P|2.5.1\r"
        f"EVN|{trigger}|20261121\r"
    )
    return (head + "".join(segments)).encode()


def merge(survivor: Person, prior: Person) -> bytes:
    named = f"MRG|{prior.mrn}^^^NORTH^MR||||||{prior.name}\r"
    return event("A40", survivor.pid(), named)


async def patients(hospital: Hospital) -> dict[str, tuple[str, str]]:
    rows = (await hospital.client.worklist(SITE)).items
    found = {
        listed["Accession"]: (listed["PatientMRN"], listed["PatientName"])
        for row in rows
        for listed in row["orders"]
    }
    index = hospital.rows("SELECT accession, mrn FROM bridge_order WHERE state = 'ordered'")
    assert sorted((order, mrn) for order, (mrn, _) in found.items()) == sorted(index)
    return found


def exceptions(hospital: Hospital) -> set[tuple[str, str]]:
    return {*hospital.rows("SELECT kind, code FROM exception")}


REPAIRS = {
    "A43": event("A43", IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"),
    "A43 without types": event("A43", "PID|1||7021||FREED^IDA||19610607|F\r", "MRG|7020\r"),
    "A37": event("A37", EVA.pid(), "PV1|1|O\r", IDA.pid()),
    "A37, the other one first": event("A37", IDA.pid(), EVA.pid()),
}


@pytest.mark.parametrize("repair", REPAIRS)
async def test_a_repair_gives_the_number_back(hospital: Hospital, repair: str) -> None:
    """Later orders are those of their own patient, and so is the order that the merge moved."""
    await hospital.send(order(EVA, "0"))
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    assert await patients(hospital) == dict.fromkeys(("F0", "F1"), (EVA.mrn, EVA.name))
    await hospital.send(REPAIRS[repair])
    assert hospital.last_message() == ("done", "merge_undone")
    await hospital.send(order(IDA, "2"))
    await hospital.send(order(EVA, "3"))
    assert hospital.states() == {"done"}
    eva, ida = (EVA.mrn, EVA.name), (IDA.mrn, IDA.name)
    assert await patients(hospital) == {"F0": eva, "F1": ida, "F2": ida, "F3": eva}
    assert exceptions(hospital) == {("message", "merge_undone"), ("order", "merge_undone")}


@pytest.mark.parametrize("person", PEOPLE)
async def test_an_order_of_another_person_waits_for_the_repair(
    hospital: Hospital, person: str
) -> None:
    """The order is an exception. After the repair it is applied to its own patient."""
    freed = PEOPLE[person]
    await hospital.send(order(freed, "1"))
    await hospital.send(merge(EVA, freed))
    await hospital.send(order(freed, "2"))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert ("message", "merge_contradicted") in exceptions(hospital)
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}
    await hospital.send(event("A43", freed.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
    await hospital.applied()
    assert (await patients(hospital))["F2"] == (freed.mrn, freed.name)
    assert hospital.states() == {"done"}


async def test_the_last_merge_of_a_chain_says_who_the_survivor_is(hospital: Hospital) -> None:
    """Her order with her second number waits when her own number was merged into another person."""
    second = replace(EVA, mrn="7022")
    await hospital.send(order(second, "1"))
    await hospital.send(merge(EVA, second))
    await hospital.send(order(second, "2"))
    await hospital.send(merge(IDA, EVA))
    await hospital.send(order(second, "3"))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert await patients(hospital) == dict.fromkeys(("F1", "F2"), (IDA.mrn, IDA.name))


@pytest.mark.parametrize("control", ["XO", "CA", "SC"])
async def test_a_change_of_another_person(hospital: Hospital, control: str) -> None:
    """A change or cancellation of the freed person does not reach the survivor's orders."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    await hospital.send(order(IDA, "1", control))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}


@pytest.mark.parametrize("trigger", ["A28", "A31", "A08", "A01"])
@pytest.mark.parametrize("person", ["another name and birth date", "the same name", "a twin"])
async def test_a_correction_of_another_person(
    hospital: Hospital, trigger: str, person: str
) -> None:
    """A correction with the freed number does not rename the survivor."""
    freed = PEOPLE[person]
    await hospital.send(order(freed, "1"))
    await hospital.send(merge(EVA, freed))
    await hospital.send(event(trigger, freed.pid()))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}


async def test_a_visit_that_moves_back_waits_for_the_repair(hospital: Hospital) -> None:
    """A45 to the merged number does not say whose the other orders are: it needs a person."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    back = f"MRG|{EVA.mrn}^^^NORTH^MR||||V1\r"
    await hospital.send(event("A45", IDA.pid(), back, "PV1|1|O" + "|" * 17 + "V1\r"))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}
    await hospital.send(REPAIRS["A43"])
    await hospital.applied()
    assert hospital.states() == {"done"}
    assert await patients(hospital) == {"F1": (IDA.mrn, IDA.name)}


async def test_new_numbers_and_merges_back_are_never_silent(hospital: Hospital) -> None:
    """A46, A47 and A40 back to the merged number are parked, and change nothing."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    for trigger in ("A46", "A47", "A40"):
        await hospital.send(event(trigger, IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
        assert hospital.last_message()[0] == "parked", trigger
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}


async def test_a_married_duplicate_stays_merged(hospital: Hospital) -> None:
    """Late orders under the former number and family name are still the survivor's."""
    maiden = Person("7021", "MAIDEN^EVA", EVA.birth)
    await hospital.send(order(maiden, "1"))
    await hospital.send(merge(EVA, maiden))
    await hospital.send(order(maiden, "2"))
    assert await patients(hospital) == dict.fromkeys(("F1", "F2"), (EVA.mrn, EVA.name))
    assert exceptions(hospital) == set()


async def test_one_merge_of_a_chain_is_undone(hospital: Hospital) -> None:
    """A number that was merged into the freed one leads to the freed one again."""
    old = Person("7029", IDA.name, IDA.birth)
    await hospital.send(merge(IDA, old))
    await hospital.send(merge(EVA, IDA))
    await hospital.send(REPAIRS["A43"])
    await hospital.send(order(old, "1"))
    await hospital.send(order(IDA, "2"))
    assert await patients(hospital) == dict.fromkeys(("F1", "F2"), (IDA.mrn, IDA.name))


async def test_a_moved_identifier_without_a_merge(hospital: Hospital) -> None:
    """A43 between known patients needs a person. A37 of patients who were never merged does not."""
    await hospital.send(event("A43", IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
    assert hospital.last_message() == ("done", "")
    await hospital.send(order(EVA, "1"))
    await hospital.send(REPAIRS["A37"])
    assert hospital.last_message() == ("done", "")
    await hospital.send(event("A43", IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
    assert hospital.last_message() == ("done", "identifier_moved")
    assert await patients(hospital) == {"F1": (EVA.mrn, EVA.name)}


async def test_a_repair_that_is_repeated(hospital: Hospital) -> None:
    """The second one changes nothing, and says that it did not."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    for _ in range(2):
        await hospital.send(event("A43", IDA.pid(), f"MRG|{EVA.mrn}^^^NORTH^MR\r"))
    assert hospital.last_message() == ("done", "identifier_moved")
