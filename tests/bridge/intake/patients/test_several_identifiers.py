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
