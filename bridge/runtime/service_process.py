"""
The child processes of `bridge serve`, and the channel between a child and its parent.

The process of `bridge serve` receives messages and acknowledges them. Its child, the service
process, applies and delivers messages and serves HTTP; another child, the DICOM process, serves
the DICOM port if the settings have one. So nothing that they do can delay an acknowledgment. All
use the same database; the channel only saves polling, and no message depends on it. Its lines are
JSON arrays, whose first element is the kind:

    to the child:  go NODE, start, listening, closing, stop, more IDS, wait ID SECONDS, ping,
                   metrics FAMILIES
    to the parent: assembled, started, ready, finished ID STATE, pong, metrics, samples FAMILIES,
                   stored

A child that stores a message of a modality in the log says `stored`, and the parent sends `more`
to the service process.

The child creates its parts after `go`, starts them after `start`, and is ready after `listening`.
If it ends, it is started again. At the end of the channel without `stop` the parent was killed, and
the child ends at once. Until then the service holds the slot of the node, so that no other process
claims messages under its name. Other children claim nothing and do not hold it: if one is slow to
end, the node that starts next still gets the name, and with it the claims of the killed one.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol

import structlog
from typing_extensions import override

from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.intake.receive.completion import Completions
from bridge.queue.states import QueueState
from bridge.redaction import describe
from bridge.runtime.node_slot import NodeSlot
from bridge.runtime.schedule import ServicePart

CHANNEL: Final = "BRIDGE_CHANNEL"
"""The environment variable with the descriptors of the channel and the slot, and the name."""
SERVICE: Final = "service"
DICOM: Final = "DICOM"

NICE = 5
"""What the service adds to its nice value: acknowledgments go first when processors are busy."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_MAX_LINE: Final = 64 * 2**20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_GRACE: Final = 2.0  # seconds after the limit of a wait until the intake answers it by itself
_METRICS_SECONDS: Final = 1.5

Action = Callable[..., object]


class ChildProcessEnded(BridgeError):
    """A child process ended before it was ready; it has written the reason."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"the {name} process ended with status {status}")
        self.status = max(status, 1)  # negative after a signal


Samples = list[tuple[str, Mapping[str, str], float]]
"""Values of metrics: name, labels, value."""


class Child(Protocol):
    """The interface of a child process to its parent, a part of that of `subprocess.Popen`."""

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal; None while it runs."""

    def kill(self) -> None:
        """Kill -9."""

    def wait(self) -> int:
        """Wait for the end; return the status."""


def _execute(environment: Mapping[str, str], inherited: Sequence[int]) -> Child:
    return subprocess.Popen(  # noqa: S603  # our own command line
        [sys.executable, *sys.orig_argv[1:]], env=environment, pass_fds=inherited
    )


start_child: Callable[[Mapping[str, str], Sequence[int]], Child] = _execute
"""Runs this command in an environment with inherited descriptors. Tests fork the process first."""


def _do_nothing() -> None:
    """Do nothing with stored messages."""


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; unlike SIG_IGN, this does not pass on to worker processes."""


class Channel:
    """One end of the channel; `actions` are called on the event loop's thread with a line."""

    def __init__(self, end: socket.socket, actions: Mapping[str, Action], ended: Action) -> None:
        self._log = structlog.get_logger("service")
        self._end, self._actions, self._ended = end, actions, ended
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._end, limit=_MAX_LINE)
        self._task = asyncio.create_task(self._read(reader), name="channel")

    def send(self, *line: object) -> None:
        """Send a line; nothing happens while the other end is closed."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while (line := await reader.readline()).endswith(b"\n"):
                kind, *values = json.loads(line)
                try:
                    self._actions[kind](*values)
                except Exception as error:  # noqa: BLE001  # the other lines must be read
                    self._log.error("channel", job=kind, error=describe(error))
        self._ended()


class ChildProcess:
    """A supervised child, and the parent's end of the channel."""

    def __init__(self, name: str, node: str, *held: int) -> None:
        """Start the child, which loads its modules and waits; it holds the descriptors `held`."""
        self._log = structlog.get_logger("service")
        self._name, self._held = name, held
        self.node = node
        """The name of this node."""
        self._pause = _FIRST_PAUSE
        self._ready_once = self._listening = self._stopping = False
        self._answered = True
        self._restart: asyncio.Task[None] | None = None
        self.samples: Samples = []
        """The metrics that the child has sent last."""
        self.on_stored: Callable[[], object] = _do_nothing
        """Called when the child has stored messages in the log."""
        self._spawn()

    def _spawn(self) -> None:
        self._end, theirs = socket.socketpair()
        inherited = (theirs.fileno(), *self._held)
        environment = {**os.environ, CHANNEL: " ".join(map(str, (*inherited, self._name)))}
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            environment.pop(name, None)
        # The child begins with blocked signals, so that none ends it while it loads.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._process = start_child(environment, inherited)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()

    async def open(self) -> None:
        """Open the channel; return when the child has created its parts."""
        await self._connect()
        await self._await_first(self._assembled)

    async def start(self) -> None:
        """Start the parts of the child. Raises ChildProcessEnded."""
        self._channel.send("start")
        await self._await_first(self._started)

    async def listen(self) -> None:
        """Report that the listeners are open; return when the child is ready."""
        self._listening = True
        self._channel.send("listening")
        await self._await_first(self._ready)
        self._ready_once = True

    async def close(self) -> None:
        """Report that the listeners close: the child is not ready any more."""
        self._listening = False
        self._channel.send("closing")

    async def stop(self) -> None:
        """Stop the child, and wait for its end."""
        self._stopping = True
        if self._restart is not None:
            self._restart.cancel()
        if not self._started.is_set():
            self.kill()  # it is being started again
        self._channel.send("stop")
        try:
            await self._exit_status()
        finally:
            self.kill()  # it took too long
            self._channel.close()

    def kill(self) -> None:
        """End the child at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def is_alive(self) -> bool:
        """True if the child has answered since the last call, or is being started again."""
        if not self._started.is_set():
            return True
        answered, self._answered = self._answered, False
        self._channel.send("ping")
        return answered

    async def _connect(self) -> None:
        self._end.setblocking(False)
        self._assembled, self._started, self._ready, self._over = (
            asyncio.Event() for _ in range(4)
        )
        self._answered = True
        self._channel = Channel(self._end, self._actions(), self._ended)
        await self._channel.open()
        self._channel.send("go", self.node)

    def _actions(self) -> dict[str, Action]:
        return {
            "assembled": self._assembled.set,
            "started": self._started.set,
            "ready": self._ready.set,
            "pong": self._note_answer,
            "samples": self._note_samples,
            "stored": self._note_stored,
        }

    async def _await_first(self, event: asyncio.Event) -> None:
        """Wait for an event. Raises ChildProcessEnded."""
        tasks = [asyncio.create_task(awaited.wait()) for awaited in (event, self._over)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        if not event.is_set():
            raise ChildProcessEnded(self._name, await self._exit_status())

    async def _exit_status(self) -> int:
        """Wait for the end of the child, which closes the channel."""
        await self._over.wait()
        return await Threads.JOBS.run(self._process.wait)

    def _note_answer(self) -> None:
        self._answered = True

    def _note_samples(self, samples: Samples) -> None:
        self.samples = samples

    def _note_stored(self) -> None:
        self.on_stored()

    def _ended(self) -> None:
        self._over.set()
        if not self._stopping and self._ready_once:
            self._restart = asyncio.create_task(self._start_again(), name=f"{self._name} process")

    async def _start_again(self) -> None:
        status = await self._exit_status()
        self._channel.close()
        self._log.error(f"{self._name} process ended, starting it again", status=status)
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._spawn()
        await self._connect()
        with suppress(ChildProcessEnded):  # `_ended` starts it again
            await self._await_first(self._assembled)
            await self.start()
            self._resume()
            if self._listening:
                await self.listen()
            self._pause = _FIRST_PAUSE

    def _resume(self) -> None:
        """Tell a child that was started again what is in progress."""

    def part(self) -> ServicePart:
        """Return the part that starts and stops the child as a whole."""

        async def start() -> None:
            await self.start()
            await self.listen()

        return ServicePart(f"{self._name} process", start, self.stop)


class ServiceProcess(ChildProcess):
    """The child of the intake that applies messages."""

    def __init__(self, slot: NodeSlot, metrics: Callable[[], Samples]) -> None:
        """`metrics` returns those of the intake, and of its other children."""
        self._metrics = metrics
        self._waits: dict[int, tuple[float, asyncio.Future[QueueState]]] = {}
        super().__init__(SERVICE, slot.name, slot.descriptor)

    def more(self, acknowledged: Sequence[int]) -> None:
        """Report stored messages, and the ids of those whose acknowledgments were sent."""
        self._channel.send("more", acknowledged)

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[QueueState]":
        """Resolve when the message is finished, or with its state after `limit` seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[QueueState] = loop.create_future()
        self._waits[message_id] = loop.time() + limit, future
        self._channel.send("wait", message_id, limit)
        # The service answers at the limit, unless it is being started again.
        timer = loop.call_later(limit + _GRACE, self._finished, message_id, QueueState.QUEUED.value)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    @override
    def _actions(self) -> dict[str, Action]:
        return {
            **super()._actions(),
            "finished": self._finished,
            "metrics": lambda: self._channel.send("metrics", self._metrics()),
        }

    @override
    def _resume(self) -> None:
        now = asyncio.get_running_loop().time()
        for message_id, (until, _) in self._waits.items():
            self._channel.send("wait", message_id, max(0.0, until - now))
        self._channel.send("more", [])

    def _finished(self, message_id: int, state: str) -> None:
        waiting = self._waits.pop(message_id, None)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(QueueState(state))


class ParentChannel:
    """The child's end of the channel."""

    def __init__(self, value: str) -> None:
        *descriptors, self.name = value.split()
        end, *held = map(int, descriptors)
        for descriptor in (end, *held):
            os.set_inheritable(descriptor, False)
        self._end = socket.socket(fileno=end)
        self._actions: dict[str, Action] = {}
        self._channel = Channel(self._end, self._actions, self._ended)
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics: asyncio.Future[object] | None = None

    async def open(self, stop: asyncio.Event) -> str:
        """Open the channel; return the name of the node when the databases are migrated."""
        for number in _SIGNALS:
            # systemd and terminals signal both processes; the parent decides when this one stops.
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, _ignore)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.nice(NICE)
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._end.setblocking(False)
        node: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._begin, self._listening, self._closing = (asyncio.Event() for _ in range(3))
        self._actions |= {
            "go": node.set_result,
            "start": self._begin.set,
            "listening": self._listening.set,
            "closing": self._closing.set,
            "stop": self._end_all,
            "ping": lambda: self._channel.send("pong"),
            "metrics": self._take_metrics,
        }
        await self._channel.open()
        return await node

    def connect(self, more: Action, completions: Completions) -> None:
        """Connect the worker: `more` is called with the ids of sent acknowledgments."""

        async def answer(message_id: int, limit: float) -> None:
            state = await completions.wait(message_id, limit)
            self._channel.send("finished", message_id, state.value)

        self._actions |= {"more": more, "wait": lambda *wait: self._run(answer(*wait))}

    async def begin(self) -> None:
        """Report that all parts are created; return when they are to be started."""
        self._channel.send("assembled")
        await self._begin.wait()

    def readiness(self, ready: ServicePart) -> ServicePart:
        """Return the last part: the process is ready while the listeners are open."""

        async def end() -> None:
            await self._closing.wait()
            await ready.stop()

        async def start() -> None:
            self._channel.send("started")
            await self._listening.wait()
            await ready.start()
            self._channel.send("ready")
            self._run(end())

        return ServicePart(ready.name, start, ready.stop)

    def send_samples(self, samples: Samples) -> None:
        """Send the metrics of this process, for the page of the parent."""
        self._channel.send("samples", samples)

    def report_stored(self) -> None:
        """Report that a message was stored in the log. From any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._channel.send, "stored")

    def _end_all(self) -> None:
        for event in (self._stop, self._begin, self._listening, self._closing):
            event.set()

    async def metrics(self) -> Any:
        """Return the samples of the intake's metrics; None if it does not send them in time."""
        if self._metrics is None or self._metrics.done():
            self._metrics = asyncio.get_running_loop().create_future()
            self._channel.send("metrics")
        await asyncio.wait([self._metrics], timeout=_METRICS_SECONDS)
        return self._metrics.result() if self._metrics.done() else None

    def _take_metrics(self, families: object) -> None:
        if self._metrics is not None and not self._metrics.done():
            self._metrics.set_result(families)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ended(self) -> None:
        if not self._stop.is_set():
            os._exit(1)  # the parent was killed: end as if this were one process
