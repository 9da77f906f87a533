"""
What a receiver's reply leads to: one table, which a destination's settings may change.

Pure. Nothing but a positive acknowledgment of this very message counts as delivered; what is
unknown (silence, a cut, a mismatch) is repeated with the same bytes under the same MSH-10.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bridge.errors import BridgeError, FailureKind
from bridge.queue.states import QueueEvent
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import MalformedMessage
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
    HTTP = "http"
    """An HTTP status, and no acknowledgment."""


class Action(StrEnum):
    """What is done about it."""

    DELIVERED = "delivered"
    RETRY = "retry"
    PARK = "park"
    SKIP = "skip"
    """Not sent again; whoever watches is told."""
    PAUSE = "pause"
    """The destination is paused until somebody resumes it; the message stays its first."""


MOST_REFUSALS = 20
"""Attempts that end in a refusal before a person has to look."""

_REFUSED = f"retry {MOST_REFUSALS} then park"
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "AA": "delivered",
        "CA": "delivered",
        # The receiver has it and does not want it: for ever would not change its mind.
        "AE": _REFUSED,
        "AR": _REFUSED,
        "CE": _REFUSED,
        "CR": _REFUSED,
        # Nobody knows: the same bytes under the same MSH-10 until somebody answers.
        "mismatch": "retry",
        "silence": "retry",
        "garbage": "retry",
        "http": _REFUSED,
        "http 408": "retry",
        "http 425": "retry",
        "http 429": "retry",
        "http 5xx": "retry",
    }
)
"""
What each reply leads to. `AE 206` (an ERR-3), `silence closed`, `http 404` stand before `AE 2xx`,
`http 4xx`, and these before `AE` and `http`. A destination's own wishes stand before all of them.
"""

LIMITED = frozenset({Reply.AE, Reply.AR, Reply.CE, Reply.CR})
"""A plain `retry` of these ends as the default does."""

REFUSALS = LIMITED | {Reply.HTTP}
"""It arrived, and the receiver said no."""

_RULE = re.compile(r"retry (\d+) then (park|skip|pause)")

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
    """What becomes of a delivery, and whether its destination is paused for it."""

    event: QueueEvent
    failure: FailureKind | None
    pause: bool = False


class NoAnswer(BridgeError):  # noqa: N818  # named for what it is
    """What came is no acknowledgment of anything."""


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
    except MalformedMessage:
        return False
    return ack.control_id in {b"", own}


def answers_here(sent: bytes, reply: bytes) -> bool:
    """As `answers`, of what came where an acknowledgment must; raises NoAnswer if it is none."""
    if read_ack(reply).code is None:
        raise NoAnswer
    return answers(sent, reply)


def read_reply(reply: bytes) -> tuple[Reply, str]:
    """Read what a reply says, and the error condition it names ('' when none)."""
    ack = read_ack(reply)
    if ack.code is None:
        return Reply.GARBAGE, ""
    return Reply(ack.code.value), ack.error_codes[0] if ack.error_codes else ""


def consequence(
    reply: Reply, replies: Mapping[str, str], attempts: int, detail: str = ""
) -> Consequence:
    """
    Look up what a reply leads to; `replies` are the destination's own wishes.

    `detail` is its ERR-3, its HTTP status, or how the answer was lost. A plain `retry`
    is for ever but for the LIMITED.
    """
    action = _due(rule_for(reply, replies, detail), attempts, limited=reply in LIMITED)
    failure = FailureKind.PERMANENT if reply in REFUSALS else FailureKind.AMBIGUOUS
    match action:
        case Action.DELIVERED:
            return Consequence(QueueEvent.ACCEPTED, None)
        case Action.PARK:
            return Consequence(QueueEvent.GIVEN_UP, failure)
        case Action.SKIP:
            return Consequence(QueueEvent.IGNORED, failure)
        case Action.RETRY | Action.PAUSE:
            return Consequence(QueueEvent.POSTPONED, failure, pause=action is Action.PAUSE)


def rule_for(reply: Reply, replies: Mapping[str, str], detail: str) -> str:
    """Give the rule that decides: a destination's own before ours, the closest before others."""
    keys = [f"{reply} {detail}", f"{reply} {detail[:1]}xx", reply.value] if detail else [reply]
    return next(table[key] for table in (replies, DEFAULTS) for key in keys if key in table)


def _due(rule: str, attempts: int, *, limited: bool) -> Action:
    """Give the action whose turn it is after so many attempts."""
    told = _RULE.fullmatch(_REFUSED if limited and rule == Action.RETRY else rule)
    if told is None:
        return Action(rule)
    return Action.RETRY if attempts < int(told[1]) else Action(told[2])
