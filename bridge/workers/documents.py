"""
The one way to parse a document that a user brought: in a worker process, within its limits.

`parse` runs a task of `pools.PARSERS`. A document that exceeds the limits of time or memory is
refused like a malformed one: `TooCostly`. Calls block: make them in a thread, outside of
transactions and locks.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.workers.errors import WorkerFailed, WorkerTimeout
from bridge.workers.pool import PARSERS
from parsers.limits import DOCUMENTS_OF_A_REQUEST, Limits

_CLOCK_FACTOR: Final = 5
"""Seconds by the clock for each second of processor time, on a busy machine."""
_WAIT: Final = 10.0  # seconds for a free worker
_ANSWER: Final = 64 * 2**20  # bytes


class TooCostly(BridgeError):  # noqa: N818  # named for what happened
    """The document cannot be parsed within the limits of time and memory."""

    def __init__(self) -> None:
        super().__init__("the document is too costly to read")


class Unparsable(BridgeError):  # noqa: N818  # named for what happened
    """The parser raised an error of its own; `nature` is the name of its class."""

    def __init__(self, nature: str) -> None:
        self.nature = nature
        super().__init__("the document cannot be read")


class Budget:
    """Seconds by the clock that worker processes may spend on the documents of one request."""

    def __init__(self, seconds: float = DOCUMENTS_OF_A_REQUEST) -> None:
        self._left = seconds

    def spend(self, seconds: float) -> None:
        """Count what a call took."""
        self._left -= seconds

    @property
    def left(self) -> float:
        """Seconds that are left; raises TooCostly where there are none."""
        if self._left <= 0:
            raise TooCostly
        return self._left


def parse(
    task: str,
    document: bytes,
    arguments: Mapping[str, Any] | None = None,
    *,
    limits: Limits,
    budget: Budget | None = None,
) -> Any:
    """
    Give what a task makes of a document: bytes, or what JSON can say.

    Raises TooCostly, Unparsable, and WorkerBusy where no worker becomes free.
    """
    budget = budget or Budget()
    seconds = min(float(limits.seconds * _CLOCK_FACTOR), budget.left)
    begun = time.monotonic()
    try:
        return PARSERS.call(
            task,
            document,
            arguments,
            seconds=seconds,
            processor=limits.seconds,
            most=_ANSWER,
            wait=_WAIT,
        )
    except WorkerTimeout:
        raise TooCostly from None
    except WorkerFailed as failure:
        # A worker without a name ended by itself: it had no memory left, or answered too much.
        if not failure.names or "MemoryError" in failure.names:
            raise TooCostly from None
        raise Unparsable(failure.names[0]) from None
    finally:
        budget.spend(time.monotonic() - begun)
