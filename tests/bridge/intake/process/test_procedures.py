"""Several procedures under one accession: one report, and a result for each order."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.process.test_order_processor import accessions, message


def procedure(number: int, what: str, control: str = "NW", filler: str = "F") -> str:
    """Return one ORC/OBR group with the accession A1."""
    return (
        f"ORC|{control}|P{number}|{filler}{number}||SC\r"
        f"OBR|1|P{number}|{filler}{number}|X{number}^{what}^L" + "|" * 14 + "A1||||||CT\r"
    )


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    async with open_hospital(tmp_path, database, destination()) as running:
        yield running


async def described(hospital: Hospital) -> str:
    """Return StudyDescription of the only order."""
    assert await accessions(hospital, "A1") == ["A1"]
    response = await hospital.client.worklist(SITE)
    (row,) = response.items
    return str(row["orders"][0]["StudyDescription"])


async def placers(hospital: Hospital) -> list[tuple[str, str, str]]:
    """Sign, and return ORC-1, ORC-2 and OBR-4.2 of each order in the result."""
    await hospital.read_and_sign("A1", "Both.")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    parsed = Message.parse(oru)
    assert parsed.values("OBX[*]-5").count("Both.") == 1
    paths = ("ORC[*]-1", "ORC[*]-2", "OBR[*]-4.2")
    return list(zip(*(parsed.values(path) for path in paths), strict=True))


async def test_two_in_one_message(hospital: Hospital) -> None:
    """One report has both names. The result has each order, with the text after the last."""
    await hospital.send(message(procedure(1, "CT Head"), procedure(2, "CT Neck")))
    assert await described(hospital) == "CT Head; CT Neck"
    assert await placers(hospital) == [("CN", "P1", "CT Head"), ("RE", "P2", "CT Neck")]


async def test_two_in_two_messages(hospital: Hospital) -> None:
    """A second placer number does not replace the first."""
    await hospital.send(message(procedure(1, "CT Head")))
    await hospital.send(message(procedure(2, "CT Neck")))
    assert await described(hospital) == "CT Head; CT Neck"
    assert await placers(hospital) == [("CN", "P1", "CT Head"), ("RE", "P2", "CT Neck")]


async def test_one_of_them_changes(hospital: Hospital) -> None:
    await hospital.send(message(procedure(1, "CT Head"), procedure(2, "CT Neck")))
    await hospital.send(message(procedure(2, "CT Neck with contrast", "XO")))
    assert await described(hospital) == "CT Head; CT Neck with contrast"
    assert await placers(hospital) == [
        ("CN", "P1", "CT Head"), ("RE", "P2", "CT Neck with contrast"),
    ]  # fmt: skip


async def test_a_change_without_a_name(hospital: Hospital) -> None:
    """Values that a message does not have stay."""
    await hospital.send(message(procedure(1, "CT Head"), procedure(2, "CT Neck")))
    await hospital.send(message(procedure(1, "", "XO")))
    assert await described(hospital) == "CT Neck; CT Head"


async def test_one_of_them_is_cancelled(hospital: Hospital) -> None:
    """The other procedure stays on the worklist."""
    await hospital.send(message(procedure(1, "CT Head"), procedure(2, "CT Neck")))
    await hospital.send(message(procedure(1, "CT Head", "CA")))
    assert await described(hospital) == "CT Neck"
    assert await placers(hospital) == [("RE", "P2", "CT Neck")]


async def test_all_of_them_are_cancelled(hospital: Hospital) -> None:
    """After all are cancelled the report is withdrawn."""
    await hospital.send(message(procedure(1, "CT Head"), procedure(2, "CT Neck")))
    await hospital.send(message(procedure(1, "CT Head", "CA")))
    await hospital.send(message(procedure(2, "CT Neck", "CA")))
    assert await hospital.report("A1") is None


STEPS = (
    "ORC|NW|Q9|||SC\r"
    f"OBR|1|P9||X1^Step one^L{'|' * 14}A1||||||CT\r"
    f"OBR|2|P9||X2^Step two^L{'|' * 14}A1||||||CT\r"
)
"""Two procedures of one ORC."""


async def test_the_status_of_an_order_of_several_procedures(hospital: Hospital) -> None:
    """An ORC alone is about all of its procedures, and each gets the result."""
    await hospital.send(message(STEPS))
    await hospital.send(message("ORC|SC|Q9|||CM\r"))
    assert await described(hospital) == "Step one; Step two"
    assert await placers(hospital) == [("CN", "Q9", "Step one"), ("RE", "Q9", "Step two")]


@pytest.mark.parametrize(("code", "left"), [("X1", "Step two"), ("X2", "Step one")])
async def test_a_change_of_one_of_several_procedures(
    hospital: Hospital, code: str, left: str
) -> None:
    """It replaces the procedure with its code; the other one of the same order stays."""
    await hospital.send(message(STEPS))
    changed = f"OBR|1|P9||{code}^Changed^L{'|' * 14}A1||||||CT\r"
    await hospital.send(message("ORC|XO|Q9|||SC\r" + changed))
    assert await described(hospital) == f"{left}; Changed"
    assert await placers(hospital) == [("CN", "Q9", left), ("RE", "Q9", "Changed")]


async def test_a_renumbered_order_is_the_same(hospital: Hospital) -> None:
    """Another filler number with the same placer number is the same procedure."""
    await hospital.send(message(procedure(1, "CT Head")))
    await hospital.send(message(procedure(1, "CT Head", "XO", filler="G")))
    assert await placers(hospital) == [("RE", "P1", "CT Head")]
