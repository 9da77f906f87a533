"""
What receivers reply besides one well-framed acknowledgment: a second reply, bytes without a frame,
and refusals that no repetition can change.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Answer, Sink, accept, ack, control_id
from tests.eventually import eventually

TEXT = b"Script failed after acceptance"


def framed(message: bytes, code: bytes = b"AA", text: bytes = b"") -> bytes:
    return VT + ack(message, code).rstrip(b"\r") + (b"|" + text if text else b"") + b"\r" + FS_CR


class Scripted:
    def __init__(self, script: Callable[["Scripted", socket.socket, bytes], object]) -> None:
        self._script = script
        self.received: list[bytes] = []
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with connection:
            while data := connection.recv(65536):
                buffer += data
                while FS_CR in buffer:
                    frame, buffer = buffer.split(FS_CR, 1)
                    self.received.append(frame.lstrip(VT))
                    self._script(self, connection, self.received[-1])


def at_once(code: bytes) -> Callable[[Scripted, socket.socket, bytes], object]:
    return lambda _, wire, message: wire.sendall(framed(message) + framed(message, code, TEXT))


def with_the_next(code: bytes) -> Callable[[Scripted, socket.socket, bytes], object]:
    """Reply to the previous message once more when the next one has arrived, before its reply."""

    def script(receiver: Scripted, wire: socket.socket, message: bytes) -> None:
        if len(receiver.received) > 1:
            wire.sendall(framed(receiver.received[-2], code, TEXT))
        wire.sendall(framed(message))

    return script


def while_idle(code: bytes) -> Callable[[Scripted, socket.socket, bytes], object]:
    def script(_: Scripted, wire: socket.socket, message: bytes) -> None:
        wire.sendall(framed(message))
        threading.Timer(0.3, wire.sendall, [framed(message, code, TEXT)]).start()

    return script


SECOND_REPLIES = {
    f"{script.__name__} {code.decode()}": (script(code), code)
    for script in (at_once, with_the_next, while_idle)
    for code in (b"AE", b"AR", b"CR", b"AA")
}
REPORTS = 3
Replied = tuple[House, dict[str, Scripted]]


@pytest.fixture(scope="module")
def replied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replied]:
    house = House(tmp_path_factory.mktemp("replied") / "home")
    receivers = {name: Scripted(script) for name, (script, _) in SECOND_REPLIES.items()}
    for name, receiver in receivers.items():
        house.destination(name.replace(" ", "-"), receiver.port, retry_first="30s", retry_max="60s")
    house.make()
    house.start()
    house.send(*(order(number) for number in range(REPORTS)))
    for number in range(REPORTS):
        house.draft(f"M{number}", f"A{number}", f"Text {number}.")
        house.sign(f"M{number}", f"A{number}")
    yield house, receivers
    house.kill()
    for receiver in receivers.values():
        receiver.stop()


def listed(house: House, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(house.bridge(*arguments, "--limit", "500", "--json"))
    return rows


@pytest.mark.parametrize("name", SECOND_REPLIES)
def test_a_second_reply_sends_nothing_again(replied: Replied, name: str) -> None:
    """Each result arrives once and is delivered; a negative second reply needs attention."""
    house, receivers = replied
    receiver, code = receivers[name], SECOND_REPLIES[name][1]
    destination = name.replace(" ", "-")

    def delivered() -> list[dict[str, Any]]:
        rows = listed(house, "deliveries", "list", "--destination", destination)
        done = len(rows) == REPORTS and all(row["state"] == "done" for row in rows)
        return rows if done else []

    ids = [row["id"] for row in eventually(delivered)]
    # `with_the_next` says nothing about the last message.
    expected = REPORTS - name.startswith("with_the_next")
    if code == b"AA":
        eventually(
            lambda: (
                sum("reply after the first one" in shown(house, number) for number in ids)
                == expected
            )
        )
        rows = []
    else:
        rows = eventually(
            lambda: found if len(found := later_refusals(house, ids)) == expected else []
        )
    assert all(row["code"] == code.decode() for row in rows)
    assert all(TEXT.decode() in row["reason"] for row in rows)
    assert len(receiver.received) == REPORTS, "no result was sent again"
    assert len({control_id(message) for message in receiver.received}) == REPORTS
    assert receiver.connections == 1


def later_refusals(house: House, ids: list[int]) -> list[dict[str, Any]]:
    rows = listed(house, "exceptions", "list")
    return [row for row in rows if row["kind"] == "delivery" and row["row_id"] in ids]


def shown(house: House, number: int) -> str:
    return house.bridge("deliveries", "show", str(number))


def await_done(house: House, count: int) -> None:
    """Wait until this many deliveries are done."""

    def are_done() -> bool:
        rows = listed(house, "deliveries", "list")
        return [row["state"] for row in rows].count("done") == count

    eventually(are_done)


def test_a_second_reply_after_a_restart(tmp_path: Path) -> None:
    """A reply about a message that an earlier process sent loses nothing, and is kept."""
    house = House(tmp_path / "home")
    earlier: list[bytes] = []

    def script(_: Scripted, wire: socket.socket, message: bytes) -> None:
        if earlier:
            wire.sendall(framed(earlier[0], b"AE", TEXT))
        else:
            earlier.append(message)
        wire.sendall(framed(message))

    receiver = Scripted(script)
    house.destination("ris", receiver.port, retry_first="30s", retry_max="60s")
    house.make()
    try:
        for number in (1, 2):
            house.start()
            house.send(order(number))
            house.draft(f"M{number}", f"A{number}", "Text.")
            house.sign(f"M{number}", f"A{number}")
            await_done(house, number)
            if number == 1:
                house.stop()
        (row,) = eventually(lambda: listed(house, "exceptions", "list"))
        assert (row["kind"], row["row_id"], row["code"]) == ("delivery", 1, "AE")
        assert len(receiver.received) == 2
    finally:
        house.kill()
        receiver.stop()


def twice(reply: Callable[[bytes], bytes]) -> Answer:
    """Reply so to the first two attempts, then accept."""
    return lambda message, tries: reply(message) if tries < 2 else accept(message, tries)


ACK_BYTES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "without a frame": (ack, "without a start block or an end block"),
    "without an end": (lambda m: VT + ack(m), "without an end block"),
    "without a start": (lambda m: ack(m) + FS_CR, "without a start block"),
    "FS without CR": (lambda m: VT + ack(m) + b"\x1c", "without an end block: FS came without CR"),
    "only VT": (lambda m: VT, "sent 1 byte without an end block"),
    "four bytes": (lambda m: b"fail", "sent 4 bytes without a start block or an end block"),
    "the text in a frame": (lambda m: VT + b"fail" + FS_CR, "fail"),
}


@pytest.fixture(scope="module")
def unframed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, dict[str, Sink]]]:
    """A service whose receivers reply without a correct frame, and accept the third attempt."""
    house = House(tmp_path_factory.mktemp("unframed") / "home")
    sinks = {}
    for number, (name, (reply, _)) in enumerate(ACK_BYTES.items()):
        sinks[name] = Sink(twice(reply))
        house.destination(f"d{number}", sinks[name].port, ack_timeout="1s")
    stubborn = Sink(lambda m, _: ack(m))
    house.destination("stubborn", stubborn.port, ack_timeout="500ms", breaker_after=2)
    house.make()
    house.start()
    house.send(order(1))
    house.draft("M1", "A1", "Text.")
    house.sign("M1", "A1")
    yield house, sinks
    house.kill()
    for sink in [*sinks.values(), stubborn]:
        sink.stop()


@pytest.mark.parametrize("name", ACK_BYTES)
def test_a_reply_without_a_frame_is_described(
    unframed: tuple[House, dict[str, Sink]], name: str
) -> None:
    """The bytes are kept and described; the same message is sent until a good reply comes."""
    house, sinks = unframed
    destination = f"d{list(ACK_BYTES).index(name)}"
    (row,) = eventually(
        lambda: [
            row
            for row in listed(house, "deliveries", "list", "--destination", destination)
            if row["state"] == "done"
        ]
    )
    assert len(set(sinks[name].received)) == 1
    assert len(sinks[name].received) == 3
    page = shown(house, row["id"])
    assert page.count("attempt  garbage") == 2
    assert ACK_BYTES[name][1] in page
    if name in {"without a frame", "without an end", "without a start"}:
        assert "|SINK|SINK|" in page.partition("failed_attempts")[2], "the first bytes are shown"


def test_the_alert_names_the_frame(unframed: tuple[House, dict[str, Sink]]) -> None:
    """State, alert and list of destinations say what came, and not only that nothing came."""
    house, _ = unframed
    rows = eventually(
        lambda: [
            row
            for row in json.loads(house.bridge("alerts", "list", "--json"))
            if "stubborn" in row["key"] and "without a start block" in row["text"]
        ]
    )
    assert {row["key"] for row in rows} & {"unframed:destination stubborn"}
    (row,) = listed(house, "deliveries", "list", "--destination", "stubborn")
    assert row["code"] in {"garbage", "interrupted"}
    assert row["state"] != "done"
    assert "without a start block" in house.bridge("destinations", "list")


SIX = b"".join(
    b"ERR||OBR^1^16^1^%d|102^Data type error^HL70357|E||||Component %d is too long\r" % (n, n)
    for n in range(2, 8)
)
PERMANENT: dict[str, bytes] = {
    "six ERR": b"AE|%s\r" + SIX,
    "no severity": b"AE|%s\rERR||PID^1^3|101^Required field missing^HL70357\r",
    "fatal": b"AR|%s\rERR|||103^x^HL70357|F\r",
    "one of several": b"AE|%s\rERR|||207^x^HL70357|E\rERR|||199^y|E\rERR|||0^z|I\r",
    "v2.3": b"AE|%s\rERR|OBR^1^16^102&Data type error\r",
    "MSA-6": b"AR|%s||||101^Required field missing\r",
}
TRANSIENT: dict[str, bytes] = {
    "207": b"AE|%s\rERR|||207^x^HL70357|E\r",
    "a warning": b"AE|%s\rERR|||102^x^HL70357|W\r",
    "four digits": b"AE|%s\rERR|||1021^x|E\r",
    "no ERR": b"AE|%s\r",
}


def refusing(msa: bytes) -> Answer:
    return lambda message, _: (
        VT
        + b"MSH|^~\\&|S|S|B|B|20260101||ACK|1|P|2.5.1\rMSA|"
        + msa.replace(b"%s", control_id(message))
        + FS_CR
    )


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, dict[str, Sink]]]:
    house = House(tmp_path_factory.mktemp("refused") / "home")
    sinks = {}
    for number, (name, msa) in enumerate({**PERMANENT, **TRANSIENT}.items()):
        sinks[name] = Sink(refusing(msa))
        house.destination(f"d{number}", sinks[name].port)
    sinks["own rule"] = Sink(refusing(PERMANENT["six ERR"]))
    house.destination("own", sinks["own rule"].port, replies={"AE 102": "retry 3 then park"})
    house.make()
    house.start()
    house.send(order(1))
    house.draft("M1", "A1", "Text.")
    house.sign("M1", "A1")
    yield house, sinks
    house.kill()
    for sink in sinks.values():
        sink.stop()


@pytest.mark.parametrize("name", PERMANENT)
def test_a_permanent_error_is_parked_at_once(
    refused: tuple[House, dict[str, Sink]], name: str
) -> None:
    """A message that is wrong for its receiver is sent once; list and page say what is wrong."""
    house, sinks = refused
    destination = f"d{list(PERMANENT).index(name)}"
    (row,) = eventually(
        lambda: [
            row
            for row in listed(house, "deliveries", "list", "--destination", destination)
            if row["state"] == "parked"
        ]
    )
    assert len(sinks[name].received) == 1
    if name == "six ERR":
        for component in range(2, 8):
            line = f"102 Data type error at OBR-16.{component} (Ordering provider)"
            assert f"{line}: Component {component} is too long" in row["reason"]
            assert line in shown(house, row["id"])


@pytest.mark.parametrize("name", TRANSIENT)
def test_another_error_is_repeated(refused: tuple[House, dict[str, Sink]], name: str) -> None:
    """Errors of class 2xx, remarks and unknown codes may go away."""
    _, sinks = refused
    eventually(lambda: len(sinks[name].received) > 2)


def test_the_reply_table_decides(refused: tuple[House, dict[str, Sink]]) -> None:
    """A rule of the destination for the code applies before the default."""
    house, sinks = refused
    eventually(
        lambda: listed(house, "deliveries", "list", "--destination", "own", "--state", "parked")
    )
    assert len(sinks["own rule"].received) == 3
