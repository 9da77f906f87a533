"""Several scheduled steps (IPC) below one OBR: one order and one report with all steps."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.process.test_order_processor import accessions

NUMBERS = count(1)


def omi(*lines: str, version: str = "2.5.1") -> bytes:
    """Return an OMI^O23."""
    head = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||OMI^O23^OMI_O23|I{next(NUMBERS)}|P|{version}",
        "PID|1||M1||TESTER^TILDA||19700101|F",
    )
    return "\r".join([*head, *lines, ""]).encode()


def steps(control: str = "NW", *ipc: str, number: int = 1) -> list[str]:
    return [
        f"ORC|{control}|P{number}|F{number}||{'CA' if control == 'CA' else 'SC'}",
        f"OBR|{number}|P{number}|F{number}|7881{number}^PET-CT {number}^L",
        *ipc,
    ]


PET = "IPC|A1^RIS|RP1|1.2.840.99999.1|S1|PT|PETPROT^PET^L|PET1||PETAE"
CT = "IPC|A1^RIS|RP1|1.2.840.99999.1|S2|CT|CTPROT^CT low dose^L|CT1||CTAE1~CTAE2"
MR = "IPC|A1^RIS|RP1|1.2.840.99999.1|S3|MR|MRPROT^^L|MR1||MRAE"
BARE = "IPC|A1^RIS|RP1|1.2.840.99999.1|S4"
LISTS = (
    *("Modalities", "ScheduledStepID", "ScheduledProtocol"),
    *("ScheduledStation", "ScheduledStationAET"),
)


@pytest.fixture
async def hospital(tmp_path: Path, database: Database) -> AsyncIterator[Hospital]:
    async with open_hospital(tmp_path, database, destination()) as running:
        yield running


async def order(hospital: Hospital, accession: str = "A1") -> dict[str, Any]:
    """Return the tags of the only order of the only report."""
    assert await accessions(hospital, accession) == [accession]
    (row,) = (await hospital.client.worklist(SITE)).items
    found: dict[str, Any] = row["orders"][0]
    return found


@pytest.mark.parametrize("version", ["2.5", "2.5.1"])
@pytest.mark.parametrize(
    ("ipc", "modality", "kept"),
    [
        ([PET, CT], "PT", ("PT, CT", "S1, S2", "PET, CT low dose", "PET1, CT1", "PETAE, CTAE1, CTAE2")),  # noqa: E501
        ([CT, PET], "CT", ("CT, PT", "S2, S1", "CT low dose, PET", "CT1, PET1", "CTAE1, CTAE2, PETAE")),  # noqa: E501
        ([BARE, CT], "CT", ("CT", "S4, S2", "CT low dose", "CT1", "CTAE1, CTAE2")),
        (
            *([CT, PET, MR], "CT"),
            ("CT, PT, MR", "S2, S1, S3", "CT low dose, PET, MRPROT", "CT1, PET1, MR1", "CTAE1, CTAE2, PETAE, MRAE"),  # noqa: E501
        ),
    ],
    ids=["two", "the other order", "the first without a modality", "three"],
)  # fmt: skip
async def test_one_order_has_all_steps(
    hospital: Hospital,
    version: str,
    ipc: list[str],
    modality: str,
    kept: tuple[str, ...],
) -> None:
    """No step is lost, in the tags and in the result, and a cancellation withdraws the order."""
    await hospital.send(omi(*steps("NW", *ipc), version=version))
    tags = await order(hospital)
    assert tags["Modality"] == modality
    assert tuple(tags["Metadata"][key] for key in LISTS) == kept

    await hospital.read_and_sign("A1", "Done.")
    await hospital.follow()
    (oru,) = await hospital.delivered(1)
    result = Message.parse(oru)
    assert len(result.named("OBR")) == 1
    assert result.value("OBR-20") == kept[1].partition(",")[0]
    assert result.value("OBR-24") == modality
    assert {*kept} <= {*result.values("OBX[*]-5")}


async def test_a_cancellation_withdraws_the_order(hospital: Hospital) -> None:
    await hospital.send(omi(*steps("NW", PET, CT)))
    await hospital.send(omi(*steps("CA", PET[:40], CT[:40])))
    assert await hospital.report("A1") is None


async def test_two_procedures_of_one_accession(hospital: Hospital) -> None:
    """The steps of both are those of the order; a change of one procedure loses none."""
    await hospital.send(omi(*steps("NW", PET, BARE), *steps("NW", CT, MR, number=2)))
    metadata = (await order(hospital))["Metadata"]
    assert metadata["ScheduledStepID"] == "S1, S4, S2, S3"
    assert metadata["Modalities"] == "PT, CT, MR"
    await hospital.send(omi(*steps("XO", CT, MR, number=2)))
    metadata = (await order(hospital))["Metadata"]
    assert metadata["ScheduledStepID"] == "S1, S4, S2, S3"
    assert metadata["Modalities"] == "PT, CT, MR"


async def test_the_modalities_of_two_procedures_without_steps(hospital: Hospital) -> None:
    """OBR-24 of each group counts."""
    groups = [
        f"ORC|NW|P{number}\rOBR|{number}|P{number}||X{number}^Test{'|' * 14}A1||||||{modality}"
        for number, modality in enumerate(("PT", "CT"), 1)
    ]
    await hospital.send(omi(*groups))
    tags = await order(hospital)
    assert (tags["Modality"], tags["Metadata"]["Modalities"]) == ("PT", "PT, CT")


async def test_a_change_replaces_the_steps(hospital: Hospital) -> None:
    """A step that a change of the order no longer has is gone."""
    await hospital.send(omi(*steps("NW", PET, CT)))
    await hospital.send(omi(*steps("XO", CT)))
    tags = await order(hospital)
    assert tags["Modality"] == "CT"
    assert (tags["Metadata"]["Modalities"], tags["Metadata"]["ScheduledStepID"]) == ("CT", "S2")


async def test_a_change_adds_a_step(hospital: Hospital) -> None:
    await hospital.send(omi(*steps("NW", PET)))
    await hospital.send(omi(*steps("XO", PET, CT)))
    metadata = (await order(hospital))["Metadata"]
    assert (metadata["Modalities"], metadata["ScheduledStepID"]) == ("PT, CT", "S1, S2")


async def test_steps_of_different_requested_procedures(hospital: Hospital) -> None:
    """One accession is one report; each step keeps the number of its requested procedure."""
    await hospital.send(omi(*steps("NW", PET, CT.replace("|RP1|", "|RP2|"))))
    metadata = (await order(hospital))["Metadata"]
    assert (metadata["RequestedProcedureID"], metadata["ScheduledStepID"]) == ("RP1, RP2", "S1, S2")


async def test_an_orm_with_the_uid_of_its_study(hospital: Hospital) -> None:
    """IHE RAD-4 of v2.3.1 has ZDS after the steps, which are repeated OBR."""
    place = f"{'|' * 14}A1|RP1"
    lines = [
        line
        for number, (modality, step) in enumerate((("PT", "S1"), ("CT", "S2")), 1)
        for line in (
            f"ORC|NW|P{number}|F{number}||SC",
            f"OBR|{number}|P{number}|F{number}|7881{number}^PET-CT^L{place}|{step}||||{modality}",
        )
    ]
    study = "1.2.840.99999.1"
    await hospital.send(
        omi(*lines, f"ZDS|{study}^RIS^Application^DICOM").replace(b"OMI^O23^OMI_O23", b"ORM^O01")
    )
    tags = await order(hospital)
    assert tags["StudyInstanceUID"] == study
    assert (tags["Modality"], tags["Metadata"]["Modalities"]) == ("PT", "PT, CT")


async def test_two_accessions_with_steps(hospital: Hospital) -> None:
    """Each order has its own steps; both share the report of the message."""
    other = [line.replace("A1^", "A2^").replace(".1|", ".2|") for line in (CT, MR)]
    await hospital.send(omi(*steps("NW", PET, BARE), *steps("NW", *other, number=2)))
    assert await accessions(hospital, "A1") == ["A1", "A2"]
    (row,) = (await hospital.client.worklist(SITE)).items
    assert [listed["Metadata"]["ScheduledStepID"] for listed in row["orders"]] == [
        "S1, S4",
        "S2, S3",
    ]


OTHER = CT.replace("A1^RIS", "A2^RIS")


@pytest.mark.parametrize("named", [(OTHER,), (PET, OTHER), (OTHER, PET)])
async def test_steps_with_their_own_accessions(hospital: Hospital, named: tuple[str, ...]) -> None:
    """A change and a cancellation find the order by the accession of each of its steps."""
    await hospital.send(omi(*steps("NW", PET, MR, OTHER)))
    await hospital.send(omi(*steps("XO", *named)))
    assert (await order(hospital))["Accession"] == "A1"
    await hospital.send(omi(*steps("CA", *named)))
    assert hospital.last_message() == ("done", "")
    assert not (await hospital.client.worklist(SITE, status="Ordered")).items
