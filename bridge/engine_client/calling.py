"""
What is asked over HTTP and what comes back, whoever carries it.

No I/O. `bridge.engine_client.connections` carries it to our own engine by few means,
`bridge.engine_client.in_process` to one in this process, and `bridge.engine_client.over_httpx`
to any service.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from bridge.engine_client.errors import EngineFailure
from bridge.queue.states import Failure

_SAFE: Final = "/?&=%:@!$'()*+,;~"  # what a path and a query may have, RFC 3986 §3.3, §3.4
_NOT_IN_A_FIELD: Final = frozenset("\r\n\0")  # RFC 9110 §5.5


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


def target(request: Request, base: str) -> str:
    """
    Give what a request asks for: quoted path and query, of a service that is found at `base`.

    Raises EngineFailure where it is another service's, or where a header would end itself.
    """
    path = quote(request.path.removeprefix(base), safe=_SAFE)
    if not path.startswith("/") or any(map(_is_broken, request.headers.values())):
        raise bad_address(request.path)
    if request.query:
        path += ("&" if "?" in path else "?") + _query(request.query)
    return path


def _is_broken(value: str) -> bool:
    """Tell whether a value would end its header."""
    return not _NOT_IN_A_FIELD.isdisjoint(value)


def _query(values: Mapping[str, Any]) -> str:
    """Write a query; what is true or false in JSON's words, each of a list for itself."""
    pairs = [
        (name, {True: "true", False: "false"}[each] if isinstance(each, bool) else each)
        for name, value in values.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    return urlencode(pairs, quote_via=quote)
