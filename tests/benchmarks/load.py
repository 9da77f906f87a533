"""A load client: so many connections, so many unacknowledged frames each; every ACK is checked."""

import asyncio
import time
from dataclasses import dataclass, field

from tests.acceptance.orders import order

VT, FS_CR = b"\x0b", b"\x1c\r"


EXTRA = "".join(
    f"OBX|{n}|ST|{n}^Question {n} asked at order entry^L||An answer as people type them||||||O\r"
    for n in range(1, 12)
)
"""What makes an order as long as a real one: about 1.4 kB."""


@dataclass
class Run:
    """What one run measured."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Acknowledged messages a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds from the write of a frame to its acknowledgment."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _connection(port: int, first: int, count: int, window: int, run: Run) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    frames = [
        (f"C{n}".encode(), VT + order(n, mrn=f"M{n % 997}", extra=EXTRA) + FS_CR)
        for n in range(first, first + count)
    ]
    sent: list[tuple[bytes, float]] = []
    todo = iter(frames)
    for _ in range(min(window, count)):
        _write(writer, next(todo), sent)
    for index in range(count):
        reply = await reader.readuntil(FS_CR)
        control_id, began = sent[index]
        run.latencies.append(time.perf_counter() - began)
        if b"MSA|AA|" + control_id not in reply:
            raise AssertionError(f"message {index} of a connection was not accepted")
        following = next(todo, None)
        if following is not None:
            _write(writer, following, sent)
    writer.close()


def _write(
    writer: asyncio.StreamWriter, frame: tuple[bytes, bytes], sent: list[tuple[bytes, float]]
) -> None:
    sent.append((frame[0], time.perf_counter()))
    writer.write(frame[1])


async def _all(port: int, connections: int, window: int, each: int, first: int) -> Run:
    run = Run()
    began = time.perf_counter()
    await asyncio.gather(
        *(_connection(port, first + n * each, each, window, run) for n in range(connections))
    )
    run.seconds = time.perf_counter() - began
    return run


def drive(port: int, connections: int, window: int, total: int, first: int) -> Run:
    """Send `total` numbered orders from `first` on; raise when one is not accepted."""
    return asyncio.run(_all(port, connections, window, total // connections, first))
