"""Each setting of a listener has the effect that the example settings describe."""

import ssl
from contextlib import suppress

import httpx

from tests.acceptance.hospital import Hospital
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, segment, verdict
from tests.eventually import PATIENCE, eventually


def test_tls(hospital: Hospital) -> None:
    """A listener with a certificate accepts only TLS."""
    with Sender(hospital.tls, tls=hospital.client_context()) as sender:
        assert verdict(sender.ask(order(1001))) == ("AA", "C1001")
        assert isinstance(sender.socket, ssl.SSLSocket)
        assert sender.socket.version() in {"TLSv1.2", "TLSv1.3"}
    with Sender(hospital.tls) as plain:
        assert b"MSA" not in (plain.ask(order(1002), timeout=2) or b"")


def test_too_many_connections(hospital: Hospital) -> None:
    """The listener closes and counts connections over the limit; a closed one frees a place."""
    one, two = Sender(hospital.small), Sender(hospital.small)
    assert verdict(one.ask(order(1005))) == ("AA", "C1005")
    assert verdict(two.ask(order(1006))) == ("AA", "C1006")
    with Sender(hospital.small) as third:
        assert third.socket.recv(1) == b""
    one.close()

    def reply() -> bytes | None:
        with suppress(OSError), Sender(hospital.small) as again:
            return again.ask(order(1007))
        return None

    assert verdict(eventually(reply)) == ("AA", "C1007")
    two.close()
    metrics = httpx.get(f"{hospital.house.url}/metrics", timeout=PATIENCE).text
    assert 'bridge_mllp_connections_refused_total{listener="small"}' in metrics


def test_unfinished_frame(hospital: Hospital) -> None:
    """The listener refuses a frame that does not end in time, and closes the connection."""
    with Sender(hospital.small) as sender:
        sender.raw(VT + order(1008)[:200])
        reply = sender.reply()

        assert verdict(reply) == ("AR", "C1008")
        assert sender.socket.recv(1) == b""


def test_too_large_a_frame(hospital: Hospital) -> None:
    """The listener refuses a frame as soon as it exceeds the limit."""
    with Sender(hospital.small) as sender:
        sender.raw(VT + order(1009) + b"x" * 40_000)

        assert verdict(sender.reply()) == ("AR", "C1009")


def test_idle_connection(hospital: Hospital) -> None:
    """The listener closes an idle connection only if `idle_timeout` is set."""
    with Sender(hospital.idle) as sender, Sender(hospital.house.mllp_port) as other:
        assert sender.socket.recv(1) == b""
        assert verdict(other.ask(order(1010))) == ("AA", "C1010")


def test_reused_control_id(hospital: Hospital) -> None:
    """Other content under a used MSH-10 is refused or accepted, as `reused_control_id` selects."""
    again = order(1011, accession="A1011B")
    with Sender(hospital.strict) as sender:
        first = sender.ask(order(1011))
        assert verdict(first) == ("AA", "C1011")
        code, about = verdict(sender.ask(again))
        assert code in {"AE", "AR"}
        assert about == "C1011"
        assert sender.ask(order(1011)) == first
    with Sender(hospital.house.mllp_port) as sender:
        assert verdict(sender.ask(order(1012))) == ("AA", "C1012")
        assert verdict(sender.ask(order(1012, accession="A1012B"))) == ("AA", "C1012")
    hospital.house.settle()
    assert hospital.house.row("A1011B") is None
    assert hospital.house.row("A1012B") is not None


def test_applied(hospital: Hospital) -> None:
    """`applied`: the listener acknowledges after the order is on the worklist."""
    with Sender(hospital.applied) as sender:
        assert verdict(sender.ask(order(1013))) == ("AA", "C1013")
        assert hospital.house.row("A1013") is not None


def test_applied_and_the_engine_refuses(hospital: Hospital) -> None:
    """`applied`: the listener answers AE to an order that the report engine refuses."""
    with Sender(hospital.nowhere) as sender:
        assert verdict(sender.ask(order(1014))) == ("AE", "C1014")
    assert hospital.house.row("A1014") is None


def test_stored(hospital: Hospital) -> None:
    """`stored`: the listener acknowledges an invalid message, which is then parked."""
    with Sender(hospital.stored) as sender:
        message = order(1015).replace(b"PID|1||M1015^^^HOSP^MR", b"PID|1||")

        assert verdict(sender.ask(message)) == ("AA", "C1015")
    hospital.house.settle()
    assert "parked" in hospital.house.bridge("messages", "list", "--listener", "stored")


def test_charset_without_msh_18(hospital: Hospital) -> None:
    """The listener's charset applies to a message without MSH-18."""
    message = order(1016, name="BJÖRK^ÅSA").decode().replace("UNICODE UTF-8", "")
    with Sender(hospital.latin) as sender:
        assert verdict(sender.ask(message.encode("latin-1"))) == ("AA", "C1016")
    hospital.house.settle()
    assert "BJÖRK" in str(hospital.house.row("A1016")).upper()


def test_replies(hospital: Hospital) -> None:
    """`order`: the reply is an ORR, the same for a retransmit; ORC-1 of a refused order is UA."""
    message = order(1017)
    with Sender(hospital.replying) as sender:
        first, second = sender.ask(message), sender.ask(message)
        refused = sender.ask(order(1018, accession="", control="QQ"))
    assert first is not None
    assert refused is not None
    assert first == second
    assert verdict(first) == ("AA", "C1017")
    assert "|ORR^O02^ORR_O02|" in segment(first, b"MSH")
    assert segment(first, b"ORC") == "ORC|OK|P1017|F1017"
    assert verdict(refused)[0] == "AE"
    assert segment(refused, b"ORC").startswith("ORC|UA|")


def test_validate(hospital: Hospital) -> None:
    """`refuse`: AE with the place of a missing PID-5. `warn`: AA, with a count and a log line."""
    with Sender(hospital.validating) as sender:
        refused = sender.ask(order(1019, name=""))
        assert verdict(sender.ask(order(1020))) == ("AA", "C1020")
    assert verdict(refused) == ("AE", "C1019")
    assert refused is not None
    assert "PID^1^5" in segment(refused, b"ERR").replace("&", "^")
    assert "|101" in segment(refused, b"ERR")
    with Sender(hospital.warning) as sender:
        assert verdict(sender.ask(order(1021, name=""))) == ("AA", "C1021")
    metrics = httpx.get(f"{hospital.house.url}/metrics", timeout=PATIENCE).text
    assert 'bridge_validation_findings_total{error="101",listener="warning"} 1.0' in metrics
    assert "message violates its structure" in hospital.house.log()


def test_a_hundred_frames_in_one_write(hospital: Hospital) -> None:
    messages = [order(number) for number in range(1100, 1200)]
    with Sender(hospital.house.mllp_port) as sender:
        sender.raw(b"".join(VT + message + FS_CR for message in messages))
        answers = [verdict(sender.reply()) for _ in messages]

    assert answers == [("AA", f"C{number}") for number in range(1100, 1200)]
