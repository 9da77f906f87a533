"""A crowd of senders that misbehave, and what the well-behaved one notices of it."""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, verdict

IDLE, LORIS, RECONNECTS, LARGE = 500, 50, 100, 10
SAMPLES = 300
ROUNDS = 6
FILLING = b"NTE|1||" + b"x" * (15 * 2**20) + b"\r"


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[House]:
    """A service with room for many connections, and patience with long frames."""
    house = House(tmp_path / "home")
    house.listener_extra = 'max_connections = 2000\nframe_timeout = "90s"'
    house.make()
    house.start()
    yield house
    house.kill()


def latencies(port: int, first: int) -> list[float]:
    """How long each of many orders takes to its acknowledgment."""
    found = []
    with Sender(port) as sender:
        for number in range(first, first + SAMPLES):
            message = order(number)
            began = time.perf_counter()
            assert verdict(sender.ask(message)) == ("AA", f"C{number}")
            found.append(time.perf_counter() - began)
            time.sleep(0.005)
    return found


def p99(samples: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(samples, n=100)[98]


@contextmanager
def repeating(work: Callable[[], None], pause: float) -> Iterator[None]:
    """Do something again and again meanwhile."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(pause):
            with suppress(OSError):
                work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(30)


@contextmanager
def crowd(port: int) -> Iterator[list[Sender]]:
    """Idle ones, dribbling ones, ones that come and go, ones amid a frame of nearly 16 MiB."""
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        slow = [stack.enter_context(Sender(port)) for _ in range(LORIS)]
        for each in slow:
            each.raw(VT)
        large = [stack.enter_context(Sender(port, timeout=60)) for _ in range(LARGE)]
        for number, each in enumerate(large):
            each.raw(VT + order(90_000 + number) + FILLING)

        def dribble() -> None:
            for each in slow:
                each.raw(b"x")

        def reconnect() -> None:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()

        stack.enter_context(repeating(dribble, 0.5))
        stack.enter_context(repeating(reconnect, 1 / RECONNECTS))
        yield large


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_others_hardly_notice(crowded: House) -> None:
    """Beside them the p99 of one ordinary sender is under twice its quiet value; all are answered.

    Quiet and busy are measured in turns, up to six times: the machine has moods of its own.
    """
    port = crowded.mllp_port
    latencies(port, 1000)  # warm
    ratios = []
    for turn in range(ROUNDS):
        quiet = p99(latencies(port, 10_000 * (turn + 1)))
        with crowd(port) as large:
            busy = p99(latencies(port, 10_000 * (turn + 1) + 5000))
            for number, sender in enumerate(large if turn == 0 else []):
                sender.raw(FS_CR)
                assert verdict(sender.reply()) == ("AA", f"C{90_000 + number}")
        ratios.append(busy / quiet)
        if ratios[-1] < 2:
            break
    assert min(ratios) < 2, ratios
