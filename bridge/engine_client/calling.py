"""
What is asked over HTTP and what comes back, whoever carries it.

No I/O. `bridge.engine_client.connections` carries it to our own engine by few means,
`bridge.engine_client.over_httpx` to any service and in one process.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.engine_client.errors import EngineFailure
from bridge.queue.states import Failure


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `wait`: the seconds of silence before its answer, 0: as many as usual."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | None = None
    query: Mapping[str, Any] | None = None
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whole; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The content as text; all that we ask for is UTF-8."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """Read JSON in whichever of Unicode's encodings. Raises ValueError, RecursionError."""
        return json.loads(self.content)


class Caller(Protocol):
    """Carries requests to one service."""

    async def ask(self, request: Request) -> Answer:
        """Give the answer, whatever its status. Raises EngineFailure where there is none."""

    async def aclose(self) -> None:
        """Close all connections."""


def unreachable(path: str) -> EngineFailure:
    """Nothing was sent."""
    return EngineFailure(path, Failure.TRANSIENT, "unreachable")


def no_answer(path: str) -> EngineFailure:
    """Nobody knows what became of it."""
    return EngineFailure(path, Failure.AMBIGUOUS, "no_answer")


def bad_address(path: str) -> EngineFailure:
    """Nothing can be sent there, however often it is tried."""
    return EngineFailure(path, Failure.PERMANENT, "bad_address")
