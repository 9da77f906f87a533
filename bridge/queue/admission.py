"""
Decide which arrivals are new.

Pure: the rows that are already stored come in, rulings go out. Same identity and same content
is a retransmit; same identity and other content is another message, for senders restart their
counters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.queue.arrivals import Arrival
from bridge.queue.states import State

_NEGATIVE = frozenset({"AE", "AR", "CE", "CR"})
_Key = tuple[int, int]


class Stored(NamedTuple):
    """What admission must know of a stored message."""

    identity: int
    digest: int
    edition: int
    message_id: int
    ack_code: str


class Ruling(NamedTuple):
    """New (`edition` counts from 0), or a copy of a stored message or of one in this batch."""

    edition: int
    reused: bool = False
    stored: int | None = None
    twin: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether a row is to be written."""
        return self.stored is None and self.twin is None


@dataclass(slots=True)
class _Known:
    """The latest with one identity and content: stored, or at a position of the batch."""

    edition: int
    refused: bool
    stored: int | None
    twin: int | None


def short(digest: bytes) -> int:
    """Give the 64 bits of a digest that are stored."""
    return int.from_bytes(digest[:8], signed=True)


NEW = Ruling(edition=0)
"""What a message is whose identity nobody knows."""


def rule(arrivals: Sequence[Arrival], stored: Sequence[Stored]) -> list[Ruling]:
    """
    Give one ruling for each arrival, in order.

    `stored` are all messages that share an identity with an arrival. Where a copy was refused
    and would now be accepted, it is a new message: to repeat the refusal would be a lie, for
    a definition or setting has been put right since.
    """
    if not stored and len({arrival.identity for arrival in arrivals}) == len(arrivals):
        return [NEW] * len(arrivals)  # nearly always
    known = _latest(stored)
    contents: dict[int, set[int]] = {}
    for (identity, content), each in known.items():
        if not each.refused:  # what was never taken has used no control id
            contents.setdefault(identity, set()).add(content)
    rulings = []
    for position, arrival in enumerate(arrivals):
        content = short(arrival.digest)
        others = contents.setdefault(arrival.identity, set())
        reused = len(others) > (content in others)
        refused = _is_refused(arrival, reused)
        before = known.get((arrival.identity, content))
        if before is not None and (refused or not before.refused):
            rulings.append(Ruling(before.edition, stored=before.stored, twin=before.twin))
            continue
        edition = before.edition + 1 if before else 0
        rulings.append(Ruling(edition, reused))
        known[arrival.identity, content] = _Known(edition, refused, None, position)
        if not refused:
            others.add(content)
    return rulings


def _latest(stored: Iterable[Stored]) -> dict[_Key, _Known]:
    known: dict[_Key, _Known] = {}
    for row in stored:
        key = (row.identity, row.digest)
        if key not in known or known[key].edition < row.edition:
            refused = row.ack_code in _NEGATIVE
            known[key] = _Known(row.edition, refused, row.message_id, None)
    return known


def _is_refused(arrival: Arrival, reused: bool) -> bool:
    return arrival.state is State.REFUSED or (reused and arrival.refuse_reuse is not None)
