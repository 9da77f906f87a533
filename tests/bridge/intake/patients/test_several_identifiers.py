"""Messages with several numbers of one type in PID-3: they are about one person."""

import pytest

from bridge.intake.receive.patient_check import merged_patient_check
from bridge.orders.patients import DemographicsUpdate
from bridge.store.database import Database
from bridge.store.records import patient_records
from mappings.hl7.refusals import AckCode
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.fixture import LISTENING, open_intake, order
from tests.bridge.intake.messages import adt, order_group, order_message

OLD, KEPT, OTHER = (f"{number}^^^NORTH^MR" for number in ("O1", "K1", "X1"))
NAME = "TWICE^TINA"


async def owners(hospital: Hospital) -> dict[str, str]:
    rows = (await hospital.client.worklist(SITE)).items
    return {
        listed["Accession"]: listed["PatientMRN"] for row in rows for listed in row["clinicalInfo"]
    }


async def prepare(hospital: Hospital) -> None:
    """Merge O1 into K1. X1 is another patient, and Z9 nobody."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), mrn=OLD, name=NAME))
    await hospital.send(adt("A40", KEPT, OLD, name=NAME))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), mrn=OTHER, name="ROE^OLGA"))


@pytest.mark.parametrize(
    "identifiers",
    [
        *(f"{OLD}~{KEPT}", f"{KEPT}~{OLD}", f"{KEPT}~{KEPT}", f"{KEPT}~Z9^^^NORTH^MR"),
        *(f"{KEPT}~X1^^^SOUTH^MR", f"{KEPT}~X1^^^NORTH^PI", f"{KEPT}~X1", "K1~X1"),
        f"777^^^GOV^SS~{OLD}~{KEPT}",
    ],
)
async def test_numbers_of_one_patient(hospital: Hospital, identifiers: str) -> None:
    """The order is the survivor's, whatever the order of the numbers."""
    await prepare(hospital)
    message = order_message(order_group("NW", "P3", "F3"), mrn=identifiers, name=NAME)
    await hospital.send(message)
    assert hospital.states() == {"done"}
    assert await owners(hospital) == {"F1": "K1", "F2": "X1", "F3": "K1"}


@pytest.mark.parametrize(
    "identifiers",
    [
        *(f"{KEPT}~{OTHER}", f"{OTHER}~{KEPT}", f"{OLD}~{OTHER}", f"{KEPT}~{OLD}~{OTHER}"),
        *(f"{KEPT}~{OTHER}~Z9^^^NORTH^MR", f"Z9^^^NORTH^MR~{KEPT}~{OTHER}"),
        *("K1^^^NORTH~X1^^^NORTH", "K1^^^NORTH&1.2&ISO~X1^^^NORTH&1.2&ISO"),
        *("K1^^^^MR~X1^^^NORTH^MR", "K1^^^NORTH^MR~X1^^^north&1.2&ISO^MR", "K1^^^^PI~X1^^^^PI"),
    ],
)
@pytest.mark.parametrize("kind", ["NW", "XO", "A08"])
async def test_numbers_of_two_patients(hospital: Hospital, identifiers: str, kind: str) -> None:
    """The message is not applied to either of them, and needs a person."""
    await prepare(hospital)
    message = (
        adt(kind, identifiers, name="GUESSED^BY NAME")
        if kind == "A08"
        else order_message(order_group(kind, "P3", "F3"), mrn=identifiers, name=NAME)
    )
    await hospital.send(message)
    assert hospital.last_message() == ("parked", "several_patients")
    assert hospital.rows("SELECT code FROM exception") == [("several_patients",)]
    assert await owners(hospital) == {"F1": "K1", "F2": "X1"}


NEW = "Z9^^^NORTH^MR"


@pytest.mark.parametrize("identifiers", [f"{NEW}~{KEPT}", f"{NEW}~{OLD}", f"{NEW}~{OLD}~{KEPT}"])
async def test_a_new_number_before_a_known_one(hospital: Hospital, identifiers: str) -> None:
    """Each message is the known patient's, and not only the first one."""
    await prepare(hospital)
    for control in ("NW", "NW", "XO"):
        group = order_group(control, "P3", "F3", what=control)
        await hospital.send(order_message(group, mrn=identifiers, name=NAME))
    await hospital.send(adt("A08", identifiers, name=NAME + "^TESS"))
    await hospital.send(order_message(order_group("NW", "P4", "F4"), mrn=NEW, name="NEW^NINA"))
    assert hospital.states() == {"done"}
    assert await owners(hospital) == {"F1": "K1", "F2": "X1", "F3": "K1", "F4": "Z9"}
    assert (await hospital.descriptions())["F3"] == "XO"


@pytest.mark.parametrize("kind", ["NW", "XO", "A08"])
async def test_a_new_number_of_another_person(hospital: Hospital, kind: str) -> None:
    """The message is neither the known patient's nor a new one's."""
    await prepare(hospital)
    identifiers = f"{NEW}~{OTHER}"
    message = (
        adt(kind, identifiers, name=NAME).replace(b"19700101", b"19800101")
        if kind == "A08"
        else order_message(order_group(kind, "P3", "F3"), mrn=identifiers, name=NAME)
    )
    await hospital.send(message)
    assert hospital.last_message() == ("parked", "several_patients")
    assert await owners(hospital) == {"F1": "K1", "F2": "X1"}


async def test_a_merge_of_both_explains_it(hospital: Hospital) -> None:
    """The message is applied when the two patients are one."""
    await prepare(hospital)
    both = order_message(order_group("NW", "P3", "F3"), mrn=f"{KEPT}~{OTHER}", name=NAME)
    await hospital.send(both)
    await hospital.send(adt("A40", f"{KEPT}~{OTHER}", OTHER, name=NAME))
    await hospital.applied()
    assert await owners(hospital) == dict.fromkeys(("F1", "F2", "F3"), "K1")


FREED = {
    "two patient groups": [(f"{OLD}~S1^^^SOUTH^MR", f"{KEPT}~S8^^^SOUTH^MR"), ("O2", "K2")],
    "a list of numbers": [(f"Z9^^^NORTH^MR~O4^^^NORTH^MR~{OLD}", KEPT), ("O2", "K2")],
    "of several patients": [(OLD, f"{KEPT}~Z9^^^NORTH^MR"), ("O4", KEPT), ("O2", "K2")],
    "merged into another number": [(f"{OLD}~O3^^^NORTH^MR~O4^^^NORTH^MR", KEPT), ("O2", "K2")],
    "in another order": [(f"O4^^^NORTH^MR~O3^^^NORTH^MR~{OLD}", KEPT), ("O2", "K2")],
}


@pytest.mark.parametrize("case", FREED)
async def test_each_number_is_freed(hospital: Hospital, case: str) -> None:
    """
    A43 with several patients, and several numbers of several authorities of each.

    O1 was merged into O3, and O3 and O4 into K1; O2 into K2. S1 was merged into S8, numbers of an
    authority that the definition does not use: they stay. O1 stays merged into O3 if both belong to
    the patient in PID-3.
    """
    for mrn in ("O1", "O2", "O3", "O4", "S1"):
        group = order_group("NW", f"P{mrn}", f"F{mrn}")
        await hospital.send(order_message(group, mrn=mrn, name=f"OWN^{mrn}"))
    merges = (("O3", "O1"), ("K2", "O2"), ("K1", "O3"), ("K1", "O4"), ("S8", "S1"))
    for mrn, prior in merges:
        await hospital.send(adt("A40", mrn, prior, name=f"SURVIVOR^{mrn}"))
    merged = {"FO1": "K1", "FO2": "K2", "FO3": "K1", "FO4": "K1", "FS1": "S8"}
    assert await owners(hospital) == merged
    groups = "".join(
        f"PID|{place}||{numbers}|||||F\rMRG|{prior}\r"
        for place, (numbers, prior) in enumerate(FREED[case], 1)
    )
    head = adt("A43", "X").split(b"PID|")[0].replace(b"ADT^A43", b"ADT^A43^ADT_A43")
    await hospital.send(head + groups.encode())
    with_o3 = "O3^^^" in FREED[case][0][0]
    o4 = "K1" if case == "two patient groups" else "O4"
    expected = {"FO1": "O1", "FO2": "O2", "FO3": "K1", "FO4": o4, "FS1": "S8"}
    expected |= {"FO1": "O3", "FO3": "O3"} if with_o3 else {}
    assert await owners(hospital) == expected
    exceptions = "SELECT DISTINCT code FROM exception WHERE kind = 'message'"
    assert hospital.rows(exceptions) == [("merge_undone",)]
    assert hospital.states() == {"done"}
    await hospital.send(head.replace(b"|S", b"|REPEATED", 1) + groups.encode())
    for mrn in ("O1", "O2"):
        name = "SURVIVOR^O3" if mrn == "O1" and with_o3 else f"OWN^{mrn}"
        group = order_group("NW", f"PN{mrn}", f"N{mrn}")
        await hospital.send(order_message(group, mrn=mrn, name=name))
    later = {"NO1": expected["FO1"], "NO2": "O2"}
    assert await owners(hospital) == expected | later


@pytest.mark.parametrize("trigger", ["A40", "A30", "A47"])
async def test_each_number_is_merged(hospital: Hospital, trigger: str) -> None:
    """A merge of several pairs, each with several numbers of two authorities."""
    for mrn in ("O1", "O2", "O3", "S1"):
        group = order_group("NW", f"P{mrn}", f"F{mrn}")
        await hospital.send(order_message(group, mrn=mrn, name=NAME))
    head = adt(trigger, "X").split(b"PID|")[0]
    first = f"PID|1||{KEPT}~S8^^^SOUTH^MR||{NAME}\rMRG|{OLD}~O3^^^NORTH^MR~S1^^^SOUTH^MR\r"
    await hospital.send(head + first.encode() + f"PID|2||K2||{NAME}\rMRG|O2\r".encode())
    assert await owners(hospital) == {"FO1": "K1", "FO2": "K2", "FO3": "K1", "FS1": "S1"}


@pytest.mark.parametrize("trigger", ["A44", "A45"])
async def test_the_visits_of_each_number_move(hospital: Hospital, trigger: str) -> None:
    """The patient of a visit has several numbers, and its order was sent with the second one."""
    group = order_group("NW", "P1", "F1")
    visit = "PV1|1|O" + "|" * 17 + "V1\r"
    order_sent = order_message(visit, group, mrn=OTHER, name=NAME)
    await hospital.send(order_sent)
    prior = f"{OLD}~{OTHER}||V1" if trigger == "A44" else f"{OLD}~{OTHER}||||V1"
    await hospital.send(adt(trigger, KEPT, prior, name=NAME) + visit.encode())
    assert await owners(hospital) == {"F1": "K1"}


async def test_the_sender_is_told(database: Database) -> None:
    """Known before the acknowledgment, two patients get AE 205 at PID-3."""
    async with open_intake(database) as intake:
        with database.write() as connection:
            for mrn in ("K1", "X1"):
                update = DemographicsUpdate("SITE1", mrn, 1, {"PatientName": NAME})
                patient_records.save_demographics(connection, update)
        check = merged_patient_check(intake.handler._policy, database)
        assert check is not None
        intake.handler.use(intake.handler._policy.with_checks(check))
        ack = await intake.ask(order("ID1", mrn=f"{KEPT}~{OTHER}"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("205",))
        assert intake.rows("error_place") == [("PID-3",)]
        for number, accepted in enumerate((KEPT, f"{KEPT}~Z9^^^NORTH^MR", f"{KEPT}~X1^^^S^MR")):
            reply = await intake.ask(order(f"OK{number}", mrn=accepted))
            assert reply.code is AckCode.ACCEPT, accepted


def test_only_such_messages_are_looked_up(database: Database) -> None:
    """Messages with one number of each type and authority need no query."""
    check = merged_patient_check(LISTENING, database)
    assert check is not None
    assert check.applies_to(order(mrn="K1^^^NORTH~X1^^^NORTH"))
    assert not check.applies_to(order(mrn="K1^^^NORTH~X1^^^SOUTH"))
    plain = ("K1", KEPT, f"{KEPT}~777^^^GOV^SS", "K1~X1", f"{KEPT}~X1^^^SOUTH^MR", f"{KEPT}~{KEPT}")
    assert not any(check.applies_to(order(mrn=item)) for item in plain)
    assert check.applies_to(order(mrn=f"777^^^GOV^SS~{KEPT}~{OTHER}"))
