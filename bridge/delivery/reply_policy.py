"""
Reply policy: what the courier does after each kind of reply. Pure.

A result counts as delivered only after a positive acknowledgment of its own control id. After any
other outcome (no reply, closed connection, wrong MSA-2) the courier sends the same bytes again,
with the same MSH-10. The settings of a destination may override the default table.
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


class ReplyKind(StrEnum):
    """The kinds of reply to a message, including none: a row of the policy table."""

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
    """An HTTP status without an HL7 acknowledgment."""


class PolicyAction(StrEnum):
    """What the courier does after a reply."""

    DELIVERED = "delivered"
    RETRY = "retry"
    PARK = "park"
    SKIP = "skip"
    """The message is not sent again."""
    PAUSE = "pause"
    """The destination is paused until an operator resumes it. The message stays first in line."""


MAX_REFUSALS = 20
"""Refused attempts after which a message is parked."""

_REFUSED = f"retry {MAX_REFUSALS} then park"
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "AA": "delivered",
        "CA": "delivered",
        # The receiver refused the message. More attempts are unlikely to change that.
        "AE": _REFUSED,
        "AR": _REFUSED,
        "CE": _REFUSED,
        "CR": _REFUSED,
        # The state at the receiver is unknown. The courier repeats the message until it replies.
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
The default action for each reply. The most specific key applies: `AE 206` (an ERR-3 code),
`silence closed` or `http 404` before `AE 2xx` or `http 4xx`, and those before `AE` or `http`.
A destination's own rules apply before all defaults.
"""

LIMITED = frozenset({ReplyKind.AE, ReplyKind.AR, ReplyKind.CE, ReplyKind.CR})
"""For these replies a plain `retry` has the limit of the default."""

REFUSALS = LIMITED | {ReplyKind.HTTP}
"""Replies with which a receiver refuses a message."""

_RULE = re.compile(r"retry (\d+) then (park|skip|pause)")

REPLY_OF_LOSS: Mapping[LossReason, ReplyKind] = MappingProxyType(
    {
        LossReason.TIMEOUT: ReplyKind.SILENCE,
        LossReason.CLOSED: ReplyKind.SILENCE,
        LossReason.GARBAGE: ReplyKind.GARBAGE,
        LossReason.MISMATCH: ReplyKind.MISMATCH,
    }
)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The state change of a delivery, and whether its destination is paused."""

    event: QueueEvent
    failure: FailureKind | None
    pause: bool = False


class NotAnAcknowledgment(BridgeError):  # noqa: N818  # the name says what is wrong
    """The reply is not an HL7 acknowledgment."""


def acknowledges(sent: bytes, reply: bytes) -> bool:
    """
    Tell whether a reply acknowledges this message: MSA-2 equals MSH-10.

    An empty MSA-2 counts as equal, because some receivers never fill it (VA; HL7 pitfall 32).
    """
    ack = read_ack(reply)
    if ack.code is None:
        return False
    try:
        own = peek(sent).control_id
    except MalformedMessage:
        return False
    return ack.control_id in {b"", own}


def require_acknowledgment(sent: bytes, reply: bytes) -> bool:
    """Check a reply as `acknowledges` does. Raises NotAnAcknowledgment if it has no MSA-1 code."""
    if read_ack(reply).code is None:
        raise NotAnAcknowledgment
    return acknowledges(sent, reply)


def read_reply(reply: bytes) -> tuple[ReplyKind, str]:
    """Return the kind of a reply and its first ERR-3 code ('' if it has none)."""
    ack = read_ack(reply)
    if ack.code is None:
        return ReplyKind.GARBAGE, ""
    return ReplyKind(ack.code.value), ack.error_codes[0] if ack.error_codes else ""


def decide(
    reply: ReplyKind, replies: Mapping[str, str], attempts: int, detail: str = ""
) -> PolicyDecision:
    """
    Look up the action for a reply; `replies` are the destination's own rules.

    `attempts` counts this one. `detail` is the ERR-3 code, the HTTP status, or the reason why no
    reply came. A plain `retry` has no limit, except for the replies in `LIMITED`.
    """
    action = _due(rule_for(reply, replies, detail), attempts, limited=reply in LIMITED)
    failure = FailureKind.PERMANENT if reply in REFUSALS else FailureKind.AMBIGUOUS
    match action:
        case PolicyAction.DELIVERED:
            return PolicyDecision(QueueEvent.ACCEPTED, None)
        case PolicyAction.PARK:
            return PolicyDecision(QueueEvent.GIVEN_UP, failure)
        case PolicyAction.SKIP:
            return PolicyDecision(QueueEvent.IGNORED, failure)
        case PolicyAction.RETRY | PolicyAction.PAUSE:
            return PolicyDecision(QueueEvent.POSTPONED, failure, pause=action is PolicyAction.PAUSE)


def rule_for(reply: ReplyKind, replies: Mapping[str, str], detail: str) -> str:
    """Return the rule for a reply: the destination's before the default, specific ones first."""
    keys = [f"{reply} {detail}", f"{reply} {detail[:1]}xx", reply.value] if detail else [reply]
    return next(table[key] for table in (replies, DEFAULTS) for key in keys if key in table)


def _due(rule: str, attempts: int, *, limited: bool) -> PolicyAction:
    """Return the action of a rule after this many attempts."""
    found = _RULE.fullmatch(_REFUSED if limited and rule == PolicyAction.RETRY else rule)
    if found is None:
        return PolicyAction(rule)
    return PolicyAction.RETRY if attempts < int(found[1]) else PolicyAction(found[2])
