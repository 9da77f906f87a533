"""The history checker names each fault that a proxy injects, and reports none without a fault."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from tests.acceptance.house import House
from tests.acceptance.observations import delivered, listed, release
from tests.acceptance.orders import order
from tests.acceptance.proxy import (
    Fault,
    Forward,
    OldAgain,
    Proxy,
    Repeat,
    Swap,
    answer_nothing,
    double,
    lose,
    pass_on,
    proxy,
    renamed,
)
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sender, Sink, sink, verdict
from tests.eventually import eventually
from tests.history import Event, Kind, violations

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
        """Send an order and its changes; return the events of the sender and of a reader."""
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
