"""
A load client with little CPU use: a number of connections, each with a window of frames.

It checks that every ACK is positive and for the oldest unacknowledged frame. It builds frames
before the clock starts.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from tests.benchmarks.mixed import FS_CR, Frame, mixed, render

PATIENCE = 120.0
"""Seconds without the last ACK after which a run fails."""


@dataclass
class Run:
    """The measurements of one run: latencies in seconds, the start by time.perf_counter."""

    seconds: float = 0.0
    began: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Acknowledged messages a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds from the write of a frame (open loop: from when it was due) to its ACK."""
        return percentile(self.latencies, share)


def percentile(seconds: Sequence[float], share: float) -> float:
    """The milliseconds that this share of the values does not exceed."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Sender(asyncio.Protocol):
    """One connection: writes frames, checks and times their ACKs."""

    def __init__(self, run: Run, todo: Sequence[Frame] = (), window: int = 0) -> None:
        """With a window, each ACK sends the next frame of `todo`; without, the caller sends."""
        self.run = run
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._todo = deque(todo)
        self._window = window
        self._open: deque[tuple[bytes, float]] = deque()
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def begin(self) -> None:
        """Send the first window."""
        self._send(min(self._window, len(self._todo)))

    def send(self, frame: Frame, due: float) -> None:
        self._open.append((frame[0], due))
        self._write(frame[1])

    @override
    def data_received(self, data: bytes) -> None:
        *replies, self._buffer = (self._buffer + data).split(FS_CR)
        now = time.perf_counter()
        for reply in replies:
            control_id, began = self._open.popleft()
            if b"MSA|AA|" + control_id not in reply:
                msa = next((line for line in reply.split(b"\r") if line.startswith(b"MSA")), b"")
                self._fail(f"{control_id.decode()} was not accepted: {msa.decode()}")
                return
            self.run.latencies.append(now - began)
        if self._todo:
            self._send(min(len(replies), len(self._todo)))
        elif self._window and not self._open and not self.ended.done():
            self.ended.set_result(None)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the listener closed a connection")

    def close(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        if self._transport is not None:
            self._transport.close()

    @property
    def waiting(self) -> int:
        """Frames without an ACK."""
        return len(self._open)

    def _send(self, count: int) -> None:
        now = time.perf_counter()
        chosen = [self._todo.popleft() for _ in range(count)]
        self._open.extend((control_id, now) for control_id, _ in chosen)
        self._write(b"".join(frame for _, frame in chosen))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _fail(self, what: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(AssertionError(what))


async def connect(port: int, make: Callable[[], Sender]) -> Sender:
    _, sender = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port)
    return sender


async def _closed_loop(port: int, parts: Sequence[Sequence[Frame]], window: int) -> Run:
    run = Run()
    senders = [await connect(port, lambda part=part: Sender(run, part, window)) for part in parts]  # type: ignore[misc]  # bound at once
    began = time.perf_counter()
    for sender in senders:
        sender.begin()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(sender.ended for sender in senders))
    run.began, run.seconds = began, time.perf_counter() - began
    for sender in senders:
        sender.close()
    return run


def drive(port: int, connections: int, window: int, total: int, first: int) -> Run:
    """Send messages `first` to `first + total - 1` of the mixed set as fast as ACKs allow."""
    return send(port, connections, window, render(mixed(), first, total))


def send(port: int, connections: int, window: int, todo: Sequence[Frame]) -> Run:
    """Send frames over several connections, each as fast as its ACKs allow."""
    parts = [todo[number::connections] for number in range(connections)]
    return _undisturbed(_closed_loop(port, parts, window))


async def _open_loop(port: int, todo: Sequence[Frame], rate: float, connections: int) -> Run:
    run = Run()
    senders = [await connect(port, lambda: Sender(run)) for _ in range(connections)]
    began = time.perf_counter()
    for number, frame in enumerate(todo):
        due = began + number / rate
        while (ahead := due - time.perf_counter()) > 0:  # noqa: ASYNC110  # a pace needs the clock
            await asyncio.sleep(ahead)
        senders[number % connections].send(frame, due)
        if not number % 16:
            await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        while any(sender.waiting and not sender.ended.done() for sender in senders):  # noqa: ASYNC110  # the last ACKs
            await asyncio.sleep(0.01)
    run.began, run.seconds = began, time.perf_counter() - began
    for sender in senders:
        sender.close()
    await asyncio.gather(*(sender.ended for sender in senders))
    return run


def drip(port: int, rate: float, seconds: float, first: int, connections: int = 10) -> Run:
    """Send at a steady pace regardless of ACKs; a latency counts from when its message was due."""
    todo = render(mixed(), first, int(rate * seconds))
    return _undisturbed(_open_loop(port, todo, rate, connections))


def _undisturbed(work: Coroutine[Any, Any, Run]) -> Run:
    """Run a client without garbage collection, whose pauses would distort the latencies."""
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(work)
    finally:
        gc.enable()
