"""
Pools of sealed worker processes, and parsing of uploaded documents in one of them.

A task is a function `(payload: bytes, arguments: Mapping) -> bytes | JSON` in the dictionary
`TASKS` of one of the pool's modules. Each call runs in a separate process, which is confined
(`confinement`): it has an empty environment, no network, no files except the standard library's, no
further processes, and limits on time, memory and the size of its answer. A module with tasks must
import everything that the tasks need at its top: an import inside a task finds the standard library
only.

Payload and answer are bytes or JSON; the output of a worker is never unpickled or run.

* HOOKS      administrators' Python hooks: part of message processing, same priority as the service
* PARSERS    uploaded documents: lower priority than the service; `parse` refuses a document that
             exceeds the limits of time or memory

Calls block: make them on a thread, outside of transactions and locks.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.workers import zygote
from bridge.workers.host import MEBIBYTE, START_WITHIN, WorkerFailed, WorkerHost, WorkerTimeout
from parsers.limits import DOCUMENTS_OF_A_REQUEST, Limits

_MARGIN = 5.0  # seconds after the limit of a call until its worker is replaced
_MAX_NAMES = 32  # class names of an exception


class WorkerPool(WorkerHost):
    """
    A host of processes with the same tasks.

    Each process imports `modules`; `memory` is its address space in bytes.
    """

    def __init__(
        self,
        name: str,
        modules: Sequence[str],
        *,
        size: int,
        memory: int = 512 * MEBIBYTE,
        nice: int = 0,
        waiting: int = 64,
        idle: float = 60.0,
    ) -> None:
        arguments = {"modules": list(modules), "memory": memory, "nice": nice}
        super().__init__(name, zygote.__name__, arguments, size=size, waiting=waiting, idle=idle)

    def call(
        self,
        task: str,
        payload: bytes = b"",
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        processor: int | None = None,
        max_bytes: int = 16 * MEBIBYTE,
        wait: float | None = None,
    ) -> Any:
        """
        Run a task in a worker; return its answer: bytes or a JSON value.

        The call may take `seconds` of wall-clock time and `processor` seconds of computing
        (default: as many), may answer `max_bytes` bytes, and waits up to `wait` seconds for a free
        worker (default: `seconds`). Raises WorkerTimeout, WorkerBusy, WorkerFailed.
        """
        limits = {"seconds": seconds, "processor": processor or max(1, round(seconds))}
        call = {"task": task, "arguments": dict(arguments or {}), "max_bytes": max_bytes, **limits}
        body = json.dumps(call).encode()
        wait = seconds if wait is None else wait
        return _read_answer(self.ask(body, payload, seconds=seconds + _MARGIN, wait=wait))

    def protections(self) -> list[str]:
        """Return the confinement of a call's process, in the order of `ALL_PROTECTIONS`."""
        sealed = self.call(zygote.PROTECTIONS, seconds=10, wait=START_WITHIN)
        return [*self.active, *sealed]


def _read_answer(answer: bytes) -> Any:
    """Read the answer of a worker. Raises WorkerTimeout, WorkerFailed."""
    verdict, kind, content = answer[:1], answer[1:2], answer[2:]
    if verdict == zygote.OVERDUE:
        raise WorkerTimeout
    if verdict != zygote.ANSWERED:
        raise WorkerFailed
    if kind == zygote.BYTES_ANSWER:
        return content
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise WorkerFailed from None
    if kind != zygote.RAISED:
        return value
    names = value[:_MAX_NAMES] if isinstance(value, list) else []
    raise WorkerFailed(tuple(name for name in names if isinstance(name, str)))


_PARSERS = (
    "bridge.engine.documents.uploads.tasks",
    "bridge.admin.mirth.tasks",
    "bridge.admin.packages.tasks",
)

HOOKS = WorkerPool("hooks", ["bridge.workers.hook_tasks"], size=max(2, min(4, os.cpu_count() or 2)))
PARSERS = WorkerPool("parsers", _PARSERS, size=2, memory=1024 * MEBIBYTE, nice=10, waiting=32)


_CLOCK_FACTOR: Final = 5
"""Wall-clock seconds for each second of processor time, on a busy machine."""
_WAIT_SECONDS: Final = 10.0  # for a free worker
_MAX_ANSWER_BYTES: Final = 64 * 2**20


class DocumentTooCostly(BridgeError):
    """The document cannot be parsed within the limits of time and memory."""

    def __init__(self) -> None:
        super().__init__("the document needs too much time or memory to be read")


class DocumentUnparsable(BridgeError):
    """The parser raised an exception; `error_class` is the name of its class."""

    def __init__(self, error_class: str) -> None:
        self.error_class = error_class
        super().__init__("the document cannot be read")


class ParsingBudget:
    """Wall-clock seconds that worker processes may spend on the documents of one request."""

    def __init__(self, seconds: float = DOCUMENTS_OF_A_REQUEST) -> None:
        self._left = seconds

    def spend(self, seconds: float) -> None:
        """Count the time of a call."""
        self._left -= seconds

    @property
    def left(self) -> float:
        """The remaining seconds; raises DocumentTooCostly if there are none."""
        if self._left <= 0:
            raise DocumentTooCostly
        return self._left


def parse(
    task: str,
    document: bytes,
    arguments: Mapping[str, Any] | None = None,
    *,
    limits: Limits,
    budget: ParsingBudget | None = None,
) -> Any:
    """
    Run a parsing task on a document; return bytes or a JSON value.

    Raises DocumentTooCostly, DocumentUnparsable, and WorkerBusy if no worker becomes free.
    """
    budget = budget or ParsingBudget()
    seconds = min(float(limits.seconds * _CLOCK_FACTOR), budget.left)
    begun = time.monotonic()
    try:
        return PARSERS.call(
            task,
            document,
            arguments,
            seconds=seconds,
            processor=limits.seconds,
            max_bytes=_MAX_ANSWER_BYTES,
            wait=_WAIT_SECONDS,
        )
    except WorkerTimeout:
        raise DocumentTooCostly from None
    except WorkerFailed as failure:
        # No class name means that the worker ended: it ran out of memory, or its answer was too
        # large.
        if not failure.names or "MemoryError" in failure.names:
            raise DocumentTooCostly from None
        raise DocumentUnparsable(failure.names[0]) from None
    finally:
        budget.spend(time.monotonic() - begun)
