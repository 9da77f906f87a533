"""
A simulated world: one thread, one clock, event loops that are stepped one callback at a time.

Each node runs on an event loop of its own, so that it can be frozen or killed between any two
callbacks. Blocking work of the product runs inline, after a simulated delay. The order of all
steps follows from the seed. Nothing here reads a real clock.
"""

import asyncio
import contextvars
import heapq
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

from typing_extensions import override

from tests.history import Event, Kind

EPOCH_MS = 1_700_000_000_000
"""Wall time at the start, in ms."""

BOOT_MS = 1_000_000
"""Time since boot at the start, in ms."""

_STEPS_BETWEEN_CHECKS = 8


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        """Seconds since the start."""
        self.steps = 0
        self.events: list[Event] = []
        self.broken: list[str] = []
        """Promises that were broken during the run, as sentences."""
        self.faults: Counter[str] = Counter()
        self.trace: list[str] = []
        self._queue: list[tuple[float, int, SimulatedLoop, asyncio.Handle]] = []
        self._numbers = count()
        self._loops: list[SimulatedLoop] = []
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self.peers = self.loop("peers")
        """The loop of senders, receivers and the report service. It is never frozen."""

    def loop(self, name: str) -> "SimulatedLoop":
        made = SimulatedLoop(self, name)  # type: ignore[abstract]  # what nothing here calls
        self._loops.append(made)
        return made

    def boot_ms(self) -> int:
        return BOOT_MS + round(self.now * 1000)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now:9.3f} {text}")

    def fault(self, kind: str, text: str = "") -> None:
        self.faults[kind] += 1
        self.note(f"* {kind} {text}".rstrip())

    def violate(self, problem: str) -> None:
        self.note(f"! {problem}")
        self.broken.append(problem)

    def record(
        self, kind: Kind, order: str, step: int = 0, name: str = "", body: bytes = b""
    ) -> None:
        self.events.append(Event(kind, order, step, name, body))

    def at_step(self, step: int, action: Callable[[], None]) -> None:
        """Call `action` before the step with this number."""
        heapq.heappush(self._due, (step, next(self._numbers), action))

    def push(self, when: float, loop: "SimulatedLoop", handle: asyncio.Handle) -> None:
        heapq.heappush(self._queue, (when, next(self._numbers), loop, handle))

    def run(self, until: Callable[[], bool], *, steps: int, seconds: float) -> bool:
        """Run until a condition holds; return False if it does not within the limits."""
        last, end = self.steps + steps, self.now + seconds
        while self.steps % _STEPS_BETWEEN_CHECKS or not until():
            if self.steps >= last or self.now > end or not self._step():
                return False
        return True

    def _step(self) -> bool:
        while self._due and self._due[0][0] <= self.steps:
            heapq.heappop(self._due)[2]()
        while self._queue:
            when, _, loop, handle = heapq.heappop(self._queue)
            if handle.cancelled() or loop.is_closed():
                continue
            if when < loop.frozen_until:
                self.push(loop.frozen_until, loop, handle)
                continue
            self.now = max(self.now, when)
            self.steps += 1
            loop.run(handle)
            return True
        return False

    def close(self) -> None:
        """Discard all loops. Coroutines end without another step."""
        for loop in self._loops:
            loop.close()
        for loop in self._loops:
            loop.discard()


class SimulatedLoop(asyncio.AbstractEventLoop):
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.frozen_until = 0.0
        """Seconds; no callback runs before."""
        self.on_blocking: Callable[[Callable[[], Any]], Any] = lambda work: work()
        """Runs blocking work inline; may raise."""
        self.failure_seconds = 2.0
        """Seconds until a failed call is noticed."""
        self._world = world
        self._closed = False
        self._tasks: list[asyncio.Task[Any]] = []

    def run(self, handle: asyncio.Handle) -> None:
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    @override
    def time(self) -> float:
        return self._world.now

    @override
    def call_soon(  # type: ignore[override]  # simpler types
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._world.push(self._world.now, self, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # as above

    @override
    def call_at(  # type: ignore[override]  # as above
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._world.push(when, self, handle)
        return handle

    @override
    def call_later(  # type: ignore[override]  # as above
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    @override
    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    @override
    def create_task(  # type: ignore[override]  # as above
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, **others: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, **others)
        self._tasks.append(task)
        return task

    @override
    def run_in_executor(  # type: ignore[override]  # as above
        self, _: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run blocking work after a delay; its result arrives after another."""
        future = self.create_future()

        def execute() -> None:
            asyncio._set_running_loop(None)  # threads have none
            delay = self.delay()
            try:
                value, settle = self.on_blocking(lambda: func(*args)), future.set_result
            except Exception as error:  # noqa: BLE001  # the caller gets it
                value, settle, delay = error, future.set_exception, self.failure_seconds
            self.call_later(delay, lambda: None if future.done() else settle(value))

        self.call_later(self.delay(), execute)
        return future

    def delay(self) -> float:
        """Return the seconds of one way to the database or to a peer; sometimes long."""
        random = self._world.random
        return random.uniform(0.0005, 0.02) if random.random() < 0.95 else random.uniform(0.1, 3.0)

    @override
    def is_closed(self) -> bool:
        return self._closed

    @override
    def is_running(self) -> bool:
        return not self._closed

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and not self._closed:
            self._world.violate(f"unhandled {type(error).__name__} on {self.name}: {error}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: `World` skips cancelled handles."""

    @override
    def close(self) -> None:
        """Run no further callback. Tasks stay as they are."""
        self._closed = True

    def discard(self) -> None:
        """End the coroutines of a closed loop, so that they release their resources."""
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with suppress(RuntimeError, Exception):
                        task.get_coro().close()
        finally:
            asyncio._set_running_loop(None)
        self._tasks.clear()
