"""The history checker names each fault that a proxy injects, and reports none without a fault."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

import pytest

from tests.acceptance.house import House
from tests.acceptance.observations import delivered, listed, release
from tests.acceptance.orders import order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, control_id, sink, verdict
from tests.eventually import eventually
from tests.history import Event, Kind, violations

Forward = Callable[[bytes], bytes | None]
"""Sends a message to the target; returns its reply."""

Fault = Callable[[Forward, bytes], bytes | None]


def pass_on(forward: Forward, message: bytes) -> bytes | None:
    return forward(message)


class Proxy:
    def __init__(self, target: int, fault: Fault = pass_on) -> None:
        self.target, self.fault = target, fault
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Accept no more connections."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                buffer += data
                while FS_CR in buffer:
                    frame, buffer = buffer.split(FS_CR, 1)
                    reply = self.fault(self._forward, frame.lstrip(VT))
                    if reply is None:
                        return
                    connection.sendall(VT + reply + FS_CR)

    def _forward(self, message: bytes) -> bytes | None:
        with Sender(self.target) as sender:
            return sender.ask(message)


@contextmanager
def proxy(target: int, fault: Fault = pass_on) -> Iterator[Proxy]:
    running = Proxy(target, fault)
    try:
        yield running
    finally:
        running.stop()


def renamed(message: bytes, name: bytes) -> bytes:
    return message.replace(b"|" + control_id(message) + b"|", b"|" + name + b"|", 1)


def lose(_forward: Forward, message: bytes) -> bytes:
    """Acknowledge a message and drop it."""
    return ack(message)


def answer_nothing(_forward: Forward, _message: bytes) -> None:
    """Drop a message and cut the connection."""
    return


def double(forward: Forward, message: bytes) -> bytes | None:
    """Forward a second copy under another control id, for another patient."""
    copy = renamed(message, control_id(message) + b"-2").replace(b"|1||M", b"|1||N", 1)
    forward(copy)
    return forward(message)


class Swap:
    """Acknowledge the message number `first`, and forward it after the next one."""

    def __init__(self, first: int) -> None:
        self._until = first
        self._held = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        self._until -= 1
        if not self._until:
            self._held = message
            return ack(message)
        reply = forward(message)
        if self._held:
            forward(self._held)
            self._held = b""
        return reply


class Repeat:
    """Cut the connection after the first message, and change its repetition."""

    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        self._change = change
        self._first = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        if not self._first:
            self._first = message
            forward(message)
            return None
        if message != self._first:
            return forward(message)
        forward(self._change(message))
        return ack(message)


class OldAgain:
    """Forward the first message once more after the second one."""

    def __init__(self) -> None:
        self._first = b""

    def __call__(self, forward: Forward, message: bytes) -> bytes | None:
        reply = forward(message)
        if self._first:
            forward(self._first)
        self._first = self._first or message
        return reply


pytestmark = pytest.mark.slow

STEPS = 3
_numbers = count(100)


@dataclass
class Watched:
    """The product between two proxies; its sender and its receiver record events."""

    house: House
    orders: Proxy
    results: Proxy
    ris: Sink

    def send(self, number: int) -> list[Event]:
        events = []
        with Sender(self.orders.port) as sender:
            for step in range(STEPS):
                name, control = f"H{number}-{step}", "XO" if step else "NW"
                message = order(number, control=control, title=f"STEP {step}", msh10=name)
                events.append(Event(Kind.SENT, f"A{number}", step))
                if verdict(sender.ask(message)) == ("AA", name):
                    events.append(Event(Kind.ACKNOWLEDGED, f"A{number}", step))
        self.house.settle()
        steps = {f"STEP {step}": step for step in range(STEPS)}
        found = listed(self.house, steps)
        return events + [each for each in found if each.order == f"A{number}"]

    def sign(self, number: int, frames: int, fault: Fault = pass_on) -> list[Event]:
        """
        Sign a report and an addendum; return the events of the signer and of the receiver.

        The fault applies to this report only, until the proxy has handled `frames` messages.
        """
        mrn, accession = f"M{number}", f"A{number}"
        handled = []

        def handle(forward: Forward, message: bytes) -> bytes | None:
            if release(message)[0] != accession:
                return forward(message)
            reply = fault(forward, message)
            handled.append(message)
            return reply

        self.results.fault = handle
        events = [Event(Kind.SENT, accession, 0)]
        self.house.draft(mrn, accession, f"Read {number}.")
        self.house.sign(mrn, accession)
        events.append(Event(Kind.RELEASED, accession, 1))
        addendum(self.house, mrn, accession, f"More on {number}.")
        events.append(Event(Kind.RELEASED, accession, 2))
        eventually(lambda: len(handled) >= frames)
        self.results.fault = answer_nothing
        results = delivered(list(self.ris.received))
        return events + [each for each in results if each.order == accession]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A running service between proxies that forward everything."""
    house = House(tmp_path_factory.mktemp("faults") / "home")
    with sink() as ris, proxy(ris.port) as results:
        house.destination("ris", results.port)
        house.make()
        try:
            house.start()
            with proxy(house.mllp_port) as orders:
                yield Watched(house, orders, results, ris)
        finally:
            house.kill()


def test_without_a_fault(watched: Watched) -> None:
    """The checker finds no violation without a fault."""
    watched.orders.fault = pass_on
    assert violations([*watched.send(next(_numbers)), *watched.sign(next(_numbers), 2)]) == []


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (lambda: lose, "acknowledged and not listed"),
        (lambda: double, "listed 2 times"),
        (lambda: Swap(2), "step 2 was acknowledged and step 1 is listed"),
    ],
    ids=["lost", "applied twice", "reordered"],
)
def test_faults_of_orders(watched: Watched, fault: Callable[[], Fault], problem: str) -> None:
    """The checker names a fault between the sender and the product."""
    number = next(_numbers)
    watched.orders.fault = fault()
    assert violations(watched.send(number)) == [f"A{number}: {problem}"]


@pytest.mark.parametrize(
    ("fault", "frames", "problems"),
    [
        (lambda: lose, 2, ["version 1 was released and not delivered",
                           "version 2 was released and not delivered"]),
        (lambda: answer_nothing, 2, ["version 1 was released and not delivered",
                                     "version 2 was released and not delivered"]),
        (lambda: Repeat(lambda message: message.replace(b"Read", b"Reed")), 3,
         ["control id {} has two contents"]),
        (lambda: Repeat(lambda message: renamed(message, b"OTHER")), 3,
         ["version 1 was delivered under 2 control ids"]),
        (OldAgain, 2, ["version 1 was delivered again after version 2"]),
        (lambda: Swap(1), 2, ["version 1 was delivered first after version 2"]),
    ],
    ids=["never forwarded", "dropped", "changed", "renamed", "old version again", "reordered"],
)  # fmt: skip
def test_faults_of_results(
    watched: Watched, fault: Callable[[], Fault], frames: int, problems: list[str]
) -> None:
    """The checker names a fault between the product and the receiver."""
    number = next(_numbers)
    events = watched.sign(number, frames, fault())
    first = next((each.control_id for each in events if each.control_id), "")
    expected = [f"A{number}: {problem.format(first)}" for problem in problems]
    assert violations(events) == expected
