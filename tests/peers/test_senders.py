"""Senders used in hospitals send orders and understand the replies."""

import subprocess
from collections.abc import Callable

import pytest

from tests.acceptance.house import free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, verdict
from tests.eventually import PATIENCE
from tests.peers.conftest import PeerSetup
from tests.peers.programs import ReceiverProcess, exchange, python, script

pytestmark = pytest.mark.slow
LARGE = "NTE|1||" + "word " * 20_000 + "\r"
NAME = "Düsenträger^Zoë"


def python_hl7(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    """
    python-hl7's blocking client.

    Its defects: it takes the first read, up to 4096 bytes, for the whole reply, and does not
    compare MSA-2. A reply of the bridge is shorter and written at once.
    """
    return exchange(python("python_hl7_client", str(installation.house.mllp_port)), messages)


def python_hl7_streams(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    """python-hl7's asyncio client; it does not compare MSA-2 either."""
    return exchange(python("python_hl7_streams", str(installation.house.mllp_port), "1"), messages)


def hl7apy(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    """hl7apy's messages, framed by hl7apy; the library has no client, the socket is the test's."""
    return exchange(python("hl7apy_client", str(installation.house.mllp_port)), messages)


def mllp_http(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    port = free_port()
    url = f"http://127.0.0.1:{installation.web}/hl7"
    command = [script("mllp2http"), "--host", "127.0.0.1", "--port", str(port), url]
    proxy = ReceiverProcess(command, port)
    proxy.start()
    try:
        return exchange(python("hl7apy_client", str(port)), messages)
    finally:
        proxy.kill()


def medplum(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    """@medplum/hl7's client; it finds the reply by MSA-2."""
    return exchange(
        installation.node.command("medplum_client", str(installation.house.mllp_port), "first"),
        messages,
    )


def node_hl7(installation: PeerSetup, messages: list[bytes]) -> list[str]:
    """
    node-hl7-client.

    Its defects: a message that is sent before the reply to the last one waits for the next
    *connection*, so it gets one message at a time. It takes any FS with any CR for the end.
    """
    return exchange(
        installation.node.command("node_hl7_client", str(installation.house.mllp_port)), messages
    )


Send = Callable[[PeerSetup, list[bytes]], list[str]]
SENDERS: dict[str, tuple[int, Send]] = {
    stream.__name__: (10_000 + 100 * place, stream)
    for place, stream in enumerate(
        [python_hl7, python_hl7_streams, hl7apy, mllp_http, medplum, node_hl7]
    )
}


@pytest.mark.parametrize("peer", SENDERS)
def test_orders(installation: PeerSetup, peer: str) -> None:
    """Each of ten orders on one connection, one of 100 kB, gets its AA and is read completely."""
    first, send = SENDERS[peer]
    orders = [
        order(n, name=NAME, extra=LARGE if n % 10 == 5 else "") for n in range(first, first + 10)
    ]
    replies = send(installation, orders)

    verdicts = [verdict(reply.encode()) for reply in replies]
    assert verdicts == [("AA", f"C{n}") for n in range(first, first + 10)]
    installation.house.settle()
    worklist = {row["clinicalInfo"][0]["Accession"]: row for row in installation.house.worklist()}
    for number in range(first, first + 10):
        assert "Düsenträger" in str(worklist[f"A{number}"]), number


@pytest.mark.parametrize("peer", sorted(SENDERS.keys() - {"mllp_http"}))
def test_refusals(installation: PeerSetup, peer: str) -> None:
    """A refusal names its message and reason; the next order is accepted."""
    first, send = SENDERS[peer]
    numbers = [first + 20, first + 21, first + 22, first + 23]
    bodies = [order(number) for number in numbers]
    bodies[0] = bodies[0].replace(b"ORM^O01^ORM_O01", b"ORM^O99^ORM_O99")
    bodies[2] = bodies[2].replace(b"ORC|NW", b"ORC|QQ")
    replies = send(installation, bodies)

    verdicts = [verdict(reply.encode()) for reply in replies]
    codes = ["AR", "AA", "AE", "AA"]
    assert verdicts == [(code, f"C{n}") for code, n in zip(codes, numbers, strict=True)]
    assert [("ERR|" in reply) for reply in replies] == [True, False, True, False]


def test_refusal_behind_a_proxy(installation: PeerSetup) -> None:
    """mllp2http does not forward a refusal: it closes the connection, and the sender gets no AA."""
    bad = order(10_351).replace(b"ORM^O01^ORM_O01", b"ORM^O99^ORM_O99")
    replies = mllp_http(installation, [order(10_350), bad, order(10_352)])
    after = mllp_http(installation, [order(10_352)])

    assert [verdict(reply.encode()) for reply in [*replies, *after]] == [
        ("AA", "C10350"),
        ("AA", "C10352"),
    ]


def test_both_acknowledgments(installation: PeerSetup) -> None:
    """python-hl7 requests both acknowledgments and reads both for each message, in order."""
    orders = [order(number, modes="AL|AL") for number in range(11_000, 11_005)]
    replies = exchange(python("python_hl7_streams", str(installation.applied), "2"), orders)

    assert [verdict(reply.encode()) for reply in replies] == [
        (code, f"C{number}") for number in range(11_000, 11_005) for code in ("CA", "AA")
    ]


@pytest.mark.parametrize(("wanted", "code"), [("first", "CA"), ("application", "AA")])
def test_enhanced_mode(installation: PeerSetup, wanted: str, code: str) -> None:
    """@medplum/hl7 can wait for the commit or the application acknowledgment."""
    first = {"first": 11_100, "application": 11_200}[wanted]
    orders = [order(number, modes="AL|AL") for number in range(first, first + 5)]
    replies = exchange(
        installation.node.command("medplum_client", str(installation.applied), wanted), orders
    )

    verdicts = [verdict(reply.encode()) for reply in replies]
    assert verdicts == [(code, f"C{number}") for number in range(first, first + 5)]


def test_python_hl7_command(installation: PeerSetup) -> None:
    """`mllp_send` of python-hl7 sends a file of frames and prints the replies."""
    framed = b"".join(VT + order(number) + FS_CR for number in (11_300, 11_301))
    command = [
        script("mllp_send"),
        "--port",
        str(installation.house.mllp_port),
        "--file",
        "-",
        "127.0.0.1",
    ]
    file = installation.node.folder / "frames.hl7"
    file.write_bytes(framed)
    command[command.index("-")] = str(file)
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr
    assert b"MSA|AA|C11300" in done.stdout
    assert b"MSA|AA|C11301" in done.stdout


def test_http2mllp_does_not_start(installation: PeerSetup) -> None:
    """
    http2mllp of mllp-http cannot be a peer: its newest release does not start.

    It reads an option that its parser does not define. If this test fails, a release has fixed it,
    and http2mllp can be added to the senders.
    """
    command = [script("http2mllp"), f"mllp://127.0.0.1:{installation.house.mllp_port}"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, text=True, check=False)

    assert "AttributeError" in done.stderr
