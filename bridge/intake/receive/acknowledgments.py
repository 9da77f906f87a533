"""Acknowledgments: the codes that a verdict requires, their bytes, and the record that is stored.

Pure; time and control ids are arguments. HL7 v2.5.1 §2.9: original mode has one application
acknowledgment. Enhanced mode (MSH-15 or MSH-16 valued) has a commit acknowledgment and an
application acknowledgment, each on its condition.
"""

import csv
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.resources import files
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

from bridge.index_key import signed64
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import Verdict
from bridge.queue.arrivals import (
    Arrival,
    MessageFlag,
    flags_of_part,
    sequential64,
)
from bridge.queue.digests import digest
from bridge.queue.states import AcknowledgmentState, QueueState
from config.listeners import Replies, ReusedControlId
from mappings.hl7.acknowledgment import as_order_reply, build_ack, unframed_nak
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import (
    AckCode,
    AckCondition,
    DuplicateKeyIdentifier,
    InternalError,
    MalformedMessage,
    MessageRefusal,
)


class ControlIds:
    """
    Generates unique control ids of 20 characters: a random prefix and a counter.

    New random bytes for each id would cost as much as building the acknowledgment.
    """

    def __init__(self) -> None:
        self._renew_prefix()

    def __call__(self) -> str:
        """Return the next control id."""
        number = next(self._count)
        if number > _MAX_COUNT:
            self._renew_prefix()
            number = next(self._count)
        return f"{self._prefix}{number:06x}"

    def _renew_prefix(self) -> None:
        self._prefix = f"RB{secrets.token_hex(6)}"
        self._count = count()


_MAX_COUNT = 0xFFFFFF  # six hexadecimal digits
_OWN_CONTROL_ID = rb"RB[0-9a-f]{18}"  # the format of `ControlIds`
_ACKNOWLEDGES_US = re.compile(rb"[\r\n]MSA(.)[A-Z]{2}\1" + _OWN_CONTROL_ID + rb"(?:\1|[\r\n]|$)")


def acknowledges_us(payload: bytes) -> bool:
    """True if a message acknowledges one of ours. A reply could start an endless exchange."""
    return _ACKNOWLEDGES_US.search(payload) is not None


def message_identity(listener: str, header: Header) -> int:
    """
    Return the identity that a retransmit shares with its original.

    It is a hash of the listener and of MSH-3, MSH-4 and MSH-10 as sent.
    """
    sender = header.sending_application, header.sending_facility
    return sequential64(listener.encode(), *sender, header.control_id)


def payload_identity(listener: str, payload_digest: bytes) -> int:
    """Return the identity of a message without a control id: its content."""
    return signed64(b"payload", listener.encode(), payload_digest)


def unique_identity(listener: str, unique: str) -> int:
    """Return an identity that no other message has: `unique` is never used again."""
    return signed64(b"once", listener.encode(), unique.encode())


SEPARATOR = b"\x1c\r\x0b"  # a payload cannot contain it: FS CR ends a frame


@dataclass(frozen=True, slots=True)
class RequiredCodes:
    """The acknowledgment codes to send; None: no acknowledgment of that kind."""

    commit: AckCode | None
    application: AckCode | None

    @property
    def codes(self) -> tuple[AckCode, ...]:
        """The codes to send, commit acknowledgment first."""
        return tuple(code for code in (self.commit, self.application) if code is not None)


def _condition(field: bytes) -> str:
    """
    Read MSH-15 or MSH-16: a value of table 0155, or empty.

    Other values mean AL: a superfluous acknowledgment does less harm than a missing one.
    """
    code = field.strip().upper().decode("ascii", "replace")
    return code if code in CONDITIONS else AckCondition.ALWAYS.value


CONDITIONS = ("", *(condition.value for condition in AckCondition))


class _MatrixRow(NamedTuple):
    """One row of the matrix; `later` is sent after the report engine has answered."""

    at_once: RequiredCodes
    later: AckCode | None


_Key = tuple[str, str, str]


def _matrix() -> Mapping[_Key, _MatrixRow]:
    text = files("bridge.intake.receive").joinpath("acknowledgments.csv").read_text("ascii")
    return MappingProxyType(
        {
            (row["accept_ack"], row["application_ack"], row["outcome"]): _MatrixRow(
                RequiredCodes(_code(row["commit"]), _code(row["application"])), _code(row["later"])
            )
            for row in csv.DictReader(text.splitlines())
        }
    )


def _code(text: str) -> AckCode | None:
    return AckCode(text) if text else None


MATRIX = _matrix()
"""
`acknowledgments.csv`: by MSH-15, MSH-16 and the outcome AA, AE or AR.

In enhanced mode a refused message gets CE or CR and no second acknowledgment, because it does not
reach the application. If the sender wants no commit acknowledgment of that kind, it gets the
application acknowledgment. If only one of the two fields is valued, the empty one means NE
(HL7 v2.5.1 §2.9.3).
"""


def _matrix_row(header: Header, verdict: AckCode) -> _MatrixRow:
    accept, application = _condition(header.accept_ack), _condition(header.application_ack)
    return MATRIX[accept, application, verdict.application.value]


def required_codes(header: Header, verdict: AckCode) -> RequiredCodes:
    """Return the acknowledgments of a message whose application verdict is AA, AE or AR."""
    return _matrix_row(header, verdict).at_once


def deferred_application_code(header: Header, verdict: AckCode) -> AckCode | None:
    """Return the application acknowledgment that follows a positive commit acknowledgment."""
    return _matrix_row(header, verdict).later


def may_require_application_ack(header: Header) -> bool:
    """True if an accepted message gets an application acknowledgment in any outcome."""
    codes = (AckCode.ACCEPT, AckCode.ERROR)
    return any(deferred_application_code(header, code) is not None for code in codes)


def join_replies(payloads: Sequence[bytes]) -> bytes:
    return SEPARATOR.join(payloads)


def split_replies(stored: bytes) -> list[bytes]:
    """Split a stored value into the reply payloads; none for an empty value."""
    return stored.split(SEPARATOR) if stored else []


ControlIdSource = Callable[[], str]
"""Returns a new control id: at most 20 printable ASCII characters."""

_ACCEPT_ONLY = (AckCode.ACCEPT,)  # the usual case

_ACKNOWLEDGMENTS = frozenset({"ACK", "MCF"})
"""Message types that are acknowledged on request only; otherwise the exchange would not end."""

MAX_HEAD_BYTES = 4096
"""Bytes of an unreadable frame that are searched for the sender."""


class AcknowledgmentBuilder:
    """Builds the acknowledgments and stored records of one listener."""

    def __init__(self, policy: ListenerPolicy, new_id: ControlIdSource) -> None:
        """`new_id` returns control ids."""
        self._policy = policy
        self._name = policy.name
        self._new_id = new_id
        self._replies_to_orders = policy.replies is Replies.ORDER

    def refuse(
        self, verdict: Verdict, payload: bytes, refusal: MessageRefusal, now: datetime
    ) -> bytes:
        """Return a negative acknowledgment with `refusal` instead of the verdict's own result."""
        instead = Verdict(verdict.header, refusals=(refusal,), sequence=verdict.sequence)
        return self.build(instead, payload, now)

    def build(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes:
        return self._build(verdict, _codes(verdict, payload), payload, now)

    def _build(
        self, verdict: Verdict, codes: Sequence[AckCode], payload: bytes, now: datetime
    ) -> bytes:
        header, refusals = verdict.header, verdict.refusals
        if codes == _ACCEPT_ONLY and not (
            header is None or verdict.sequence or self._replies_to_orders
        ):
            return build_ack(header, AckCode.ACCEPT, control_id=self._new_id(), now=now)
        if header is None:
            head = payload[:MAX_HEAD_BYTES]
            return unframed_nak(head, refusals[0], control_id=self._new_id(), now=now)
        expected = b"" if verdict.sequence is None else verdict.sequence.expected
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
        return join_replies(acks)

    def _order_reply(self, ack: bytes, verdict: Verdict, payload: bytes) -> bytes:
        if verdict.definition is None:
            return ack
        order_reply = partial(verdict.definition.order_reply, accepted=verdict.code.positive)
        return as_order_reply(ack, payload, order_reply)

    def arrival(self, verdict: Verdict, payload: bytes, now: datetime) -> Arrival:
        """Return the record to store before the message is answered, with its acknowledgment."""
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
            ack=self._build(verdict, codes, payload, now),
            # If no acknowledgment is required, this is the code that the sender would have got.
            ack_code=(codes[0] if codes else verdict.code).value,
            state=_state(verdict),
            received_at=int(now.timestamp() * 1000),
            error_code=first.error_code.value if first else "",
            error_place=first.place if first else "",
            flags=MessageFlag.CHARSET_SUSPECT if verdict.charset_suspect else MessageFlag.NONE,
            acknowledgment=AcknowledgmentState.PENDING
            if codes
            else AcknowledgmentState.NOT_REQUIRED,
            refuse_reuse=self._refuse_reuse(verdict, payload, now),
        )

    def split_parts(self, whole: Arrival, verdict: Verdict) -> list[Arrival]:
        """
        Split a message into the records of its parts.

        The first one holds the acknowledgment, and the message log decides about it for all parts.
        """
        if not verdict.parts or whole.state is not QueueState.QUEUED:
            return [whole]
        first, *others = [
            replace(whole, lanes=lanes, flags=flags_of_part(whole.flags, number))
            for number, lanes in enumerate(verdict.parts)
        ]
        return [
            first,
            *(
                replace(
                    part,
                    identity=signed64(b"part", str(whole.identity).encode(), b"%d" % number),
                    ack=b"",
                    acknowledgment=AcknowledgmentState.NOT_REQUIRED,
                    refuse_reuse=None,
                )
                for number, part in enumerate(others, start=1)
            ),
        ]

    def abandoned_frame(
        self, head: bytes, refusal: MessageRefusal, reply: bytes | None, now: datetime
    ) -> Arrival:
        """
        Return the record of an abandoned frame; `reply` is the reply that was sent, None if none
        was.
        """
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
            ack=reply or b"",
            ack_code=refusal.ack_code.value,
            state=QueueState.REFUSED,
            received_at=int(now.timestamp() * 1000),
            error_code=refusal.error_code.value,
            error_place=refusal.place,
            acknowledgment=AcknowledgmentState.NOT_REQUIRED
            if reply is None
            else AcknowledgmentState.PENDING,
        )

    def _identity(self, verdict: Verdict, content: bytes) -> int:
        sequence = verdict.sequence
        if verdict.is_internal_error or (sequence is not None and sequence.may_change):
            # The listener may accept the same bytes the next time.
            return unique_identity(self._name, self._new_id())
        broken = any(isinstance(refusal, MalformedMessage) for refusal in verdict.refusals)
        if verdict.header is None or broken or not verdict.header.control_id.strip():
            # The complete message must not count as a reuse of its control id.
            return payload_identity(self._name, content)
        return message_identity(self._name, verdict.header)

    def _refuse_reuse(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes | None:
        if self._policy.reuse is ReusedControlId.ACCEPT or verdict.refusals:
            return None
        return self.refuse(verdict, payload, DuplicateKeyIdentifier("MSH-10"), now)

    def application_reply(self, verdict: Verdict, payload: bytes, now: datetime) -> list[bytes]:
        """Return the application acknowledgment alone, if one is required."""
        header = verdict.header
        code = None if header is None else deferred_application_code(header, verdict.code)
        return [] if code is None else [self._build(verdict, [code], payload, now)]

    def unavailable(self, verdict: Verdict, payload: bytes, now: datetime) -> bytes:
        """Return the answer to a message that could not be stored: its refusal, or AE 207."""
        if verdict.refusals:
            return self.build(verdict, payload, now)
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
        if verdict.sequence is not None and verdict.sequence.is_header_only
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
        settled = header.message_code in _ACKNOWLEDGMENTS and acknowledges_us(payload)
        return () if settled else (verdict.code,)
    return required_codes(header, verdict.code).codes
