"""Merges of two people by mistake: until and after they are undone, nobody gets another's data."""

from dataclasses import dataclass

import pytest

from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import IDS, order_group, order_message


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
        each["Accession"]: (each["PatientMRN"], each["PatientName"])
        for row in rows
        for each in row["orders"]
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
    """Later orders are those of their own patient. The moved order stays, and is an exception."""
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
    assert await patients(hospital) == {"F0": eva, "F1": eva, "F2": ida, "F3": eva}
    assert exceptions(hospital) == {("message", "merge_undone"), ("order", "merge_undone")}
    moved = hospital.rows(
        "SELECT accession FROM bridge_order AS o JOIN exception AS e ON e.row_id = o.id"
        " WHERE e.kind = 'order'"
    )
    assert moved == [("F1",)]


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


async def test_a_merge_is_undone_by_moves_of_visits_and_by_new_numbers_never_silently(
    hospital: Hospital,
) -> None:
    """A45 and A47 back to the former number are not applied, and need a person."""
    await hospital.send(order(IDA, "1"))
    await hospital.send(merge(EVA, IDA))
    back = f"MRG|{EVA.mrn}^^^NORTH^MR||||V1\r"
    await hospital.send(event("A45", IDA.pid(), back, "PV1|1|O" + "|" * 17 + "V1\r"))
    assert hospital.last_message() == ("parked", "merge_contradicted")
    for trigger in ("A46", "A47", "A40"):
        await hospital.send(event(trigger, IDA.pid(), back))
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
