"""MLLP edge cases over a real socket, as the comparison with other products tests them."""

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, control_id, verdict
from tests.eventually import PATIENCE, eventually


def test_byte_by_byte(running: House) -> None:
    """The listener reads a frame that arrives byte by byte."""
    with Sender(running.mllp_port) as sender:
        for byte in VT + order(103) + FS_CR:
            sender.raw(bytes([byte]))

        assert verdict(sender.reply()) == ("AA", "C103")


def test_garbage_between_frames(running: House) -> None:
    """The listener skips bytes between frames and answers both frames."""
    with Sender(running.mllp_port) as sender:
        sender.raw(VT + order(104) + FS_CR + b"\x00\r\nnoise" + VT + order(105) + FS_CR)

        assert verdict(sender.reply()) == ("AA", "C104")
        assert verdict(sender.reply()) == ("AA", "C105")


def test_no_start_byte(running: House) -> None:
    """Bytes without VT get no positive answer, and the connection stays usable."""
    with Sender(running.mllp_port) as sender:
        sender.raw(order(106) + FS_CR)
        assert sender.reply(timeout=0.5) is None

        sender.socket.settimeout(PATIENCE)
        assert verdict(sender.ask(order(107))) == ("AA", "C107")


def test_end_block_without_carriage_return(running: House) -> None:
    """FS alone does not end a frame: the listener acknowledges after CR."""
    with Sender(running.mllp_port) as sender:
        sender.raw(VT + order(108) + FS_CR[:1])
        assert sender.reply(timeout=0.5) is None

        sender.socket.settimeout(PATIENCE)
        sender.raw(FS_CR[1:])
        assert verdict(sender.reply()) == ("AA", "C108")


def test_start_byte_inside_a_frame(running: House) -> None:
    """A frame with VT inside is truncated; the listener never acknowledges it positively."""
    with Sender(running.mllp_port) as sender:
        sender.raw(VT + order(109)[:60] + VT + order(110) + FS_CR)

        code, _ = verdict(sender.reply())
        assert code in {"AE", "AR"}
    assert not [
        row
        for row in running.worklist()
        if any(each["Accession"] in {"A109", "A110"} for each in row["clinicalInfo"])
    ]


def test_not_hl7(running: House) -> None:
    """The listener answers AR to content that is not HL7."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(b"hello, is this thing on?")) == ("AR", "")


def test_undeclared_latin_1(running: House) -> None:
    """A message in Latin-1 without MSH-18 keeps its characters."""
    with Sender(running.mllp_port) as sender:
        message = order(111, name="M\u00dcLLER^J\u00dcRGEN").decode().replace("UNICODE UTF-8", "")

        assert verdict(sender.ask(message.encode("latin-1"))) == ("AA", "C111")
    row = applied(running, "A111")
    assert "M\u00dcLLER" in str(row).upper()


def test_empty_control_id(running: House) -> None:
    """A message without MSH-10 gets AE with the place of the field."""
    with Sender(running.mllp_port) as sender:
        reply = sender.ask(order(112).replace(b"|C112|", b"||"))

        assert verdict(reply) == ("AE", "")
        assert reply is not None
        assert b"MSH^1^10" in reply


def test_large_message(running: House) -> None:
    """A message of 200 kB is accepted."""
    with Sender(running.mllp_port) as sender:
        extra = "".join(f"NTE|{n}||{'x' * 1000}\r" for n in range(200))

        assert verdict(sender.ask(order(113, extra=extra))) == ("AA", "C113")


def test_batch(running: House) -> None:
    """Both messages of a batch are stored and acknowledged in the reply."""
    with Sender(running.mllp_port) as sender:
        batch = (
            b"FHS|^~\\&|RIS|HOSP\rBHS|^~\\&|RIS|HOSP\r"
            + order(114)
            + order(115)
            + b"BTS|2\rFTS|1\r"
        )
        reply = sender.ask(batch)

    assert reply is not None
    assert b"MSA|AA|C114" in reply
    assert b"MSA|AA|C115" in reply
    applied(running, "A114")
    applied(running, "A115")


def test_byte_order_mark(running: House) -> None:
    """The listener accepts a byte order mark before MSH."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(b"\xef\xbb\xbf" + order(117))) == ("AA", "C117")


def test_retransmit_gets_the_stored_acknowledgment(running: House) -> None:
    """A retransmit gets the same acknowledgment, byte for byte."""
    with Sender(running.mllp_port) as sender:
        first = sender.ask(order(118))
        second = sender.ask(order(118))

        assert verdict(first) == ("AA", "C118")
        assert first == second


def test_own_delimiters_and_version(running: House) -> None:
    """The acknowledgment uses the delimiters and the version of the sender."""
    message = (
        order(119).decode().replace("^~\\&", "@#\\$").replace("^", "@").replace("2.5.1", "2.3")
    )
    with Sender(running.mllp_port) as sender:
        reply = sender.ask(message.replace("|", "!").encode())

    assert reply is not None
    assert reply.startswith(b"MSH!@#\\$!BRIDGE!RAD!RIS!HOSP!")
    assert b"\rMSA!AA!C119" in reply


@pytest.mark.parametrize("missing", ["PID", "OBR"])
def test_refusal_has_a_place(running: House, missing: str) -> None:
    """The refusal of a message without PID names PID-3."""
    message = b"".join(
        line + b"\r"
        for line in order(120).split(b"\r")
        if line and not line.startswith(missing.encode())
    )
    with Sender(running.mllp_port) as sender:
        reply = sender.ask(message.replace(b"|C120|", b"|C120" + missing.encode() + b"|"))

    code, _ = verdict(reply)
    if missing == "PID":
        assert code == "AE"
        assert reply is not None
        assert b"PID^1^3" in reply


def applied(house: House, accession: str) -> dict[str, object]:
    """Wait until an order is on the worklist."""
    return eventually(lambda: [row for row in house.worklist() if accession in str(row)])[0]


def test_control_id_helper() -> None:
    """`control_id` returns MSH-10."""
    assert control_id(order(5)) == b"C5"
