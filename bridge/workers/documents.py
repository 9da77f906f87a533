"""Parsing of uploaded documents in a worker process, within its limits.

`parse` runs a task of `pool.PARSERS`. A document that exceeds the limits of time or memory is
refused: `DocumentTooCostly`. Calls block: make them on a thread, outside of transactions and
locks.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.workers.errors import WorkerFailed, WorkerTimeout
from bridge.workers.pool import PARSERS
from parsers.limits import DOCUMENTS_OF_A_REQUEST, Limits

_CLOCK_FACTOR: Final = 5
"""Wall-clock seconds for each second of processor time, on a busy machine."""
_WAIT: Final = 10.0  # seconds for a free worker
_ANSWER: Final = 64 * 2**20  # bytes


class DocumentTooCostly(BridgeError):  # noqa: N818  # named for what happened
    """The document cannot be parsed within the limits of time and memory."""

    def __init__(self) -> None:
        super().__init__("the document is too costly to read")


class DocumentUnparsable(BridgeError):  # noqa: N818  # named for what happened
    """The parser raised an exception; `nature` is the name of its class."""

    def __init__(self, nature: str) -> None:
        self.nature = nature
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
            most=_ANSWER,
            wait=_WAIT,
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
