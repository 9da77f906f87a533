"""
Ordinary messages: orders that fit a stencil of one that was accepted, recorded in one step.

Their senders repeat themselves: who sent it, which definition takes it, what it is answered and
what of it is stored is the same in all but the numbers. Whatever differs goes the long way, of
which this is a copy in every respect, and is asked whether it should be a stencil too.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from bridge.intake.identity import digest, lane
from bridge.intake.listening import Acknowledge, Listening, Replies, Reuse
from bridge.intake.verdict import Verdict
from bridge.queue.arrivals import Arrival
from bridge.queue.hashing import Numbering
from bridge.queue.states import State
from mappings.hl7.ack import Accepting, time_stamp
from mappings.hl7.header import peek
from mappings.hl7.tables import AckCode
from mappings.probes import LARGEST
from mappings.stencils import Stencil

_MOST = 4  # stencils of a listener: they are tried one after the other
_FIRST, _LAST = 4, 4096  # messages the long way between one attempt to cut a stencil and the next


class _Kind(NamedTuple):
    """A stencil, and what is the same in all records of messages that fit it."""

    stencil: Stencil
    accepting: Accepting
    numbering: Numbering
    message_type: str
    mapping: str
    mapping_version: str


class OrdinaryMessages:
    """
    The stencils of one listener. Learns from messages that were accepted the long way.

    To cut one costs as much as many messages: where they come to nothing, hardly any are cut.
    """

    def __init__(self, listening: Listening, new_id: Callable[[], str]) -> None:
        """Take the listener's policy and a source of control ids."""
        self._name, self._site = listening.name, listening.site
        self._suits = _suits(listening)
        self._new_id = new_id
        self._kinds: tuple[_Kind, ...] = ()
        self._missed, self._patience = 0, _FIRST

    def arrival(self, payload: bytes, now: datetime) -> Arrival | None:
        """Make the record of a message that fits a stencil; None for any other."""
        if len(payload) > LARGEST:
            return None  # also where nothing fits, that would take long to see
        for each in self._kinds:
            if (numbers := each.stencil.numbers(payload)) is not None:
                return self._record(each, payload, numbers, now, self._new_id())
        return None

    def learn(self, verdict: Verdict, arrival: Arrival, now: datetime) -> None:
        """Look at what was recorded the long way; cut a stencil of it, now and then."""
        self._missed += 1
        if not self._suits or self._missed < self._patience:
            return
        self._missed, self._patience = 0, min(2 * self._patience, _LAST)
        kind = self._kind(verdict, arrival)
        if kind is not None and self._agrees(kind, arrival, now):
            self._kinds = (kind, *self._kinds)[:_MOST]

    def _kind(self, verdict: Verdict, arrival: Arrival) -> _Kind | None:
        header, definition = verdict.header, verdict.definition
        if header is None or definition is None or verdict.refusals or not arrival.ack:
            return None
        stencil = definition.stencil(arrival.payload, header, self._site)
        if stencil is None:
            return None
        return _Kind(
            stencil,
            Accepting(header),
            Numbering(self._name, header.sending_application, header.sending_facility),
            arrival.message_type,
            arrival.mapping,
            arrival.mapping_version,
        )

    def _agrees(self, kind: _Kind, arrival: Arrival, now: datetime) -> bool:
        """Whether the record that a stencil gives of its own model is the one that there is."""
        numbers = kind.stencil.numbers(arrival.payload)
        if numbers is None:
            return False
        ours = peek(arrival.ack).control_id.decode("ascii", "replace")
        return self._record(kind, arrival.payload, numbers, now, ours) == arrival

    def _record(
        self, kind: _Kind, payload: bytes, numbers: tuple[bytes, bytes], now: datetime, ours: str
    ) -> Arrival:
        control_id, mrn = numbers
        return Arrival(
            self._name,
            kind.numbering(control_id),
            digest(payload),
            payload,
            (lane(f"{self._site}|{mrn.decode()}"),),
            kind.message_type,
            kind.mapping,
            kind.mapping_version,
            kind.accepting(time_stamp(now), ours, control_id),
            AckCode.ACCEPT.value,
            State.QUEUED,
            int(now.timestamp() * 1000),
        )


def _suits(listening: Listening) -> bool:
    """Whether a listener answers all that is in order alike, as soon as it is stored."""
    return (
        listening.acknowledge is not Acknowledge.APPLIED
        and listening.reuse is Reuse.ACCEPT
        and listening.replies is Replies.ACK
        and not listening.commit_blocks
    )
