"""
The HL7 tables whose codes the code depends on.

Values are the codes as in messages; names are the descriptions of the tables, shortened. Local
codes are in the code tables of mapping definitions.
"""

from enum import StrEnum, unique


@unique
class OrderControl(StrEnum):
    """Table 0119, order control codes (ORC-1)."""

    ORDER_REFILL_APPROVED = "AF"
    CANCEL_REQUEST = "CA"
    CHILD = "CH"
    COMBINED_RESULT = "CN"
    CANCEL_PROCESS_STEP = "CP"
    CANCELLED_AS_REQUESTED = "CR"
    DISCONTINUE_REQUEST = "DC"
    DATA_ERRORS = "DE"
    REFILL_DENIED = "DF"
    DISCONTINUED_AS_REQUESTED = "DR"
    REFILLED_UNSOLICITED = "FU"
    HOLD_REQUEST = "HD"
    ON_HOLD_AS_REQUESTED = "HR"
    LINK_TO_PROBLEM = "LI"
    MONEY_CHARGED = "MC"
    NUMBER_ASSIGNED = "NA"
    NOTIFICATION_RECEIVED = "NR"
    NEW = "NW"
    CANCELLED = "OC"
    DISCONTINUED = "OD"
    RELEASED = "OE"
    REFILLED_AS_REQUESTED = "OF"
    HELD = "OH"
    ACCEPTED = "OK"
    NOTIFICATION_OF_ORDER = "OP"
    RELEASED_AS_REQUESTED = "OR"
    PARENT = "PA"
    PREVIOUS_RESULTS = "PR"
    NOTIFICATION_WITH_PAYMENT = "PY"
    OBSERVATIONS_TO_FOLLOW = "RE"
    REFILL_REQUEST = "RF"
    RELEASE_PREVIOUS_HOLD = "RL"
    REPLACEMENT_ORDER = "RO"
    REPLACE_REQUEST = "RP"
    REPLACED_AS_REQUESTED = "RQ"
    REQUEST_RECEIVED = "RR"
    REPLACED_UNSOLICITED = "RU"
    STATUS_CHANGED = "SC"
    SEND_NUMBER = "SN"
    STATUS_RESPONSE = "SR"
    STATUS_REQUEST = "SS"
    UNABLE_TO_ACCEPT = "UA"
    UNABLE_TO_CANCEL = "UC"
    UNABLE_TO_DISCONTINUE = "UD"
    UNABLE_TO_REFILL = "UF"
    UNABLE_TO_HOLD = "UH"
    UNABLE_TO_REPLACE = "UM"
    UNLINK_FROM_PROBLEM = "UN"
    UNABLE_TO_RELEASE = "UR"
    UNABLE_TO_CHANGE = "UX"
    CHANGE_REQUEST = "XO"
    CHANGED_AS_REQUESTED = "XR"
    CHANGED_UNSOLICITED = "XX"


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


@unique
class ProcessingId(StrEnum):
    """Table 0103, processing id (MSH-11.1)."""

    DEBUGGING = "D"
    PRODUCTION = "P"
    TRAINING = "T"
    NON_PRODUCTION = "N"
    VALIDATION = "V"


@unique
class Sex(StrEnum):
    """Table 0001, administrative sex (PID-8)."""

    FEMALE = "F"
    MALE = "M"
    OTHER = "O"
    UNKNOWN = "U"
    AMBIGUOUS = "A"
    NOT_APPLICABLE = "N"


@unique
class OrderStatus(StrEnum):
    """Table 0038, order status (ORC-5)."""

    SOME_RESULTS = "A"
    CANCELLED = "CA"
    COMPLETED = "CM"
    DISCONTINUED = "DC"
    ERROR = "ER"
    HELD = "HD"
    IN_PROCESS = "IP"
    REPLACED = "RP"
    SCHEDULED = "SC"


@unique
class ResultStatus(StrEnum):
    """Table 0123, result status (OBR-25)."""

    SOME_RESULTS = "A"
    CORRECTED = "C"
    FINAL = "F"
    IN_PROCESS = "I"
    CORRECTED_NOT_FINAL = "M"
    PROCEDURE_COMPLETED = "N"
    ORDERED = "O"
    PRELIMINARY = "P"
    STORED_NOT_VERIFIED = "R"
    SCHEDULED = "S"
    CANCELLED = "X"
    NO_ORDER = "Y"
    NO_PATIENT = "Z"


@unique
class ObservationStatus(StrEnum):
    """Table 0085, observation result status (OBX-11)."""

    CORRECTED = "C"
    DELETED = "D"
    FINAL = "F"
    IN_PROCESS = "I"
    NOT_ASKED = "N"
    ORDER_DETAIL = "O"
    PRELIMINARY = "P"
    NOT_VERIFIED = "R"
    PARTIAL = "S"
    CHANGED_STATUS_ONLY = "U"
    WRONG = "W"
    UNAVAILABLE = "X"
