"""
Failed TLS handshakes of this process: counted by connection, peer and reason, logged, and kept
until they are stored.

Any peer can cause them, so memory and log are bounded: each connection has a few entries, and the
rest is counted as one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import structlog

from mllp.tls import HandshakeFailure

MAX_ENTRIES = 20
"""Peers and reasons of one connection that are counted separately."""
LOG_SECONDS = 60.0
"""Each peer and reason is logged once in this time, with its count."""
SERVICE = "service"
"""The kind of the connection to the report service."""
DICOM = "DICOM"
"""The kind of the DICOM port."""
DICOM_PORT = "port"
DICOM_REFUSAL = "DICOM refusal"
"""The kind of what the DICOM port refused after a handshake; the name is that of the peer."""
OTHER_PEERS = "other addresses"


class HandshakeKey(NamedTuple):
    """Whose handshake failed, and why. `kind` is listener, destination or one of the above."""

    kind: str
    name: str
    peer: str
    reason: str


@dataclass(slots=True)
class HandshakeCount:
    """How often, since the counts were taken last; times in ms."""

    failure: HandshakeFailure
    count: int
    first_at: int
    last_at: int


@dataclass(slots=True)
class _LogState:
    next_at: float
    count: int = 0


class HandshakeCounts:
    """Counts failed handshakes; for the event loop's thread."""

    def __init__(
        self,
        count: Callable[[str, str], object],
        clock: Callable[[], int],
        timer: Callable[[], float] = monotonic,
    ) -> None:
        """`count` increments a metric by kind and name; `clock` is in ms, `timer` in seconds."""
        self._count = count
        self._clock = clock
        self._timer = timer
        self._log = structlog.get_logger("tls")
        self._counts: dict[HandshakeKey, HandshakeCount] = {}
        self._logged: dict[HandshakeKey, _LogState] = {}

    def note(self, kind: str, name: str, peer: str, failure: HandshakeFailure) -> None:
        """Count one failed handshake, and log it."""
        self._count(kind, name)
        key = HandshakeKey(kind, name, peer, failure.reason)
        if key not in self._counts and self._entries(kind, name) >= MAX_ENTRIES:
            key = key._replace(peer=OTHER_PEERS, reason="several reasons")
            failure = HandshakeFailure(key.reason, is_trouble=failure.is_trouble)
        now = self._clock()
        found = self._counts.setdefault(key, HandshakeCount(failure, 0, now, now))
        found.count += 1
        found.last_at = now
        self._report(key, failure)

    def take(self) -> dict[HandshakeKey, HandshakeCount]:
        """Return the counts, and begin anew."""
        found, self._counts = self._counts, {}
        return found

    def put_back(self, counts: dict[HandshakeKey, HandshakeCount]) -> None:
        for key, count in counts.items():
            present = self._counts.setdefault(key, count)
            if present is not count:
                present.count += count.count
                present.first_at = count.first_at

    def _entries(self, kind: str, name: str) -> int:
        return sum((key.kind, key.name) == (kind, name) for key in self._counts)

    def _report(self, key: HandshakeKey, failure: HandshakeFailure) -> None:
        now = self._timer()
        same = [logged for logged in self._logged if logged[:2] == key[:2]]
        if key not in self._logged and len(same) >= MAX_ENTRIES:
            for logged in same:  # at most MAX_ENTRIES new lines of a connection in LOG_SECONDS
                if self._logged[logged].next_at <= now:
                    del self._logged[logged]
            if sum(logged[:2] == key[:2] for logged in self._logged) >= MAX_ENTRIES:
                return
        state = self._logged.setdefault(key, _LogState(now))
        state.count += 1
        if now >= state.next_at:
            write = self._log.warning if failure.is_trouble else self._log.info
            named = {key.kind: key.name} if key.kind in {"listener", "destination"} else {}
            more = {"subject": failure.subject} if failure.subject else {}
            write(
                "TLS handshake failed",
                **named,
                address=key.peer,
                reason=key.reason,
                count=state.count,
                **more,
            )
            state.next_at, state.count = now + LOG_SECONDS, 0
