"""A NUL byte in a field is refused with its place before the ACK."""

import pytest

from bridge.store.database import Database
from config.listeners import Acknowledge
from mappings.hl7.header import peek
from mappings.hl7.message import find_nul
from mappings.hl7.tables import AckCode
from tests.bridge.intake.fixture import open_intake, order
from tests.bridge.intake.messages import adt


@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
async def test_it_is_refused(database: Database, acknowledge: Acknowledge) -> None:
    """The reply is AE 102 with the place, also after similar messages."""
    async with open_intake(database, acknowledge=acknowledge) as intake:
        for number in range(20):
            name = f"ID{number}"
            assert (await intake.ask(order(name, acc=f"A{number}"))).code is AckCode.ACCEPT
        ack = await intake.ask(order("ID90").replace(b"CT Head", b"CT\0Head"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("OBR-4.2",)
        ack = await intake.ask(adt("A08", "M1").replace(b"TILDA", b"TIL\0DA"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("PID-5.2",)
        assert [state for (state,) in intake.rows("state")].count("refused") == 2


@pytest.mark.parametrize(
    "escape",
    [
        b"\\X00\\",
        b"\\X000d\\\\X0A\\",
        b"\\x4100\\",
        b"A\\X0041\\B",
        b"\\X0000\\",
        b"\\X\\",
        b"\\X0\\",
    ],
)
async def test_an_escape_is_never_refused(database: Database, escape: bytes) -> None:
    """It is read as UTF-16, or kept as it is (`tests/mappings/hl7/test_escapes.py`)."""
    async with open_intake(database) as intake:
        ack = await intake.ask(order("ID90").replace(b"CT Head", b"CT" + escape + b"Head"))
        assert ack.code is AckCode.ACCEPT


async def test_nulls_around_a_message(database: Database) -> None:
    """NULs before and after a message are ignored."""
    async with open_intake(database) as intake:
        assert (await intake.ask(b"\0" + order() + b"\0\0")).code is AckCode.ACCEPT


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (b"PID|1||M1||A^B\0\rPV1|1\r", "PID-5.2"),
        (b"PID|1||M1~M2^X^\0||A\r", "PID-3.3"),
        (b"OBX|1|TX|||a\rOBX|2|TX|||b\0c\r", "OBX[2]-5"),
        (b"OBX|1|TX|||a\rb\0c\r", "OBX-5"),
        (b"NTE|1||a\\X00E0\\\\X00\\\r", ""),
    ],
)
def test_its_place(lines: bytes, place: str) -> None:
    """The place has segment, field and component. Other escapes are not affected."""
    payload = b"MSH|^~\\&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r" + lines
    assert find_nul(payload, peek(payload)) == place
