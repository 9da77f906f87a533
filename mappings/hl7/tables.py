"""
HL7 tables of acknowledgments and errors.

Values are the codes as in messages; names are the descriptions of the tables, shortened. Local
codes are in the code tables of mapping definitions.
"""

from enum import StrEnum, unique


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
