"""
What peers do, and whom the port refuses: once a minute in the log, and in the audit trail; every
two seconds in the database, for the console.

Any address can cause refusals, and a modality asks twice a minute. So refusals are counted by
reason, source and peer, at most `MAX_SOURCES` sources, and a peer has one audit event an hour, the
first one within a minute. The console also shows refused AE titles, at most `MAX_TITLES` of a
source at a time.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import structlog

from bridge.audit import outbox
from bridge.audit.events import AuditEvent, Outcome
from bridge.network_source import source_of
from bridge.store.database import Database
from bridge.store.records import dicom_peers
from bridge.store.records.dicom_peers import PeerActivity, RefusalKey

MAX_SOURCES: Final = 20
OTHER_SOURCES: Final = "other addresses"
MAX_TITLES: Final = 10
_MAX_KEYS: Final = 200
"""Refusals with their titles that are kept until they are stored."""
_MAX_TITLE: Final = 16  # PS3.5 6.2, AE
HOUR: Final = 3_600_000
RECEIVED: Final = frozenset({"N-CREATE", "N-SET", "C-STORE", "STOW-RS"})
"""Requests that bring something, other than queries."""


class Refusal(NamedTuple):
    """Why and whom the port refused; `peer` is the AE title of a configured peer, or `OTHER`."""

    reason: str
    source: str
    peer: str


OTHER: Final = "other"
_Key = TypeVar("_Key")
Refusals = Mapping[Refusal, int]


class Activity:
    """Counts requests and refusals until they are reported. For threads."""

    def __init__(
        self, database: Database, on_refusals: Callable[[Refusals], object] | None = None
    ) -> None:
        """`on_refusals` gets the refusals since the last report."""
        self._database, self._on_refusals = database, on_refusals
        self._log = structlog.get_logger("dicom")
        self._lock = threading.Lock()
        self._to_log: Counter[Refusal] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._requests: dict[tuple[str, str], Counter[str]] = {}
        self._audited: dict[tuple[str, ...], int] = {}
        self._peers: dict[str, PeerActivity] = {}
        self._titles: Counter[RefusalKey] = Counter()

    def note_association(self, peer: str, address: str) -> None:
        """Note that an association of a peer was accepted; its time is that of the next `store`."""
        with self._lock:
            known = self._peers.get(peer, PeerActivity())
            self._peers[peer] = replace(known, address=address, associated_at=0)

    def note_refusal(
        self, reason: str, address: str, title: str = "", is_peer: bool = True
    ) -> None:
        """Count a connection, association or request that was refused; `title` may be unknown."""
        peer = title if title and is_peer else OTHER
        source = source_of(address)
        shown = "".join(sign if sign.isprintable() else "?" for sign in title[:_MAX_TITLE])
        with self._lock:
            self._count_title(RefusalKey(source, shown, reason))
            others = Refusal(reason, OTHER_SOURCES, peer)
            _count(self._to_log, Refusal(reason, source, peer), others)
            _count(self._refused, (reason, source), (reason, OTHER_SOURCES))

    def note_request(self, peer: str, request: str, answers: int) -> None:
        """Count a request of a peer, and the steps that it got."""
        with self._lock:
            counts = self._requests.setdefault((peer, request), Counter())
            counts["requests"] += 1
            counts["answers"] += answers
            known = self._peers.get(peer, PeerActivity())
            self._peers[peer] = replace(known, request=request, requested_at=0, answers=answers)

    def store(self, now: int) -> None:
        """Store what happened since the last call, for the console; blocking."""
        with self._lock:
            peers, self._peers = self._peers, {}
            titles, self._titles = self._titles, Counter()
        if not (peers or titles):
            return
        timed = {
            title: replace(
                peer,
                associated_at=None if peer.associated_at is None else now,
                requested_at=None if peer.requested_at is None else now,
            )
            for title, peer in peers.items()
        }
        with self._database.write() as connection:
            dicom_peers.store_peers(connection, timed)
            dicom_peers.store_refusals(connection, titles, now)

    def _count_title(self, key: RefusalKey) -> None:
        if key not in self._titles:
            if sum(known.address == key.address for known in self._titles) >= MAX_TITLES:
                key = key._replace(title="")
            if len(self._titles) >= _MAX_KEYS:
                key = RefusalKey(OTHER_SOURCES, "", key.reason)
        self._titles[key] += 1

    def report(self, now: int) -> None:
        """Log the refusals since the last report, and store the audit events that are due."""
        with self._lock:
            to_log, self._to_log = self._to_log, Counter()
            events = list(self._due(now))
        for (reason, source, peer), count in sorted(to_log.items()):
            self._log.warning(
                "DICOM peer refused", reason=reason, address=source, peer=peer, count=count
            )
        if to_log and self._on_refusals is not None:
            self._on_refusals(to_log)
        if events:
            with self._database.write() as connection:
                for event in events:
                    outbox.add(connection, event, now)

    def _due(self, now: int) -> Iterator[AuditEvent]:
        for key, at in list(self._audited.items()):
            if at <= now - HOUR:
                del self._audited[key]
        for reason, source in list(self._refused):
            if ("refused", reason, source) not in self._audited:
                self._audited["refused", reason, source] = now
                details = {"reason": reason, "count": self._refused.pop((reason, source))}
                yield AuditEvent(
                    "dicom-refused", outcome=Outcome.REFUSED, source=source, details=details
                )
        for peer, request in list(self._requests):
            if (peer, request) not in self._audited:
                self._audited[peer, request] = now
                found = self._requests.pop((peer, request))
                yield AuditEvent(
                    "dicom-received" if request in RECEIVED else "dicom-query",
                    target=("dicom-peer", peer),
                    details={"request": request, **found},
                )


def _count(counts: Counter[_Key], key: _Key, others: _Key) -> None:
    """Count a key, or `others` if there are too many keys."""
    counts[key if key in counts or len(counts) < MAX_SOURCES else others] += 1
