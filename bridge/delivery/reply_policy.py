"""
Reply policy: what follows a reply or a failure, and the circuit breaker of a destination. No I/O.

A result counts as delivered only after a positive acknowledgment of its own control id. After any
other outcome (no reply, closed connection, wrong MSA-2) the courier sends the same bytes again,
with the same MSH-10. The settings of a destination may override the default table.

The circuit breaker opens after several attempts in a row without a reply. While it is open, the
courier sends nothing. After a pause it sends one message as a trial. Each further failure
lengthens the pause. Any reply closes the circuit.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.dicom_replies import statuses_of
from bridge.delivery.errors import CompositionError, NothingToSend
from bridge.errors import BridgeError, FailureKind
from bridge.metrics import Metrics
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.states import QueueEvent, RetryPolicy
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
    DICOM = "dicom"
    """The statuses of DICOM objects."""


class PolicyAction(StrEnum):
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
        # The message is wrong (table 0357: 100 to 199): its bytes stay wrong.
        "AE 1xx": "park",
        "AR 1xx": "park",
        "CE 1xx": "park",
        "CR 1xx": "park",
        # The state at the receiver is unknown. The courier repeats the message until it replies.
        "mismatch": "retry",
        "silence": "retry",
        "garbage": "retry",
        "http": _REFUSED,
        "http 408": "retry",
        "http 425": "retry",
        "http 429": "retry",
        "http 5xx": "retry",
        # DIMSE statuses (PS3.4 B.2.3): success, warnings, and an object that the PACS has already.
        "dicom": _REFUSED,
        "dicom 0000": "delivered",
        "dicom Bxxx": "delivered",
        "dicom 0001": "delivered",
        "dicom 0107": "delivered",
        "dicom 0111": "delivered",
        "dicom 0116": "delivered",
        "dicom A7xx": "retry",  # out of resources
        "dicom A9xx": "park",  # the object does not match its class
        "dicom Cxxx": "park",  # the PACS cannot understand the object
    }
)
"""
The default action for each reply. The most specific key applies: `AE 206` (an ERR-3 code),
`silence closed`, `http 404` or `dicom A701` before `AE 2xx`, `http 4xx` or `dicom A7xx`, these
before `dicom Axxx`, and all before `AE`, `http` or `dicom`. A destination's own rules apply before
all defaults.
"""

LIMITED = frozenset({ReplyKind.AE, ReplyKind.AR, ReplyKind.CE, ReplyKind.CR})
"""For these replies a plain `retry` has the limit of the default."""

REFUSALS = LIMITED | {ReplyKind.HTTP, ReplyKind.DICOM}
"""Replies with which a receiver refuses a message."""

_WEAK_TO_STRONG = (
    PolicyAction.DELIVERED,
    PolicyAction.SKIP,
    PolicyAction.RETRY,
    PolicyAction.PAUSE,
    PolicyAction.PARK,
)
"""Of several errors in one reply, that with the strongest action decides."""

_CLASS = re.compile(r"[0-9]{3}")
"""Codes that belong to a class such as `2xx`."""
_STATUS = re.compile(r"[0-9A-F]{4}")
"""DIMSE statuses, which belong to classes such as `A7xx` and `Axxx`."""

_RULE = re.compile(r"retry (\d+) then (park|skip|pause)")
_ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,20}")
"""The error codes that a rule can name. Other values are texts and may contain patient data."""

REPLY_OF_LOSS: Mapping[LossReason, ReplyKind] = MappingProxyType(
    {
        LossReason.TIMEOUT: ReplyKind.SILENCE,
        LossReason.CLOSED: ReplyKind.SILENCE,
        LossReason.GARBAGE: ReplyKind.GARBAGE,
        LossReason.UNFRAMED: ReplyKind.GARBAGE,
        LossReason.MISMATCH: ReplyKind.MISMATCH,
    }
)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The state change of a delivery, and whether its destination is paused."""

    event: QueueEvent
    failure: FailureKind | None
    pause: bool = False


class NotAnAcknowledgment(BridgeError):
    """The reply is not an HL7 acknowledgment."""


def acknowledges(sent: bytes, reply: bytes) -> bool:
    """
    True if a reply acknowledges this message: MSA-2 equals MSH-10.

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


def read_reply(reply: bytes, replies: Mapping[str, str]) -> tuple[ReplyKind, str]:
    """
    Return the kind of a reply, and the error code that decides what follows ('' if there is none).

    Of several codes it is that of the strongest rule. `replies` are the destination's own rules.
    Information and warnings count only if the destination has a rule for their code. The code of a
    reply about DICOM objects is the status of one of them.
    """
    if statuses := statuses_of(reply):
        kind = ReplyKind.DICOM
        return kind, max(statuses, key=lambda code: _strength(kind, replies, code))
    ack = read_ack(reply)
    if ack.code is None:
        return ReplyKind.GARBAGE, ""
    kind = ReplyKind(ack.code.value)
    codes = [
        error.code
        for error in ack.errors
        if _ERROR_CODE.fullmatch(error.code)
        and (not error.is_remark or f"{kind} {error.code}" in replies)
    ]
    return kind, max(codes, key=lambda code: _strength(kind, replies, code), default="")


def _strength(kind: ReplyKind, replies: Mapping[str, str], code: str) -> int:
    """Return how strongly the rule for a code stops the delivery."""
    rule = rule_for(kind, replies, code)
    return _WEAK_TO_STRONG.index(PolicyAction(rule.partition(" ")[0]))


def decide(
    reply: ReplyKind, replies: Mapping[str, str], attempts: int, detail: str = ""
) -> PolicyDecision:
    """
    Look up the action for a reply; `replies` are the destination's own rules.

    `attempts` counts this one. `detail` is the ERR-3 code, the HTTP status, or the reason why no
    reply came. A plain `retry` has no limit, except for the replies in `LIMITED`.
    """
    action = _action_after(rule_for(reply, replies, detail), attempts, limited=reply in LIMITED)
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
    keys = [f"{reply} {detail}", reply.value] if detail else [reply.value]
    if _CLASS.fullmatch(detail):
        keys.insert(1, f"{reply} {detail[:1]}xx")
    if _STATUS.fullmatch(detail):
        keys[1:1] = [f"{reply} {detail[:2]}xx", f"{reply} {detail[:1]}xxx"]
    return next(table[key] for table in (replies, DEFAULTS) for key in keys if key in table)


def _action_after(rule: str, attempts: int, *, limited: bool) -> PolicyAction:
    found = _RULE.fullmatch(_REFUSED if limited and rule == PolicyAction.RETRY else rule)
    if found is None:
        return PolicyAction(rule)
    return PolicyAction.RETRY if attempts < int(found[1]) else PolicyAction(found[2])


_NOT_ACCEPTED = frozenset({QueueEvent.POSTPONED, QueueEvent.GIVEN_UP})


class ReplyProblem(NamedTuple):
    """Why a destination gives no usable reply: a code, and words without message data."""

    code: str
    words: str


NO_PROBLEM = ReplyProblem("", "")


class CircuitState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"  # half-open: the pause is over, one message is sent as a trial


class CircuitBreaker:
    """The circuit breaker of one destination; times in milliseconds."""

    def __init__(self, policy: RetryPolicy, after: int, random: Random) -> None:
        """Open the circuit after `after` failures in a row; 0 means never."""
        self._policy = policy
        self._after = after
        self._random = random
        self._failures = 0
        self._until = 0
        self.replies = 0
        """Replies since the start."""
        self.refused = 0
        """Refusals since the last accepted message."""
        self.problem = NO_PROBLEM
        """Why the last attempt got no usable reply."""

    @property
    def open_until(self) -> int | None:
        """The end of the pause; None if the circuit is closed."""
        return self._until or None

    def record_failure(self, began: int, code: str = "", problem: str = "") -> None:
        """Count an attempt, started at `began`, that got no usable reply."""
        self.problem = ReplyProblem(code, problem)
        self._failures += 1
        extra_failures = self._failures - self._after
        if self._after and extra_failures >= 0:
            pause = self._policy.delay(extra_failures + 1, self._random)
            self._until = began + round(pause * 1000)

    def record_reply(self, *, refused: bool = False) -> None:
        """Close the circuit; a refusal is a reply, too."""
        self.replies += 1
        self.refused = self.refused + 1 if refused else 0
        self._failures = self._until = 0
        self.problem = NO_PROBLEM

    def circuit(self, now: int) -> CircuitState:
        if not self._until:
            return CircuitState.CLOSED
        # If the pause seems longer than the maximum, the clock was set back.
        self._until = min(self._until, now + round(self._policy.maximum * 1000))
        return CircuitState.OPEN if now < self._until else CircuitState.TRYING


class OutcomePolicy:
    """Turns replies and failures into outcomes for one destination; `clock` is in milliseconds."""

    def __init__(
        self,
        destination: CompiledDestination,
        breaker: CircuitBreaker,
        metrics: Metrics,
        clock: Callable[[], int],
        random: Random,
        *,
        on_pause: Callable[[str], object],
    ) -> None:
        """`on_pause` is called with the reply for which the reply policy pauses the destination."""
        self._destination = destination
        self._breaker = breaker
        self._metrics = metrics
        self._clock = clock
        self._random = random
        self._on_pause = on_pause

    def after_reply(
        self,
        delivery: ClaimedDelivery,
        kind: ReplyKind,
        detail: str,
        reply: bytes | None,
        sent_at: int,
        problem: str = "",
    ) -> DeliveryOutcome:
        """
        Return the outcome after a reply to a message that was sent at `sent_at`.

        `problem` says in words why there is no usable reply; `reply` is then what came instead.
        """
        tries = delivery.tries + 1
        decision = decide(kind, self._destination.replies, tries, detail)
        is_silent = kind is ReplyKind.SILENCE or detail == LossReason.UNFRAMED
        if is_silent:
            self._breaker.record_failure(sent_at, detail, problem)
        else:
            self._breaker.record_reply(refused=decision.event in _NOT_ACCEPTED or decision.pause)
        if decision.pause:
            self._on_pause(kind.value)
        is_retried = decision.event is QueueEvent.POSTPONED
        self._count(delivery, kind, decision.event)
        return DeliveryOutcome(
            delivery.delivery_id,
            decision.event,
            decision.failure,
            kind.value,
            problem or detail,
            self._retry_at(tries, after_silence=is_silent) if is_retried else None,
            reply,
            sent_at,
            tries if is_retried else 0,
            delivery.created_at,
        )

    def _count(self, delivery: ClaimedDelivery, kind: ReplyKind, event: QueueEvent) -> None:
        name = self._destination.name
        self._metrics.deliveries.labels(name, kind.value, event.value).inc()
        if event is QueueEvent.ACCEPTED:
            seconds = max(0, self._clock() - delivery.release_at) / 1000
            self._metrics.delivery_seconds.labels(name).observe(seconds)

    def after_composition_failure(
        self, delivery: ClaimedDelivery, failure: FailureKind, code: str, retry_after: float | None
    ) -> DeliveryOutcome:
        """
        Return the outcome of a message that could not be composed.

        `retry_after` are the seconds that the report service asks to wait, if it names them.
        """
        if failure is FailureKind.PERMANENT:
            return give_up(delivery, code)
        tries = delivery.tries + 1
        wait = self._delay(tries) if retry_after is None else round(retry_after * 1000)
        return DeliveryOutcome(
            delivery.delivery_id,
            QueueEvent.POSTPONED,
            failure,
            code,
            "not composed yet",
            self._clock() + wait,
            tries=tries,
            created_at=delivery.created_at,
        )

    def _retry_at(self, tries: int, *, after_silence: bool) -> int:
        """
        Return when to retry; after silence later than the breaker's next trial, which another
        delivery gets.
        """
        retry_at = self._clock() + self._delay(tries)
        until = self._breaker.open_until
        return max(retry_at, until + 1) if after_silence and until else retry_at

    def _delay(self, tries: int) -> int:
        return round(self._destination.retry.delay(tries, self._random) * 1000)


def give_up(delivery: ClaimedDelivery, code: str, why: str = "") -> DeliveryOutcome:
    """Return the outcome that parks a delivery; `why` is a text without values of a message."""
    return DeliveryOutcome(
        delivery.delivery_id,
        QueueEvent.GIVEN_UP,
        FailureKind.PERMANENT,
        code,
        why,
        created_at=delivery.created_at,
    )


def outcome_without_message(delivery: ClaimedDelivery, error: CompositionError) -> DeliveryOutcome:
    """Return the outcome of an error: ignored if there is nothing to send, else parked."""
    if isinstance(error, NothingToSend):
        return DeliveryOutcome(
            delivery.delivery_id,
            QueueEvent.IGNORED,
            code=error.code,
            created_at=delivery.created_at,
        )
    return give_up(delivery, error.code, str(error))
