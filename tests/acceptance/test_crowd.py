"""Hundreds of misbehaving connections, and one well-behaved sender beside them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, verdict
from tests.eventually import PATIENCE, eventually

IDLE, LORIS, RECONNECTS, LARGE = 500, 50, 100, 10
SAMPLES = 300
FILLING = b"NTE|1||" + b"x" * (15 * 2**20) + b"\r"


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "home")
    house.listener_extra = 'max_connections = 2000\nframe_timeout = "170s"'
    house.make()
    house.start()
    yield house
    house.kill()


@contextmanager
def repeating(work: Callable[[], None], pause: float) -> Iterator[None]:
    """Repeat `work` in a thread until the block ends."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(pause):
            with suppress(OSError):
                work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


@contextmanager
def crowd(port: int) -> Iterator[list[Sender]]:
    """Open idle, slow, short-lived and large connections; yield those amid a frame of 15 MiB."""
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        slow = [stack.enter_context(Sender(port)) for _ in range(LORIS)]
        for peer in slow:
            peer.raw(VT)
        large = [stack.enter_context(Sender(port)) for _ in range(LARGE)]
        for number, peer in enumerate(large):
            peer.raw(VT + order(90_000 + number) + FILLING)

        def dribble() -> None:
            for peer in slow:
                peer.raw(b"x")

        def reconnect() -> None:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()

        stack.enter_context(repeating(dribble, 0.5))
        stack.enter_context(repeating(reconnect, 1 / RECONNECTS))
        yield large


@pytest.mark.slow
def test_an_ordinary_sender_is_served_beside_a_crowd(crowded: House) -> None:
    """The service acknowledges each of its orders, and the large frames once they are complete."""
    with crowd(crowded.mllp_port) as large, Sender(crowded.mllp_port) as ordinary:
        for number in range(SAMPLES):
            assert verdict(ordinary.ask(order(number))) == ("AA", f"C{number}")
        for number, sender in enumerate(large):
            sender.raw(FS_CR)
            eventually(partial(is_accepted, sender, 90_000 + number))


def is_accepted(sender: Sender, number: int) -> bool:
    """Read a reply; send the order again if the service refused it because of its time limit."""
    code, about = verdict(sender.reply())
    assert about == f"C{number}"
    if code != "AA":
        sender.post(order(number) + FILLING)
    return code == "AA"
