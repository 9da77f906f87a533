"""The acknowledgments of a verdict: which are owed, their bytes, and their stored form.

Pure. HL7 v2.5.1 §2.9: original mode has one application acknowledgment; enhanced mode
(MSH-15 or MSH-16 valued) a commit acknowledgment, then the application's, each on condition.

Pure: time and our control ids come as arguments.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from bridge.intake.receive.identity import (
    answers_us,
    digest,
    message_identity,
    payload_identity,
    single_identity,
)
from bridge.intake.receive.listener import Listening, Replies, Reuse
from bridge.intake.receive.patient_split import marked
from bridge.intake.receive.verdict import Verdict
from bridge.queue.ledger.arrivals import Arrival, MessageFlag, signed64
from bridge.queue.states import AcknowledgmentState, QueueState
from mappings.hl7.acknowledgment import build_ack, unframed_nak
from mappings.hl7.header import Header, peek
from mappings.hl7.order_reply import as_order_reply
from mappings.hl7.refusals import (
    DuplicateKeyIdentifier,
    InternalError,
    MalformedMessage,
    MessageRefusal,
)
from mappings.hl7.tables import AckCode, AckCondition

BETWEEN = b"\x1c\r\x0b"  # no payload can contain the end of its own frame


@dataclass(frozen=True, slots=True)
class Owed:
    """The codes to send: a commit acknowledgment, an application acknowledgment, or neither."""

    commit: AckCode | None
    application: AckCode | None

    @property
    def codes(self) -> tuple[AckCode, ...]:
        """Those that are sent, in their order."""
        return tuple(each for each in (self.commit, self.application) if each is not None)


def _condition(field: bytes) -> str:
    """
    Read MSH-15 or MSH-16: a value of table 0155, or empty.

    A value outside the table means always, because an acknowledgment too many is the smaller harm.
    """
    code = field.strip().upper().decode("ascii", "replace")
    return code if code in CONDITIONS else AckCondition.ALWAYS.value


CONDITIONS = ("", *(each.value for each in AckCondition))


class _Row(NamedTuple):
    """What one line of the matrix says; `later` answers when the report service has spoken."""

    at_once: Owed
    later: AckCode | None


_Key = tuple[str, str, str]


def _matrix() -> Mapping[_Key, _Row]:
    text = files("bridge.intake").joinpath("acknowledgments.csv").read_text("ascii")
    return MappingProxyType(
        {
            (row["accept_ack"], row["application_ack"], row["outcome"]): _Row(
                Owed(_code(row["commit"]), _code(row["application"])), _code(row["later"])
            )
            for row in csv.DictReader(text.splitlines())
        }
    )


def _code(text: str) -> AckCode | None:
    return AckCode(text) if text else None


MATRIX = _matrix()
"""
`acknowledgments.csv`: by MSH-15, MSH-16 and the outcome AA, AE or AR.

In enhanced mode a message that we do not take gets CE or CR and, since it never reaches the
application, no second acknowledgment; only where the sender wants no commit acknowledgment of
that kind, the application's tells it. An empty field beside a valued one means never
(HL7 v2.5.1 §2.9.3).
"""


def _row(header: Header, verdict: AckCode) -> _Row:
    accept, application = _condition(header.accept_ack), _condition(header.application_ack)
    return MATRIX[accept, application, verdict.application.value]


def owed(header: Header, verdict: AckCode) -> Owed:
    """Say what answers a message whose application verdict is AA, AE or AR."""
    return _row(header, verdict).at_once


def owed_application(header: Header, verdict: AckCode) -> AckCode | None:
    """Say which application acknowledgment follows a commit acknowledgment that was positive."""
    return _row(header, verdict).later


def join(payloads: Sequence[bytes]) -> bytes:
    """Make one stored value of the reply payloads."""
    return BETWEEN.join(payloads)


def split(stored: bytes) -> list[bytes]:
    """Give the reply payloads back, byte by byte; none for an empty value."""
    return stored.split(BETWEEN) if stored else []


NewId = Callable[[], str]
"""Gives a control id that was never given before: at most 20 printable ASCII characters."""

_PLAIN = (AckCode.ACCEPT,)  # what nearly every message is owed

_ACKNOWLEDGMENTS = frozenset({"ACK", "MCF"})
"""Where they answer us, answered only if they ask for it: that would have no end otherwise."""

HEAD = 4096
"""How much of something unreadable is looked at for whom to answer."""


class Answers:
    """Answers for one listener."""

    def __init__(self, listening: Listening, new_id: NewId) -> None:
        """Take the listener's policy and a source of control ids."""
        self._listening = listening
        self._name = listening.name
        self._new_id = new_id
        self._replies_to_orders = listening.replies is Replies.ORDER

    def refuse(
        self, verdict: Verdict, payload: bytes, refusal: MessageRefusal, now: datetime
    ) -> bytes:
        """Build the stored form of a negative answer in place of a verdict's own."""
        instead = Verdict(verdict.header, refusals=(refusal,), turn=verdict.turn)
        return self.answer(instead, payload, now)

    def answer(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes:
        """Build all acknowledgments that are owed, in their stored form."""
        return self._answer(verdict, _codes(verdict, payload), payload, now)

    def _answer(
        self, verdict: Verdict, codes: Sequence[AckCode], payload: bytes, now: datetime
    ) -> bytes:
        header, refusals = verdict.header, verdict.refusals
        if codes == _PLAIN and not (header is None or verdict.turn or self._replies_to_orders):
            return build_ack(header, AckCode.ACCEPT, control_id=self._new_id(), now=now)
        if header is None:
            return unframed_nak(payload[:HEAD], refusals[0], control_id=self._new_id(), now=now)
        expected = b"" if verdict.turn is None else verdict.turn.expected
        acks = [
            build_ack(
                header,
                code,
                control_id=self._new_id(),
                now=now,
                refusals=refusals,
                expected_sequence_number=expected,
            )
            for code in codes
        ]
        if self._replies_to_orders:
            acks = [
                ack if code is code.commit else self._order_reply(ack, verdict, payload)
                for ack, code in zip(acks, codes, strict=True)
            ]
        return join(acks)

    def _order_reply(self, ack: bytes, verdict: Verdict, payload: bytes) -> bytes:
        """Say the same as an order's reply, where an order is what was understood."""
        if verdict.definition is None:
            return ack
        reply = partial(verdict.definition.order_reply, accepted=verdict.code.positive)
        return as_order_reply(ack, payload, reply)

    def arrival(self, verdict: Verdict, payload: bytes, now: datetime) -> Arrival:
        """Make the record that is stored before anything is answered."""
        first = verdict.refusals[0] if verdict.refusals else None
        definition = verdict.definition
        content = digest(payload)
        codes = _codes(verdict, payload)
        return Arrival(
            listener=self._name,
            identity=self._identity(verdict, content),
            digest=content,
            payload=payload,
            lanes=() if first else verdict.lanes,
            message_type=_message_type(verdict.header),
            mapping=definition.name if definition else "",
            mapping_version=definition.version if definition else "",
            ack=self._answer(verdict, codes, payload, now),
            # What it would have been told, where the sender asked for no acknowledgment.
            ack_code=(codes[0] if codes else verdict.code).value,
            state=_state(verdict),
            received_at=int(now.timestamp() * 1000),
            error_code=first.error_code.value if first else "",
            error_place=first.place if first else "",
            flags=MessageFlag.CHARSET_SUSPECT if verdict.charset_suspect else MessageFlag.NONE,
            acknowledgment=AcknowledgmentState.PENDING if codes else AcknowledgmentState.NOT_OWED,
            refuse_reuse=self._refuse_reuse(verdict, payload, now),
        )

    def parted(self, whole: Arrival, verdict: Verdict) -> list[Arrival]:
        """Give a message as the arrivals of its parts: the first answers for all of them."""
        if not verdict.parts or whole.state is not QueueState.QUEUED:
            return [whole]
        first, *others = [
            replace(whole, lanes=lanes, flags=marked(whole.flags, number))
            for number, lanes in enumerate(verdict.parts)
        ]
        return [
            first,
            *(
                replace(
                    each,
                    identity=signed64(b"part", str(whole.identity).encode(), b"%d" % number),
                    ack=b"",
                    acknowledgment=AcknowledgmentState.NOT_OWED,
                    refuse_reuse=None if whole.refuse_reuse is None else b"",
                )
                for number, each in enumerate(others, start=1)
            ),
        ]

    def remnant(
        self, head: bytes, refusal: MessageRefusal, told: bytes | None, now: datetime
    ) -> Arrival:
        """Make the record of a frame that was given up; `told` is what its sender was answered."""
        content = digest(head)
        return Arrival(
            listener=self._name,
            identity=payload_identity(self._name, content),
            digest=content,
            payload=head,
            lanes=(),
            message_type=_message_type(_header(head)),
            mapping="",
            mapping_version="",
            ack=told or b"",
            ack_code=refusal.ack_code.value,
            state=QueueState.REFUSED,
            received_at=int(now.timestamp() * 1000),
            error_code=refusal.error_code.value,
            error_place=refusal.place,
            acknowledgment=AcknowledgmentState.NOT_OWED
            if told is None
            else AcknowledgmentState.PENDING,
        )

    def _identity(self, verdict: Verdict, content: bytes) -> int:
        turn = verdict.turn
        if verdict.is_ours or (turn is not None and turn.is_fresh):
            # The same bytes may be taken the next time.
            return single_identity(self._name, self._new_id())
        broken = any(isinstance(each, MalformedMessage) for each in verdict.refusals)
        if verdict.header is None or broken or not verdict.header.control_id.strip():
            # A message that comes whole later is no other message under a used control id.
            return payload_identity(self._name, content)
        return message_identity(self._name, verdict.header)

    def _refuse_reuse(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes | None:
        if self._listening.reuse is Reuse.ACCEPT or verdict.refusals:
            return None
        return self.refuse(verdict, payload, DuplicateKeyIdentifier("MSH-10"), now)

    def application(self, verdict: Verdict, payload: bytes, now: datetime) -> list[bytes]:
        """Build the application acknowledgment alone, if one is owed."""
        header = verdict.header
        code = None if header is None else owed_application(header, verdict.code)
        return [] if code is None else [self._answer(verdict, [code], payload, now)]

    def unavailable(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes:
        """Build what is said when nothing could be stored: the refusal, or AE 207."""
        if verdict.refusals:
            return self.answer(verdict, payload, now)
        return self.refuse(verdict, payload, InternalError(), now)


def _header(head: bytes) -> Header | None:
    try:
        return peek(head)
    except MalformedMessage:
        return None


def _state(verdict: Verdict) -> QueueState:
    if verdict.refusals:
        return QueueState.REFUSED
    return (
        QueueState.IGNORED
        if verdict.turn is not None and verdict.turn.is_bare
        else QueueState.QUEUED
    )


def _message_type(header: Header | None) -> str:
    if header is None:
        return ""
    return f"{header.message_code}^{header.trigger}" if header.trigger else header.message_code


def _codes(verdict: Verdict, payload: bytes) -> tuple[AckCode, ...]:
    header = verdict.header
    if header is None:
        return (verdict.code,)
    if not header.enhanced:
        settled = header.message_code in _ACKNOWLEDGMENTS and answers_us(payload)
        return () if settled else (verdict.code,)
    return owed(header, verdict.code).codes
