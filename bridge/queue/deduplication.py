"""
Deduplication: decide which arrivals are new.

The same identity and the same content is a retransmit. The same identity and other content is
another message, because senders restart their counters. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.queue.arrivals import Arrival
from bridge.queue.digests import stored_digest
from bridge.queue.states import QueueState

_NEGATIVE = frozenset({"AE", "AR", "CE", "CR"})
_Key = tuple[int, int]


class StoredMessage(NamedTuple):
    """The columns of a stored message that `decide` compares."""

    identity: int
    digest: int
    edition: int
    message_id: int
    ack_code: str


class AdmissionDecision(NamedTuple):
    """
    Whether an arrival is new, or a copy of a stored message or of one in this batch.

    `edition` counts the messages with this identity and content, from 0. `reused`: a message with
    other content has used the control id. Of a copy, `stored` is the id of the stored original, or
    `batch_position` the position of the original in the batch. `first_part` is set for a later part
    that is not stored, because its message is a copy or refused: the position of the first part.
    """

    edition: int
    reused: bool = False
    stored: int | None = None
    batch_position: int | None = None
    first_part: int | None = None

    @property
    def is_copy(self) -> bool:
        """Whether the original is known."""
        return self.stored is not None or self.batch_position is not None

    @property
    def is_new(self) -> bool:
        """Whether a row is written."""
        return not self.is_copy and self.first_part is None


@dataclass(slots=True)
class _Known:
    """The latest message with an identity and content: stored, or at a position of the batch."""

    edition: int
    refused: bool
    stored: int | None
    batch_position: int | None

    def copied(self) -> AdmissionDecision:
        return AdmissionDecision(
            self.edition, stored=self.stored, batch_position=self.batch_position
        )


NEW_MESSAGE = AdmissionDecision(edition=0)
"""The decision for an unknown identity."""


def decide(arrivals: Sequence[Arrival], stored: Sequence[StoredMessage]) -> list[AdmissionDecision]:
    """
    Return one decision for each arrival, in order.

    `stored` are all messages that share an identity with an arrival. If a copy was refused and
    would now be accepted, it is a new message: a definition or setting has been corrected since.
    The parts of a message follow its first part.
    """
    if not stored and len({arrival.identity for arrival in arrivals}) == len(arrivals):
        return [NEW_MESSAGE] * len(arrivals)  # the usual case
    known = _latest(stored)
    contents = _accepted_contents(known)
    decisions: list[AdmissionDecision] = []
    first = 0  # position of the first part
    for position, arrival in enumerate(arrivals):
        content = stored_digest(arrival.digest)
        others = contents.setdefault(arrival.identity, set())
        if arrival.is_later_part:
            reused = decisions[first].reused
            is_left_out = not _is_accepted(arrivals[first], decisions[first])
        else:
            first, is_left_out = position, False
            reused = len(others) > (content in others)
        refused = _is_refused(arrival, reused)
        before = known.get((arrival.identity, content))
        if before is not None and (refused or is_left_out or not before.refused):
            decisions.append(before.copied())
            continue
        if is_left_out:
            decisions.append(AdmissionDecision(0, first_part=first))
            continue
        edition = before.edition + 1 if before else 0
        decisions.append(AdmissionDecision(edition, reused))
        known[arrival.identity, content] = _Known(edition, refused, None, position)
        if not refused:
            others.add(content)
    return decisions


def _latest(stored: Iterable[StoredMessage]) -> dict[_Key, _Known]:
    known: dict[_Key, _Known] = {}
    for row in stored:
        key = (row.identity, row.digest)
        if key not in known or known[key].edition < row.edition:
            refused = row.ack_code in _NEGATIVE
            known[key] = _Known(row.edition, refused, row.message_id, None)
    return known


def _accepted_contents(known: Mapping[_Key, _Known]) -> dict[int, set[int]]:
    """Return the contents by identity; a refused message has not used its control id."""
    contents: dict[int, set[int]] = {}
    for (identity, content), earlier in known.items():
        if not earlier.refused:
            contents.setdefault(identity, set()).add(content)
    return contents


def _is_refused(arrival: Arrival, reused: bool) -> bool:
    return arrival.state is QueueState.REFUSED or (reused and arrival.refuse_reuse is not None)


def _is_accepted(arrival: Arrival, decision: AdmissionDecision) -> bool:
    return decision.is_new and not _is_refused(arrival, decision.reused)
