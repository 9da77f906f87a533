"""The loopback probe of peers, turned on us: every row must be right, over a real socket."""

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, control_id, verdict
from tests.eventually import PATIENCE, eventually


def test_two_frames_in_one_packet(running: House) -> None:
    """Both are answered, in order."""
    with Sender(running.mllp_port) as sender:
        sender.post(order(101), order(102))

        assert verdict(sender.reply()) == ("AA", "C101")
        assert verdict(sender.reply()) == ("AA", "C102")


def test_byte_by_byte(running: House) -> None:
    """A frame that arrives in single bytes is one message."""
    with Sender(running.mllp_port) as sender:
        for byte in VT + order(103) + FS_CR:
            sender.raw(bytes([byte]))

        assert verdict(sender.reply()) == ("AA", "C103")


def test_garbage_between_frames(running: House) -> None:
    """Noise is skipped, and neither neighbour is harmed."""
    with Sender(running.mllp_port) as sender:
        sender.raw(VT + order(104) + FS_CR + b"\x00\r\nnoise" + VT + order(105) + FS_CR)

        assert verdict(sender.reply()) == ("AA", "C104")
        assert verdict(sender.reply()) == ("AA", "C105")


def test_no_start_byte(running: House) -> None:
    """Bytes that are no frame get no positive answer, and the connection stays usable."""
    with Sender(running.mllp_port) as sender:
        sender.raw(order(106) + FS_CR)
        assert sender.reply(timeout=0.5) is None

        sender.socket.settimeout(PATIENCE)
        assert verdict(sender.ask(order(107))) == ("AA", "C107")


def test_end_block_without_carriage_return(running: House) -> None:
    """FS alone does not end a frame: nothing is acknowledged until CR comes."""
    with Sender(running.mllp_port) as sender:
        sender.raw(VT + order(108) + FS_CR[:1])
        assert sender.reply(timeout=0.5) is None

        sender.socket.settimeout(PATIENCE)
        sender.raw(FS_CR[1:])
        assert verdict(sender.reply()) == ("AA", "C108")


def test_start_byte_inside_a_frame(running: House) -> None:
    """A frame with a start byte inside is truncated and never positively acknowledged."""
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
    """What is no HL7 gets a reason, not silence."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(b"hello, is this thing on?")) == ("AR", "")


def test_undeclared_latin_1(running: House) -> None:
    """A byte that is no UTF-8 is kept as the character it was meant to be."""
    with Sender(running.mllp_port) as sender:
        message = order(111, name="M\u00dcLLER^J\u00dcRGEN").decode().replace("UNICODE UTF-8", "")

        assert verdict(sender.ask(message.encode("latin-1"))) == ("AA", "C111")
    row = applied(running, "A111")
    assert "M\u00dcLLER" in str(row).upper()


def test_empty_control_id(running: House) -> None:
    """A message without MSH-10 cannot be acknowledged positively."""
    with Sender(running.mllp_port) as sender:
        reply = sender.ask(order(112).replace(b"|C112|", b"||"))

        assert verdict(reply) == ("AE", "")
        assert reply is not None
        assert b"MSH^1^10" in reply


def test_large_message(running: House) -> None:
    """200 kB are a message like any other."""
    with Sender(running.mllp_port) as sender:
        extra = "".join(f"NTE|{n}||{'x' * 1000}\r" for n in range(200))

        assert verdict(sender.ask(order(113, extra=extra))) == ("AA", "C113")


def test_batch(running: House) -> None:
    """Both messages of a batch are stored and named in the answer."""
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


def test_enhanced_mode(running: House) -> None:
    """MSH-15/16 = AL: first the commit acknowledgment, then the application's."""
    message = order(116).replace(b"|2.5.1||||||", b"|2.5.1|||AL|AL||")
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(message)) == ("CA", "C116")
        assert verdict(sender.reply()) == ("AA", "C116")


def test_byte_order_mark(running: House) -> None:
    """A BOM before MSH is no reason to refuse."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(b"\xef\xbb\xbf" + order(117))) == ("AA", "C117")


def test_retransmit_gets_the_stored_acknowledgment(running: House) -> None:
    """The same bytes again get the same acknowledgment again, byte for byte."""
    with Sender(running.mllp_port) as sender:
        first = sender.ask(order(118))
        second = sender.ask(order(118))

        assert verdict(first) == ("AA", "C118")
        assert first == second


def test_own_delimiters_and_version(running: House) -> None:
    """The acknowledgment speaks as the sender spoke."""
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
    """What is missing is named by its place."""
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
    """Wait until an order stands on the worklist."""
    return eventually(lambda: [row for row in house.worklist() if accession in str(row)])[0]


def test_control_id_helper() -> None:
    """The harness itself reads MSH-10 right."""
    assert control_id(order(5)) == b"C5"
