"""
What a receiver's reply leads to: one table, which a destination's settings may change.

Pure. Nothing but a positive acknowledgment of this very message counts as delivered; what is
unknown (silence, a cut, a mismatch) is repeated with the same bytes under the same MSH-10.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bridge.queue.states import Event, Failure
from mappings.hl7.ack import read_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import Malformed
from mllp.errors import LossReason


class Reply(StrEnum):
    """Everything that can come of sending a message."""

    AA = "AA"
    AE = "AE"
    AR = "AR"
    CA = "CA"
    CE = "CE"
    CR = "CR"
    MISMATCH = "mismatch"
    SILENCE = "silence"
    GARBAGE = "garbage"


class Action(StrEnum):
    """What is done about it."""

    DELIVERED = "delivered"
    RETRY = "retry"
    PARK = "park"


DEFAULTS: Mapping[Reply, Action] = MappingProxyType(
    {
        Reply.AA: Action.DELIVERED,
        Reply.CA: Action.DELIVERED,
        Reply.AE: Action.RETRY,
        Reply.AR: Action.RETRY,
        Reply.CE: Action.RETRY,
        Reply.CR: Action.RETRY,
        Reply.MISMATCH: Action.RETRY,
        Reply.SILENCE: Action.RETRY,
        Reply.GARBAGE: Action.RETRY,
    }
)

REFUSALS = frozenset({Reply.AE, Reply.AR, Reply.CE, Reply.CR})
"""The receiver has it and does not want it: repeating for ever would not change its mind."""

MOST_REFUSALS = 20
"""Attempts that end in a refusal before a person has to look."""

LOST: Mapping[LossReason, Reply] = MappingProxyType(
    {
        LossReason.TIMEOUT: Reply.SILENCE,
        LossReason.CLOSED: Reply.SILENCE,
        LossReason.GARBAGE: Reply.GARBAGE,
        LossReason.MISMATCH: Reply.MISMATCH,
    }
)


@dataclass(frozen=True, slots=True)
class Consequence:
    """What becomes of a delivery."""

    event: Event
    failure: Failure | None


def answers(sent: bytes, reply: bytes) -> bool:
    """
    Whether a reply is to this message: MSA-2 equals MSH-10.

    An acknowledgment with an empty MSA-2 is taken for the message it follows on the
    connection: some receivers send no other (VA; HL7 pitfall 32).
    """
    ack = read_ack(reply)
    if ack.code is None:
        return False
    try:
        own = peek(sent).control_id
    except Malformed:
        return False
    return ack.control_id in {b"", own}


def read_reply(reply: bytes) -> tuple[Reply, str]:
    """Read what a reply says, and the error condition it names ('' when none)."""
    ack = read_ack(reply)
    if ack.code is None:
        return Reply.GARBAGE, ""
    return Reply(ack.code.value), ack.error_codes[0] if ack.error_codes else ""


def consequence(reply: Reply, replies: Mapping[str, str], attempts: int) -> Consequence:
    """Look up what a reply leads to; `replies` are the destination's own wishes."""
    action = Action(replies.get(reply.value, DEFAULTS[reply]))
    if action is Action.DELIVERED:
        return Consequence(Event.ACCEPTED, None)
    failure = Failure.PERMANENT if reply in REFUSALS else Failure.AMBIGUOUS
    exhausted = reply in REFUSALS and attempts >= MOST_REFUSALS
    if action is Action.PARK or exhausted:
        return Consequence(Event.GIVEN_UP, failure)
    return Consequence(Event.POSTPONED, failure)
