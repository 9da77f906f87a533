"""
Refusals: exceptions that know how they read in an acknowledgment.

* Refusal
    * Malformed                 AR, 100   not a message we can read
    * UnsupportedMessage        AR, 200   nobody here handles this message type
    * UnsupportedEvent          AR, 201   nor this trigger event
    * UnsupportedProcessingId   AR, 202   e.g. a test message on a live listener
    * UnsupportedVersion        AR, 203
    * UnknownSender             AR, 103   no mapping takes messages of this sender or receiver
    * MissingField              AE, 101   a field the definition requires is empty
    * WrongDataType             AE, 102   a value is not of the form its type demands
      * EndlessIdentifier       AE, 102   an identifier is too long for any report service
    * UnknownCode               AE, 103   a coded value is in no table of ours
    * UnknownKey                AE, 204   it speaks of something we do not have
    * DuplicateKey              AE, 205   it creates what exists, or merges a thing with itself
    * OutOfStructure            AE, 100   validation: a segment or group is missing or misplaced
    * ForbiddenElement          AE, 100   validation: an element that may not stand there
    * OutOfSequence             AE, 199   its sequence number is not the one whose turn it is
    * TooMany                   AE, 198   validation: repeated too often
    * TooLong                   AE, 104   validation
    * InternalError             AE, 207   our fault; the sender may try again

Texts travel to the sender (MSA-3, ERR-8): they are the class's own and name places, never values.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum, unique
from typing import Any, ClassVar

from typing_extensions import override

from mappings.hl7.tables import AckCode, ErrorCode


class MessageRefusal(Exception):  # noqa: N818  # the field's word for a negative acknowledgment
    """Why a message is not taken; `place` is a path (`PID-3.1`), `MSH` or empty when unknown."""

    ack_code: ClassVar[AckCode] = AckCode.ERROR
    error_code: ClassVar[ErrorCode] = ErrorCode.OTHER
    problem: ClassVar[str] = "message refused"

    def __init__(self, place: str = "") -> None:
        self.place = place
        super().__init__(self.text)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Be the same in another process: what `__init__` took is not what was said of it."""
        return _again, (type(self), self.args, vars(self))

    @property
    def text(self) -> str:
        """What people read: the problem and its place, such as `required field missing: PID-3`."""
        return f"{self.problem}: {self.place}" if self.place else self.problem


def _again(
    kind: type[MessageRefusal], said: tuple[str, ...], known: Mapping[str, Any]
) -> MessageRefusal:
    made = kind.__new__(kind, *said)
    vars(made).update(known)
    return made


@unique
class MalformedReason(StrEnum):
    """The ways in which bytes fail to be one HL7 v2 message."""

    NOT_HL7 = "not an HL7 v2 message: it does not begin with MSH"
    FIELD_SEPARATOR = "the field separator is not a punctuation character"
    ENCODING_CHARACTERS = "encoding characters empty, repeated, too many or not punctuation"
    UTF_16 = "UTF-16 and UTF-32 are not supported, send UTF-8"
    SECOND_HEADER = "a second message header, but no batch header"
    STRAY_LINE = "a line that follows is no segment"
    TOO_MANY_SEGMENTS = "the message has too many segments"
    TOO_LARGE = "the message is larger than this listener accepts"
    INCOMPLETE = "the frame did not arrive completely"
    STRAY_IN_BATCH = "something in the batch belongs to none of its messages"
    BATCH = "a batch where a single message was expected"


class MalformedMessage(MessageRefusal):
    """The bytes are no message that could be read without guessing."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "malformed message"

    def __init__(self, reason: MalformedReason, place: str = "MSH") -> None:
        self.reason = reason
        super().__init__(place)

    @property
    @override
    def text(self) -> str:
        """The reason and its place."""
        return f"{self.reason}: {self.place}" if self.place else self.reason.value


class UnsupportedMessage(MessageRefusal):
    """No mapping takes this message type (MSH-9.1)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_MESSAGE_TYPE
    problem = "unsupported message type"

    def __init__(self, place: str = "MSH-9.1") -> None:
        super().__init__(place)


class UnsupportedEvent(MessageRefusal):
    """The message type is known, its trigger event (MSH-9.2) is not."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_EVENT
    problem = "unsupported event code"

    def __init__(self, place: str = "MSH-9.2") -> None:
        super().__init__(place)


class UnsupportedProcessingId(MessageRefusal):
    """The listener does not take this processing id (MSH-11)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_PROCESSING_ID
    problem = "unsupported processing id"

    def __init__(self, place: str = "MSH-11") -> None:
        super().__init__(place)


class UnsupportedVersion(MessageRefusal):
    """The listener does not take this version (MSH-12)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_VERSION
    problem = "unsupported version id"

    def __init__(self, place: str = "MSH-12") -> None:
        super().__init__(place)


class UnknownSender(MessageRefusal):
    """Mappings take this type and event, but not from this sender or for this receiver."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.TABLE_VALUE_NOT_FOUND
    problem = "sender or receiver not accepted"

    def __init__(self, place: str = "MSH-3") -> None:
        super().__init__(place)


class MissingField(MessageRefusal):
    """A required field is empty."""

    error_code = ErrorCode.REQUIRED_FIELD_MISSING
    problem = "required field missing"


class WrongDataType(MessageRefusal):
    """A value is not of the form its data type demands."""

    error_code = ErrorCode.DATA_TYPE
    problem = "data type error"


class IdentifierTooLong(WrongDataType):
    """An identifier is longer than report services take; it must not be cut."""

    problem = "identifier longer than 1024 characters"


class TableValueNotFound(MessageRefusal):
    """A coded value is in no table of ours."""

    error_code = ErrorCode.TABLE_VALUE_NOT_FOUND
    problem = "table value not found"


class UnknownKeyIdentifier(MessageRefusal):
    """The message speaks of a patient, visit or order we do not have."""

    error_code = ErrorCode.UNKNOWN_KEY
    problem = "unknown key identifier"


class DuplicateKeyIdentifier(MessageRefusal):
    """The key exists already, or a record is to be merged with itself."""

    error_code = ErrorCode.DUPLICATE_KEY
    problem = "duplicate key identifier"


class StructureViolation(MessageRefusal):
    """A segment or group is missing, or stands where its message has no place for it."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "not as the message's structure demands"


class TooManyGroups(MessageRefusal):
    """A message has more orders or patients than are read of one message."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "more than 1000 orders or patients in one message"


class ForbiddenElement(MessageRefusal):
    """Something stands in an element that its structure does not know."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "holds what its structure does not allow"


class OutOfSequence(MessageRefusal):
    """A sequence number ahead of the one whose turn it is (HL7 v2.5.1 §2.10.1)."""

    error_code = ErrorCode.OTHER
    problem = "not the expected sequence number"

    def __init__(self, place: str = "MSH-13") -> None:
        super().__init__(place)


class BatchCountMismatch(MessageRefusal):
    """A batch says that it holds another number of messages, or a file of batches, than it does."""

    error_code = ErrorCode.OTHER
    problem = "not the number that was announced"


class TooManyRepetitions(MessageRefusal):
    """Something is repeated more often than its structure allows."""

    error_code = ErrorCode.CARDINALITY
    problem = "repeated too often"


class ValueTooLong(MessageRefusal):
    """A value is longer than its structure allows."""

    error_code = ErrorCode.VALUE_TOO_LONG
    problem = "value too long"


class MessageTooComplex(ValueTooLong):
    """The message has more fields, repetitions and components than are held against a structure."""

    problem = "too many fields to be validated"

    def __init__(self, place: str = "MSH") -> None:
        super().__init__(place)


class InternalError(MessageRefusal):
    """Our fault; nothing of the cause travels to the sender."""

    error_code = ErrorCode.INTERNAL
    problem = "application internal error"


def strictest(refusals: Sequence[MessageRefusal]) -> AckCode:
    """Return the code that answers for several refusals: AR before AE, AA for none."""
    codes = {refusal.ack_code for refusal in refusals}
    if AckCode.REJECT in codes:
        return AckCode.REJECT
    return AckCode.ERROR if codes else AckCode.ACCEPT
