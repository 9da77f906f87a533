"""
From a signature to the first byte of its ORU, and the rate of ORU messages to a destination.

The receiver replies at once. The time starts when the signing request is sent. For the rate, the
destination is down while reports are signed, and then up again.
"""

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from typing_extensions import override

from tests.acceptance.house import free_port
from tests.benchmarks.api import Caller, Line, identity, launch_body
from tests.benchmarks.installation import (
    ARRANGEMENTS,
    DIALECTS,
    Installation,
    Postgres,
    installed,
)
from tests.benchmarks.load import percentile
from tests.benchmarks.mixed import FS_CR, VT
from tests.benchmarks.tables import Options, show

SIGNATURES = 100
PER_SECOND = 20.0
WAITING = 1000
PATIENCE = 120.0


class Receiver:
    """Replies to each message at once, on its own thread; records when each began to arrive."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.began: dict[str, float] = {}
        self._lines: list[_Line] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @contextmanager
    def open(self) -> Iterator["Receiver"]:
        """Listen until the block ends."""
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._leave(listening), self._loop).result()

    async def _listen(self) -> asyncio.Server:
        def line() -> _Line:
            self._lines.append(_Line(self.began))
            return self._lines[-1]

        return await self._loop.create_server(line, "127.0.0.1", self.port)

    async def _leave(self, listening: asyncio.Server) -> None:
        listening.close()
        for line in self._lines:
            line.close()

    def wait_for(self, count: int) -> None:
        """Wait until `count` orders have their result."""
        deadline = time.monotonic() + PATIENCE
        while len(self.began) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(self.began)} of {count} results came")
            time.sleep(0.005)


class _Line(asyncio.Protocol):
    def __init__(self, began: dict[str, float]) -> None:
        self._began = began
        self._buffer = b""
        self._first = 0.0
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @override
    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._first = time.perf_counter()
        *messages, self._buffer = (self._buffer + data).split(FS_CR)
        for message in messages:
            self._began.setdefault(_accession(message), self._first)
            control_id = message.split(b"|", 10)[9]
            head = b"MSH|^~\\&|R|H|B|R|20260101||ACK|1|P|2.5.1\rMSA|AA|" + control_id
            if self._transport is not None:
                self._transport.write(VT + head + b"\r" + FS_CR)


def _accession(message: bytes) -> str:
    found = next(line for line in message.split(b"\r") if line.startswith(b"OBR|"))
    return found.split(b"|")[18].split(b"^")[0].decode()


def dictate(caller: Caller, accession: str) -> None:
    body = launch_body(accession, KeyFindings="Lungs are clear. " * 60)
    caller.post("/api/report/launch/clinical", body)


def sign(line: Line, accession: str) -> float:
    """Sign; return the time of the request."""
    return line.post("/api/report/sign", {"clinicalInfo": identity(accession)})[0]


def delays(caller: Caller, line: Line, receiver: Receiver, prefix: str) -> list[float]:
    """Sign at a steady pace; return the delay until each result begins to arrive."""
    names = [f"{prefix}{number}" for number in range(SIGNATURES)]
    for name in names:
        dictate(caller, name)
    began, sent = time.perf_counter(), {}
    for number, name in enumerate(names):
        time.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
        sent[name] = sign(line, name)
    deadline = time.monotonic() + PATIENCE
    while not sent.keys() <= receiver.began.keys() and time.monotonic() < deadline:
        time.sleep(0.005)
    return [receiver.began[name] - sent[name] for name in names]


def rate(at: Installation, caller: Caller, line: Line, receiver: Receiver) -> tuple[float, float]:
    """Queue results while the receiver is down; return results a second when it is up, and CPU."""
    names = [f"W{number}" for number in range(WAITING)]
    for name in names:
        dictate(caller, name)
        sign(line, name)
    known, before = len(receiver.began), at.cpu()
    with receiver.open():
        receiver.wait_for(known + WAITING)
        time.sleep(1)
    arrived = sorted(receiver.began[name] for name in names)
    skipped = WAITING // 20  # until the connection is open
    took = arrived[-1] - arrived[skipped]
    return (WAITING - skipped) / took, (at.cpu() - before) / WAITING


def main(folder: Path, options: Options) -> None:
    server, rows = Postgres(folder / "postgres"), []
    found: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    try:
        for _ in range(options.rounds):
            for dialect, arrangement in product(DIALECTS, ARRANGEMENTS):
                postgres = server if dialect == "PostgreSQL" else None
                turn = _turn(folder, postgres, ARRANGEMENTS[arrangement])
                found.setdefault((dialect, arrangement), []).append(turn)
    finally:
        server.close()
    for (dialect, arrangement), turns in found.items():
        p50, p99, per_second, cpu = (statistics.median(item) for item in zip(*turns, strict=True))
        figures = (f"{p50:.1f}", f"{p99:.1f}", f"{per_second:.0f}", f"{1e6 * cpu:.0f}")
        rows.append((dialect, arrangement, *figures))
    columns = ("database", "processes", "p50 ms", "p99 ms", "ORU/s", "CPU µs for an ORU")
    show(f"from signature to result, medians of {options.rounds} rounds", columns, rows)


def _turn(
    folder: Path, postgres: Postgres | None, processes: Sequence[Sequence[str]]
) -> tuple[float, float, float, float]:
    receiver = Receiver(free_port())
    with installed(folder, postgres, processes, destination=receiver.port) as at:
        caller, line = Caller(at), Line(at)
        with receiver.open():
            delays(caller, line, receiver, "A")  # warms up
            took = delays(caller, line, receiver, "B")
        per_second, cpu = rate(at, caller, line, receiver)
        caller.close()
        line.close()
    return percentile(took, 0.5), percentile(took, 0.99), per_second, cpu
