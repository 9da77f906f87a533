"""Reports of other systems: kept as priors, and what they do to orders that are known here."""

from typing import Any

import pytest

from bridge.contract import OrderKey
from bridge.intake.receive.listener_policy import ListenerPolicy
from mappings.compiler import compile_sources
from mappings.inbound.definition import InboundMapping
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import IDS, adt, order_group, order_message
from tests.mappings.definitions import SHIPPED

A1 = OrderKey(SITE, "M1", "A1")
LISTED = "include: outside-reports.yaml\naccept: {senders: [{application: NIGHT}]}\n"


@pytest.fixture
def hospital(hospital: Hospital) -> Hospital:
    """A hospital whose listener takes reports of the night service."""
    outside = compile_sources({**SHIPPED, "night.yaml": LISTED}, "night")
    assert isinstance(outside, InboundMapping)
    hospital.use(ListenerPolicy("ris", (*inbound(), outside), site=SITE))
    return hospital


def result(
    text: str = "No acute finding.",
    *,
    number: str = "1",
    status: str = "F",
    sent: int = 10,
    mrn: str = "M1",
    name: str = "TESTER^TILDA",
    born: str = "19700101",
    sender: str = "NIGHT",
    kind: str = "ORU^R01",
) -> bytes:
    at = f"20261121{8 + sent // 60:02d}{sent % 60:02d}"
    return (
        f"MSH|^~\\&|{sender}|NORTH|BRIDGE|RAD|{at}||{kind}|S{next(IDS)}|P|2.5.1\r"
        f"PID|1||{mrn}||{name}||{born}|F\r"
        f"ORC|RE|P{number}|F{number}||CM\r"
        f"OBR|1|P{number}|F{number}|X^CT Head^L||||||||||||||A{number}||||||CT|{status}\r"
        f"OBX|1|TX|R||{text}||||||{status}\r"
    ).encode()


def new_order(number: str = "1") -> str:
    return order_group("NW", f"P{number}", f"F{number}", accession=f"A{number}")


async def priors(hospital: Hospital, accession: str, mrn: str = "M1") -> list[dict[str, Any]]:
    """Return the outside reports that the report page shows."""
    page = await hospital.page(accession, mrn)
    headers = {"authorization": f"Bearer {page.secret}"}
    response = await hospital.http.get("/reporting/api/session/priors", headers=headers)
    return [prior for prior in response.json()["priors"] if prior["outside"]]


def state(hospital: Hospital) -> list[str]:
    return [row for (row,) in hospital.rows("SELECT state FROM bridge_order ORDER BY id")]


async def test_the_night_service_has_read_it(hospital: Hospital) -> None:
    """Its order leaves the list of unread ones, and its text is the prior of the next order."""
    await hospital.send(order_message(new_order(), sent=1))
    assert (await hospital.send(result())).code == "AA"
    assert hospital.last_message() == ("done", "")
    assert await hospital.descriptions() == {}
    assert state(hospital) == ["reported"]
    await hospital.send(order_message(new_order("2"), sent=20))
    (prior,) = await priors(hospital, "A2")
    assert (prior["outside"]["sender"], prior["accessions"]) == ("NIGHT NORTH", ["A1"])


async def test_the_values_of_the_order_stay(hospital: Hospital) -> None:
    order = order_group("NW", "P1", "F1", accession="A1", what="CT Body")
    await hospital.send(order_message(order, sent=1))
    await hospital.send(result())
    (row,) = (await hospital.client.worklist(SITE, accession="A1")).items
    assert row["orders"][0]["StudyDescription"] == "CT Body"


async def test_a_begun_report_is_kept_with_an_exception(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    page = await hospital.page("A1")
    await page("save", text="Dictated.")
    await hospital.send(result())
    assert hospital.last_message() == ("done", "reported_elsewhere_begun")
    assert await hospital.client.content(A1) == "Dictated."
    assert len(await priors(hospital, "A1")) == 1


@pytest.mark.parametrize("status", ["P", "X"])
async def test_a_result_that_is_not_final_leaves_the_order(hospital: Hospital, status: str) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(status=status))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert len(await priors(hospital, "A1")) == 1


@pytest.mark.parametrize("change", ["OBR-25 X", "ORC-1 CA", "OBX-11 D", "OBX-11 W"])
async def test_a_withdrawn_report_returns_the_order(hospital: Hospital, change: str) -> None:
    """Nobody has read it: it is unread again, also if a late message says that it was final."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result())
    withdrawn = {
        "OBR-25 X": lambda: result(status="X", sent=20),
        "ORC-1 CA": lambda: result(sent=20).replace(b"ORC|RE", b"ORC|CA"),
        "OBX-11 D": lambda: result(sent=20).replace(b"||||||F\r", b"||||||D\r"),
        "OBX-11 W": lambda: result(sent=20).replace(b"||||||F\r", b"||||||W\r"),
    }[change]
    await hospital.send(withdrawn())
    assert (await hospital.descriptions(), state(hospital)) == ({"A1": "CT Head"}, ["ordered"])
    (prior,) = await priors(hospital, "A1")
    assert prior["outside"]["withdrawn"]
    await hospital.send(result("Late.", sent=15))
    assert state(hospital) == ["ordered"]
    await hospital.send(result("Again.", sent=30))
    assert (await hospital.descriptions(), state(hospital)) == ({}, ["reported"])


async def test_a_report_that_was_withdrawn_before(hospital: Hospital) -> None:
    """An earlier message returns nothing; before the order, the later one of both counts."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(sent=20))
    await hospital.send(result(status="X", sent=10))
    await hospital.send(result(number="2", sent=10))
    await hospital.send(result(number="2", status="X", sent=20))
    await hospital.send(order_message(new_order("2"), sent=1))
    assert state(hospital) == ["reported", "ordered"]


async def test_a_withdrawn_addendum_leaves_the_order(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result())
    addendum = result(status="X", sent=20).replace(b"CT|X\r", b"CT|X|T|||P1^F1\r")
    await hospital.send(addendum.replace(b"OBR|1|P1|F1|", b"OBR|1|P1|F9|"))
    assert state(hospital) == ["reported"]


async def test_two_procedures_of_one_report(hospital: Hospital) -> None:
    """Both texts are shown, as one version."""
    await hospital.send(order_message(new_order(), sent=1))
    second = "OBR|2|P1|F1|X^CT Abdomen^L||||||||||||||A1||||||CT|F\rOBX|1|TX|R||No stone.||||||F\r"
    await hospital.send(result() + second.encode())
    (prior,) = await priors(hospital, "A1")
    assert (prior["outside"]["versions"], state(hospital)) == (1, ["reported"])


async def test_an_unknown_patient_and_order(hospital: Hospital) -> None:
    """The report is kept, makes no order, and is a prior when an order of the patient arrives."""
    await hospital.send(result())
    assert hospital.last_message() == ("done", "")
    assert state(hospital) == []
    await hospital.send(order_message(new_order("2"), sent=20))
    assert len(await priors(hospital, "A2")) == 1


async def test_without_patient_number(hospital: Hospital) -> None:
    """A report with an accession only waits for the order."""
    await hospital.send(result(mrn=""))
    await hospital.send(order_message(new_order(), sent=20))
    assert len(await priors(hospital, "A1")) == 1
    await hospital.send(result(mrn="", number="3"))
    await hospital.send(order_message(new_order("3"), mrn="M3", name="OTHER^EVE", sent=30))
    assert await priors(hospital, "A3", "M3") == []


async def test_it_is_the_report_of_an_order_that_arrives_later(hospital: Hospital) -> None:
    """As if the order had been known; it waits for it once only."""
    await hospital.send(result())
    assert hospital.rows("SELECT count(*) FROM waiting_message") != [(0,)]
    await hospital.send(order_message(new_order(), sent=5))
    assert await hospital.descriptions() == {}
    assert state(hospital) == ["reported"]
    assert len(await priors(hospital, "A1")) == 1
    assert hospital.rows("SELECT count(*) FROM waiting_message") == [(0,)]
    assert hospital.rows("SELECT state FROM message") == [("done",), ("done",)]


async def test_a_preliminary_report_of_an_order_that_arrives_later(hospital: Hospital) -> None:
    await hospital.send(result(status="P"))
    await hospital.send(order_message(new_order(), sent=20))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert len(await priors(hospital, "A1")) == 1


async def test_without_patient_number_it_is_the_report_of_a_known_order(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(mrn=""))
    assert (state(hospital), hospital.last_message()) == (["reported"], ("done", ""))
    assert len(await priors(hospital, "A1")) == 1


@pytest.mark.parametrize("mrn", ["", "M9"])
async def test_it_contradicts_an_order_that_arrives_later(hospital: Hospital, mrn: str) -> None:
    """A person is told: the accession is that of another patient, and nobody sees the report."""
    await hospital.send(result(mrn=mrn, name="OTHER^EVE", born="19800102"))
    await hospital.send(order_message(new_order(), sent=20))
    code = "patient_conflict" if mrn else "patient_name_mismatch"
    assert hospital.rows("SELECT state, code FROM message ORDER BY id") == [
        ("parked", code),
        ("done", ""),
    ]
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert await priors(hospital, "A1") == []


async def test_a_report_without_patient_number_follows_its_order(hospital: Hospital) -> None:
    """After an undone merge it belongs to the patient who has the order again."""
    await hospital.send(order_message(new_order(), mrn="M1", sent=1))
    await hospital.send(order_message(new_order("2"), mrn="M2", name="OTHER^EVE", sent=1))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(result(mrn=""))
    assert len(await priors(hospital, "A2", "M2")) == 1
    await hospital.send(adt("A43", "M1", "M2"))
    assert len(await priors(hospital, "A1", "M1")) == 1
    assert await priors(hospital, "A2", "M2") == []


async def test_an_order_of_another_patient(hospital: Hospital) -> None:
    """The report is attached to nobody: the message waits for a person."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(mrn="M2"))
    assert hospital.last_message() == ("parked", "patient_conflict")
    assert await hospital.descriptions() == {"A1": "CT Head"}
    await hospital.send(order_message(new_order("2"), mrn="M2", sent=2))
    assert await priors(hospital, "A1") == await priors(hospital, "A2", "M2") == []


NUMBERS = "777^^^NIGHT^MR~M1^^^NORTH^MR"


async def test_the_sender_has_a_number_of_its_own(hospital: Hospital) -> None:
    """It repeats the number of this hospital, by which the patient is known."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(mrn=NUMBERS))
    assert hospital.last_message() == ("done", "")
    assert (state(hospital), len(await priors(hospital, "A1"))) == (["reported"], 1)


@pytest.mark.parametrize(
    ("name", "other"),
    [("OTHER^EVE", ""), ("TESTER^TILDA", "777")],
    ids=["another person", "its number is another patient's here"],
)
async def test_numbers_that_do_not_identify_the_patient(
    hospital: Hospital, name: str, other: str
) -> None:
    """The message waits for a person, and nobody sees the report."""
    await hospital.send(order_message(new_order(), sent=1))
    if other:
        await hospital.send(order_message(new_order("2"), mrn=other, name="OTHER^EVE", sent=1))
    await hospital.send(result(mrn=NUMBERS, name=name, born="19800102" if not other else ""))
    assert hospital.last_message() == ("parked", "several_patients")
    assert await priors(hospital, "A1") == []


async def test_another_person_with_the_number(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(name="OTHER^EVE", born="19800102"))
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
    await hospital.send(result(name="OTHER^EVE", born="19800102", number="9"))
    assert hospital.last_message() == ("parked", "patient_name_mismatch")
    assert await priors(hospital, "A1") == []


async def test_another_spelling_of_the_name(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(result(name="TESTER^TILDA^MARIE"))
    assert hospital.last_message() == ("done", "")
    assert state(hospital) == ["reported"]


async def test_versions_and_a_late_one(hospital: Hospital) -> None:
    """A correction is shown; a preliminary report that comes late is not; a repetition is none."""
    await hospital.send(order_message(new_order("2"), sent=1))
    await hospital.send(result("Corrected.", status="C", sent=30))
    await hospital.send(result("Preliminary.", status="P", sent=10))
    await hospital.send(result("Final.", sent=20))
    await hospital.send(result("Final.", sent=20))
    (prior,) = await priors(hospital, "A2")
    assert prior["outside"]["versions"] == 3
    assert prior["outside"]["status"] == "corrected"


async def test_a_merge_shows_it_for_the_survivor(hospital: Hospital) -> None:
    await hospital.send(result(mrn="M9"))
    await hospital.send(order_message(new_order("2"), sent=20))
    assert await priors(hospital, "A2") == []
    await hospital.send(adt("A40", "M1", "M9"))
    assert len(await priors(hospital, "A2")) == 1


async def test_other_senders_are_refused(hospital: Hospital) -> None:
    """A sender that is not listed gets AR, and nothing is stored."""
    ack = await hospital.send(result(sender="DAY"))
    assert ack.code == "AR"
    await hospital.send(order_message(new_order(), sent=20))
    assert await priors(hospital, "A1") == []


async def test_it_is_never_sent(hospital: Hospital) -> None:
    """No change and no delivery has an outside report."""
    await hospital.send(result())
    changes = await hospital.client.changes(0, 10)
    assert not changes.changes
    assert hospital.rows("SELECT count(*) FROM delivery") == [(0,)]
