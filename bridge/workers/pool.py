"""
Pools of sealed worker processes.

A task is a function `(payload: bytes, arguments: Mapping) -> bytes | JSON` in the dictionary
`TASKS` of one of the pool's modules. Each call runs in a separate process, which is confined
(`confinement`): it has an empty environment, no network, no files except the standard library's, no
further processes, and limits on time, memory and the size of its answer. A module with tasks must
import everything that the tasks need at its top: an import inside a task finds the standard library
only.

Payload and answer are bytes or JSON; the output of a worker is never unpickled or run.

* HOOKS      administrators' Python hooks: part of message processing, same priority as the service
* PARSERS    uploaded documents: lower priority than the service

The modules of PARSERS are listed in `_PARSERS`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.workers import zygote
from bridge.workers.errors import WorkerFailed, WorkerTimeout
from bridge.workers.host import MEBIBYTE, START_WITHIN, WorkerHost

_MARGIN = 5.0  # seconds after the limit of a call until its worker is replaced
_MOST_NAMES = 32  # class names of an exception


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
        given = {"modules": list(modules), "memory": memory, "nice": nice}
        super().__init__(name, zygote.__name__, given, size=size, waiting=waiting, idle=idle)

    def call(
        self,
        task: str,
        payload: bytes = b"",
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        processor: int | None = None,
        most: int = 16 * MEBIBYTE,
        wait: float | None = None,
    ) -> Any:
        """
        Run a task in a worker; return its answer: bytes or a JSON value.

        The call may take `seconds` of wall-clock time and `processor` seconds of computing
        (default: as many), may answer `most` bytes, and waits up to `wait` seconds for a free
        worker (default: `seconds`). Raises WorkerTimeout, WorkerBusy, WorkerFailed.
        """
        limits = {"seconds": seconds, "processor": processor or max(1, round(seconds))}
        call = {"task": task, "arguments": dict(arguments or {}), "most": most, **limits}
        body = json.dumps(call).encode()
        patience = seconds if wait is None else wait
        return _read_answer(self.ask(body, payload, seconds=seconds + _MARGIN, wait=patience))

    def protections(self) -> list[str]:
        """Return the confinement of a call's process, in the order of `ALL_PROTECTIONS`."""
        sealed = self.call(zygote.PROTECTIONS, seconds=10, wait=START_WITHIN)
        return [*self.active, *sealed]


def _read_answer(answer: bytes) -> Any:
    """Read the answer of a worker. Raises WorkerTimeout, WorkerFailed."""
    verdict, kind, said = answer[:1], answer[1:2], answer[2:]
    if verdict == zygote.OVERDUE:
        raise WorkerTimeout
    if verdict != zygote.ANSWERED:
        raise WorkerFailed
    if kind == zygote.BYTES_ANSWER:
        return said
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        raise WorkerFailed from None
    if kind != zygote.RAISED:
        return found
    names = found[:_MOST_NAMES] if isinstance(found, list) else []
    raise WorkerFailed(tuple(each for each in names if isinstance(each, str)))


_PARSERS = ("bridge.engine.documents.uploads.tasks", "bridge.admin.packages.tasks")

HOOKS = WorkerPool("hooks", ["bridge.workers.hook_tasks"], size=max(2, min(4, os.cpu_count() or 2)))
PARSERS = WorkerPool("parsers", _PARSERS, size=2, memory=1024 * MEBIBYTE, nice=10, waiting=32)
