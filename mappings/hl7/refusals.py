"""
Refusals: exceptions that state how a message is acknowledged negatively.

* MessageRefusal
    * MalformedMessage          AR, 100   the bytes are not a message
    * UnsupportedMessage        AR, 200   no mapping accepts this message type
    * UnsupportedEvent          AR, 201   no mapping accepts this trigger event
    * UnsupportedProcessingId   AR, 202   for example a test message on a production listener
    * UnsupportedVersion        AR, 203
    * UnknownSender             AR, 103   no mapping accepts this sender or receiver
    * MissingField              AE, 101   a required field is empty
    * WrongDataType             AE, 102   a value does not have the form of its data type
      * IdentifierTooLong       AE, 102   an identifier is too long for report services
    * TableValueNotFound        AE, 103   a coded value is in no code table
    * UnknownKeyIdentifier      AE, 204   the patient, visit or order does not exist
    * DuplicateKeyIdentifier    AE, 205   the key exists, or a record is merged with itself
    * StructureViolation        AE, 100   validation: a segment or group is missing or misplaced
    * ForbiddenElement          AE, 100   validation: a value in an element that must be empty
    * TooManyGroups             AE, 100   too many orders or patients in one message
      * TooLargeForPatients     AE, 100   too large for its number of patients
      * TooMuchShared           AE, 100   its orders or patients share too much
    * OutOfSequence             AE, 199   not the expected sequence number
    * BatchCountMismatch        AE, 199   a batch has another number of messages than announced
    * TooManyRepetitions        AE, 198   validation: repeated too often
    * ValueTooLong              AE, 104   validation
      * MessageTooComplex       AE, 104   too many fields to be validated
    * InternalError             AE, 207   an error of this program; the sender may retry

Texts are sent to the sender (MSA-3, ERR-8). They name the class and locations, never values.

The tables of acknowledgments and errors have the codes as in messages as values; names are the
descriptions of the tables, shortened. Local codes are in the code tables of mapping definitions.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum, unique
from typing import Any, ClassVar

from typing_extensions import override


@unique
class AckCode(StrEnum):
    """Table 0008, acknowledgment code (MSA-1)."""

    ACCEPT = "AA"
    ERROR = "AE"
    REJECT = "AR"
    COMMIT_ACCEPT = "CA"
    COMMIT_ERROR = "CE"
    COMMIT_REJECT = "CR"

    @property
    def positive(self) -> bool:
        """Whether the code is AA or CA."""
        return self in {AckCode.ACCEPT, AckCode.COMMIT_ACCEPT}

    @property
    def commit(self) -> "AckCode":
        """The code of the same outcome as an accept acknowledgment (HL7 v2.5.1 §2.9.3)."""
        return AckCode("C" + self[1])

    @property
    def application(self) -> "AckCode":
        """The code of the same outcome as an application acknowledgment (HL7 v2.5.1 §2.9.2)."""
        return AckCode("A" + self[1])


@unique
class AckCondition(StrEnum):
    """Table 0155, accept/application acknowledgment conditions (MSH-15, MSH-16)."""

    ALWAYS = "AL"
    NEVER = "NE"
    ERROR = "ER"
    SUCCESS = "SU"


@unique
class ErrorCode(StrEnum):
    """Table 0357, message error condition codes (ERR-3, ERR-1.4)."""

    ACCEPTED = "0"
    SEGMENT_SEQUENCE = "100"
    REQUIRED_FIELD_MISSING = "101"
    DATA_TYPE = "102"
    TABLE_VALUE_NOT_FOUND = "103"
    VALUE_TOO_LONG = "104"
    CARDINALITY = "198"
    OTHER = "199"
    UNSUPPORTED_MESSAGE_TYPE = "200"
    UNSUPPORTED_EVENT = "201"
    UNSUPPORTED_PROCESSING_ID = "202"
    UNSUPPORTED_VERSION = "203"
    UNKNOWN_KEY = "204"
    DUPLICATE_KEY = "205"
    RECORD_LOCKED = "206"
    INTERNAL = "207"


@unique
class ErrorSeverity(StrEnum):
    """Table 0516, error severity (ERR-4)."""

    WARNING = "W"
    INFORMATION = "I"
    ERROR = "E"
    FATAL = "F"


class MessageRefusal(Exception):
    """Why a message is refused. `place` is a path (`PID-3.1`), `MSH`, or empty if unknown."""

    ack_code: ClassVar[AckCode] = AckCode.ERROR
    error_code: ClassVar[ErrorCode] = ErrorCode.OTHER
    problem: ClassVar[str] = "message refused"
    usual_place: ClassVar[str] = ""

    def __init__(self, place: str | None = None) -> None:
        self.place = self.usual_place if place is None else place
        super().__init__(self.text)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling: `args` contains the text, not the arguments of `__init__`."""
        return _restore, (type(self), self.args, vars(self))

    @property
    def text(self) -> str:
        """The text for people: problem and location, such as `required field missing: PID-3`."""
        return f"{self.problem}: {self.place}" if self.place else self.problem


def _restore(
    kind: type[MessageRefusal], args: tuple[str, ...], state: Mapping[str, Any]
) -> MessageRefusal:
    refusal = kind.__new__(kind, *args)
    vars(refusal).update(state)
    return refusal


@unique
class MalformedReason(StrEnum):
    """The reasons why bytes are not one HL7 v2 message."""

    NOT_HL7 = "not an HL7 v2 message: it does not begin with MSH"
    FIELD_SEPARATOR = "the field separator is not a punctuation character"
    ENCODING_CHARACTERS = "encoding characters empty, repeated, too many or not punctuation"
    UTF_16 = "UTF-16 and UTF-32 are not supported, send UTF-8"
    SECOND_HEADER = "a second message header, but no batch header"
    STRAY_LINE = "a line after this segment is not a segment"
    TOO_MANY_SEGMENTS = "the message has too many segments"
    TOO_MANY_FIELDS = "the message has too many fields or parts of fields"
    TOO_MANY_ESCAPES = "the message has too many escape sequences"
    TOO_LARGE = "the message is larger than this listener accepts"
    INCOMPLETE = "the frame did not arrive completely"
    TOO_MANY_MESSAGES = "the batch has more than 10,000 messages"
    STRAY_IN_BATCH = "the batch has lines that belong to no message"
    BATCH = "a batch where a single message was expected"


class MalformedMessage(MessageRefusal):
    """The bytes cannot be parsed as a message without guessing."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "malformed message"

    def __init__(self, reason: MalformedReason, place: str = "MSH") -> None:
        self.reason = reason
        super().__init__(place)

    @property
    @override
    def text(self) -> str:
        """The reason and its location."""
        return f"{self.reason}: {self.place}" if self.place else self.reason.value


class UnsupportedMessage(MessageRefusal):
    """No mapping accepts this message type (MSH-9.1)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_MESSAGE_TYPE
    problem = "unsupported message type"
    usual_place = "MSH-9.1"


class UnsupportedEvent(MessageRefusal):
    """The message type is known, but no mapping accepts its trigger event (MSH-9.2)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_EVENT
    problem = "unsupported event code"
    usual_place = "MSH-9.2"


class UnsupportedProcessingId(MessageRefusal):
    """The listener does not accept this processing id (MSH-11)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_PROCESSING_ID
    problem = "unsupported processing id"
    usual_place = "MSH-11"


class UnsupportedVersion(MessageRefusal):
    """The listener does not accept this version (MSH-12)."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.UNSUPPORTED_VERSION
    problem = "unsupported version id"
    usual_place = "MSH-12"


class UnknownSender(MessageRefusal):
    """Mappings accept this type and event, but not from this sender or for this receiver."""

    ack_code = AckCode.REJECT
    error_code = ErrorCode.TABLE_VALUE_NOT_FOUND
    problem = "sender or receiver not accepted"
    usual_place = "MSH-3"


class MissingField(MessageRefusal):
    """A required field is empty."""

    error_code = ErrorCode.REQUIRED_FIELD_MISSING
    problem = "required field missing"


class WrongDataType(MessageRefusal):
    error_code = ErrorCode.DATA_TYPE
    problem = "data type error"


class IdentifierTooLong(WrongDataType):
    """An identifier is longer than report services accept. Identifiers are not cut."""

    problem = "identifier longer than 1024 characters"


class TableValueNotFound(MessageRefusal):
    """A coded value is in no code table."""

    error_code = ErrorCode.TABLE_VALUE_NOT_FOUND
    problem = "table value not found"


class UnknownKeyIdentifier(MessageRefusal):
    """The message refers to a patient, visit or order that does not exist."""

    error_code = ErrorCode.UNKNOWN_KEY
    problem = "unknown key identifier"


class DuplicateKeyIdentifier(MessageRefusal):
    """The key exists already, or a record is merged with itself."""

    error_code = ErrorCode.DUPLICATE_KEY
    problem = "duplicate key identifier"


class StructureViolation(MessageRefusal):
    """A segment or group is missing, or its message structure has no place for it."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "does not match the message structure"


class TooManyGroups(MessageRefusal):
    """A message has more orders or patients than the limit."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "more than 1000 orders or patients in one message"


class TooLargeForPatients(TooManyGroups):
    problem = "too large for its number of patients"
    usual_place = "PID-3"


class TooMuchShared(TooManyGroups):
    """The groups of a message share many or large segments, which each of them reads and stores."""

    problem = "too many or too large segments are shared by its orders or patients"


class ForbiddenElement(MessageRefusal):
    """An element has a value that its message structure does not allow."""

    error_code = ErrorCode.SEGMENT_SEQUENCE
    problem = "has a value that the message structure does not allow"


class OutOfSequence(MessageRefusal):
    """The sequence number is ahead of the expected one (HL7 v2.5.1 §2.10.1)."""

    error_code = ErrorCode.OTHER
    problem = "not the expected sequence number"
    usual_place = "MSH-13"


class BatchCountMismatch(MessageRefusal):
    """A batch or file announces another number of messages or batches than it contains."""

    error_code = ErrorCode.OTHER
    problem = "wrong count of messages or batches"


class TooManyRepetitions(MessageRefusal):
    """An element is repeated more often than its message structure allows."""

    error_code = ErrorCode.CARDINALITY
    problem = "repeated too often"


class ValueTooLong(MessageRefusal):
    """A value is longer than its message structure allows."""

    error_code = ErrorCode.VALUE_TOO_LONG
    problem = "value too long"


class MessageTooComplex(ValueTooLong):
    """The message has more fields, repetitions and components than validation examines."""

    problem = "too many fields to be validated"
    usual_place = "MSH"


class InternalError(MessageRefusal):
    """An error of this program. The sender gets no detail of the cause."""

    error_code = ErrorCode.INTERNAL
    problem = "application internal error"


def strictest(refusals: Sequence[MessageRefusal]) -> AckCode:
    """Return the code for several refusals: AR before AE; AA for none."""
    codes = {refusal.ack_code for refusal in refusals}
    if AckCode.REJECT in codes:
        return AckCode.REJECT
    return AckCode.ERROR if codes else AckCode.ACCEPT
