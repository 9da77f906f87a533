"""An order comes in, its report goes back: the whole way, with the real engine in between."""

from pathlib import Path

import pytest

from bridge.contract import ReportStatus
from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.hospital import destination, open_hospital
from tests.bridge.intake.desk import order

pytestmark = pytest.mark.anyio


async def test_an_order_becomes_a_report_and_comes_back(tmp_path: Path, database: Database) -> None:
    """ORM in, Ordered on the worklist; signed, and the ORU is at the RIS."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        ack = await hospital.send(order("ID1", "A1"))
        assert ack.code == "AA"
        record = await hospital.report("A1")
        assert record is not None
        assert record.status is ReportStatus.ORDERED
        await hospital.read_and_sign("A1", "No bleeding.\nNormal.")
        await hospital.follow()
        (oru,) = await hospital.delivered(1)
        message = Message.parse(oru)
        assert message.value("MSH-9.1") == "ORU"
        assert message.value("OBR-25") == "F"
        assert message.value("ORC-2") == "PA1"
        assert "No bleeding." in message.values("OBX[*]-5")
        assert len(message.value("MSH-10")) == 20
