"""Every setting of a listener does what its line in the example says."""

import ssl
from contextlib import suppress

import httpx

from tests.acceptance.hospital import Hospital
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, verdict
from tests.eventually import PATIENCE, eventually


def test_tls(hospital: Hospital) -> None:
    """A listener with a certificate speaks TLS, and nothing else."""
    with Sender(hospital.tls, tls=hospital.client_context()) as sender:
        assert verdict(sender.ask(order(1001))) == ("AA", "C1001")
        assert isinstance(sender.socket, ssl.SSLSocket)
        assert sender.socket.version() in {"TLSv1.2", "TLSv1.3"}
    with Sender(hospital.tls) as plain:
        assert b"MSA" not in (plain.ask(order(1002), timeout=2) or b"")


def test_mutual_tls(hospital: Hospital) -> None:
    """With `client_ca` only a sender that the authority knows is heard."""
    own = hospital.authority.issue_cert("ris.example.org")
    with Sender(hospital.mutual, tls=hospital.client_context(own)) as sender:
        assert verdict(sender.ask(order(1003))) == ("AA", "C1003")
    try:
        with Sender(hospital.mutual, tls=hospital.client_context()) as stranger:
            assert stranger.ask(order(1004)) is None
    except OSError:  # an alert, where TLS 1.3 tells it in time
        pass
    hospital.house.settle()
    assert hospital.house.row("A1004") is None


def test_too_many_connections(hospital: Hospital) -> None:
    """The third connection of two is closed at once and counted; a place freed is a place."""
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
    counted = httpx.get(f"{hospital.house.url}/metrics", timeout=PATIENCE).text
    assert 'bridge_mllp_connections_refused_total{listener="small"}' in counted


def test_unfinished_frame(hospital: Hospital) -> None:
    """A frame that does not end in time is refused for what it is, and the connection ends."""
    with Sender(hospital.small) as sender:
        sender.raw(VT + order(1008)[:200])
        reply = sender.reply()

        assert verdict(reply) == ("AR", "C1008")
        assert sender.socket.recv(1) == b""


def test_too_large_a_frame(hospital: Hospital) -> None:
    """A frame beyond the limit is refused as soon as it is too large."""
    with Sender(hospital.small) as sender:
        sender.raw(VT + order(1009) + b"x" * 40_000)

        assert verdict(sender.reply()) == ("AR", "C1009")


def test_idle_connection(hospital: Hospital) -> None:
    """A silent connection is closed when the listener says so, and only then."""
    with Sender(hospital.idle) as sender, Sender(hospital.house.mllp_port) as other:
        assert sender.socket.recv(1) == b""
        assert verdict(other.ask(order(1010))) == ("AA", "C1010")


def test_reused_control_id(hospital: Hospital) -> None:
    """Other bytes under a used MSH-10: refused here, taken as a new message there."""
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
    """`applied`: when the answer is there, so is the order."""
    with Sender(hospital.applied) as sender:
        assert verdict(sender.ask(order(1013))) == ("AA", "C1013")
        assert hospital.house.row("A1013") is not None


def test_applied_and_the_service_says_no(hospital: Hospital) -> None:
    """`applied`: an order that the report service refuses is not acknowledged positively."""
    with Sender(hospital.nowhere) as sender:
        assert verdict(sender.ask(order(1014))) == ("AE", "C1014")
    assert hospital.house.row("A1014") is None


def test_stored(hospital: Hospital) -> None:
    """`stored`: whatever can be kept is acknowledged, and a person sees what is wrong with it."""
    with Sender(hospital.stored) as sender:
        message = order(1015).replace(b"PID|1||M1015^^^HOSP^MR", b"PID|1||")

        assert verdict(sender.ask(message)) == ("AA", "C1015")
    hospital.house.settle()
    assert "parked" in hospital.house.bridge("messages", "list", "--listener", "stored")


def test_charset_where_msh_18_is_silent(hospital: Hospital) -> None:
    """The listener's charset reads what the message does not name."""
    message = order(1016, name="BJÖRK^ÅSA").decode().replace("UNICODE UTF-8", "")
    with Sender(hospital.latin) as sender:
        assert verdict(sender.ask(message.encode("latin-1"))) == ("AA", "C1016")
    hospital.house.settle()
    assert "BJÖRK" in str(hospital.house.row("A1016")).upper()


def test_frames_end_where_they_end(hospital: Hospital) -> None:
    """Hundred orders in one write are hundred answers, in order."""
    messages = [order(number) for number in range(1100, 1200)]
    with Sender(hospital.house.mllp_port) as sender:
        sender.raw(b"".join(VT + each + FS_CR for each in messages))
        answers = [verdict(sender.reply()) for _ in messages]

    assert answers == [("AA", f"C{number}") for number in range(1100, 1200)]
