r"""A NUL in a field, as a byte or as `\X00\`, is refused with its place before the ACK."""

import pytest

from bridge.store.database import Database
from config.listeners import Acknowledge
from mappings.hl7.escapes import unescape
from mappings.hl7.header import peek
from mappings.hl7.message import find_nul
from mappings.hl7.tables import AckCode
from tests.bridge.intake.fixture import open_intake, order
from tests.bridge.intake.messages import adt

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("nul", [b"\0", b"\\X00\\", b"\\x4100\\", b"A\\X0041\\B"])
@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
async def test_it_is_refused(database: Database, nul: bytes, acknowledge: Acknowledge) -> None:
    """The reply is AE 102 with the place, also after similar messages."""
    async with open_intake(database, acknowledge=acknowledge) as intake:
        for number in range(20):
            name = f"ID{number}"
            assert (await intake.ask(order(name, acc=f"A{number}"))).code is AckCode.ACCEPT
        ack = await intake.ask(order("ID90").replace(b"CT Head", b"CT" + nul + b"Head"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("OBR-4.2",)
        ack = await intake.ask(adt("A08", "M1").replace(b"TILDA", b"TIL" + nul + b"DA"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("PID-5.2",)
        assert [state for (state,) in intake.rows("state")].count("refused") == 2


async def test_nulls_around_a_message(database: Database) -> None:
    """NULs before and after a message are ignored."""
    async with open_intake(database) as intake:
        assert (await intake.ask(b"\0" + order() + b"\0\0")).code is AckCode.ACCEPT


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (b"PID|1||M1||A^B\0\rPV1|1\r", "PID-5.2"),
        (b"PID|1||M1~M2^X^\0||A\r", "PID-3.3"),
        (b"OBX|1|TX|||a\rOBX|2|TX|||b\\X00\\\r", "OBX[2]-5"),
        (b"OBX|1|TX|||a\rb\0c\r", "OBX-5"),
        (b"NTE|1||a\\X00E0\\ \\x00e8\\a \\F\\\\X00E9\\\\H\\\r", ""),
        (b"NTE|1||\\X00E0\\\\X00E8\\\r", "NTE-3"),
        (b"NTE|1||\\X41\\\\X00E8\\\r", "NTE-3"),
        (b"NTE|1||\\X007F\\\r", "NTE-3"),
        (b"NTE|1||\\F\\X41\\X00\\\r", "NTE-3"),
        (b"NTE|1||\\F\\X00E0\\X00\\\r", "NTE-3"),
        (b"NTE|1||\\X410\\ \\X4100 \\XZZ00\\ \\.sp0\\ X00\r", ""),
    ],
)
def test_its_place(lines: bytes, place: str) -> None:
    """The place has segment, field and component. Other escapes are not affected."""
    payload = b"MSH|^~\\&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r" + lines
    assert find_nul(payload, peek(payload)) == place


@pytest.mark.parametrize("digits", ["00E0", "00e8", "007F", "0000", "E000", "00E000E8", "4100"])
@pytest.mark.parametrize("before", ["", "AB", "\\F\\", "\\X41\\", "\\F\\X41"])
@pytest.mark.parametrize("after", ["", "AB", "\\H\\", "\\X00E8\\", "X00\\"])
def test_it_is_found_in_each_text_that_has_it(before: str, digits: str, after: str) -> None:
    """No rule reads a NUL that was not found."""
    text = f"{before}\\X{digits}\\{after}"
    payload = b"MSH|^~\\&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\rNTE|1||" + text.encode() + b"\r"
    assert find_nul(payload, peek(payload)) or "\0" not in unescape(text)


def test_other_delimiters() -> None:
    """The escape character is that of the message. Without one there are no escapes."""
    head = b"MSH|^~!&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r"
    assert find_nul(head + b"NTE|1||!X00!\r", peek(head)) == "NTE-3"
    assert find_nul(head + b"NTE|1||\\X00\\\r", peek(head)) == ""
    bare = b"MSH|^~|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r"
    assert find_nul(bare + b"NTE|1||\\X00\\\r", peek(bare)) == ""


def test_a_long_escape_takes_linear_time() -> None:
    """An escape of two million digits without an end is searched once."""
    head = b"MSH|^~\\&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r"
    assert find_nul(head + b"NTE|1||\\X" + b"00" * 1_000_000 + b"\r", peek(head)) == ""
