"""
ERR and its places: how a refusal is written into an acknowledgment.

Up to 2.4 one ERR with a repetition for each error, from 2.5 one ERR for each. Bytes in, bytes
out are `mappings.hl7.ack`'s business; this file makes text.
"""

from collections.abc import Sequence

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import escape
from mappings.hl7.path import BadPath, Path
from mappings.hl7.refusals import Refusal
from mappings.hl7.tables import ErrorCode, Severity

_TABLE = "HL70357"
_LONGEST_TEXT = 80  # ERR-1.4.2 and MSA-3 are ST of 80

NAMES = {
    ErrorCode.ACCEPTED: "Message accepted",
    ErrorCode.SEGMENT_SEQUENCE: "Segment sequence error",
    ErrorCode.REQUIRED_FIELD_MISSING: "Required field missing",
    ErrorCode.DATA_TYPE: "Data type error",
    ErrorCode.TABLE_VALUE_NOT_FOUND: "Table value not found",
    ErrorCode.VALUE_TOO_LONG: "Value too long",
    ErrorCode.CARDINALITY: "Non-conformant cardinality",
    ErrorCode.OTHER: "Other HL7 error",
    ErrorCode.UNSUPPORTED_MESSAGE_TYPE: "Unsupported message type",
    ErrorCode.UNSUPPORTED_EVENT: "Unsupported event code",
    ErrorCode.UNSUPPORTED_PROCESSING_ID: "Unsupported processing id",
    ErrorCode.UNSUPPORTED_VERSION: "Unsupported version id",
    ErrorCode.UNKNOWN_KEY: "Unknown key identifier",
    ErrorCode.DUPLICATE_KEY: "Duplicate key identifier",
    ErrorCode.RECORD_LOCKED: "Application record locked",
    ErrorCode.INTERNAL: "Application internal error",
}
"""Table 0357's own words for the codes."""


def segments(
    refusals: Sequence[Refusal], marks: Delimiters, *, version: tuple[int, ...]
) -> list[str]:
    """Return the ERR segments for refusals in the form of a version such as (2, 5, 1)."""
    if not refusals:
        return []
    if version < (2, 5):
        errors = marks.repetition.join(_eld(refusal, marks) for refusal in refusals)
        return [f"ERR{marks.field}{errors}"]
    return [_segment(refusal, marks) for refusal in refusals]


def short(text: str) -> str:
    """Cut a text to what MSA-3 and ERR-8 are sure to hold."""
    return text[:_LONGEST_TEXT]


def _segment(refusal: Refusal, marks: Delimiters) -> str:
    """ERR of 2.5 and later: ERL, CWE, severity, diagnostics, user message (§2.15.5)."""
    code = marks.component.join(
        (refusal.error_code, escape(NAMES[refusal.error_code], marks), _TABLE)
    )
    location = marks.component.join(_location(refusal.place))
    text = escape(short(refusal.text), marks)
    fields = ("ERR", "", location, code, Severity.ERROR, "", "", text, text)
    return marks.field.join(fields)


def _eld(refusal: Refusal, marks: Delimiters) -> str:
    """ELD of 2.4 and earlier: segment, sequence, field, code (HL7 v2.4 §2.16.5.1)."""
    code = (refusal.error_code, escape(NAMES[refusal.error_code], marks), _TABLE)
    where = [*_location(refusal.place), "", "", ""][:3]
    return marks.component.join((*where, marks.subcomponent.join(code)))


def _location(place: str) -> list[str]:
    """`PID-3[2].1` as ERL: segment, sequence, field, repetition, component, subcomponent."""
    try:
        path = Path.parse(place)
    except BadPath:
        return []
    numbers = [max(path.occurrence, 1)]
    if path.field:
        numbers += [path.field, path.repetition or 1]
        numbers += [number for number in (path.component, path.subcomponent) if number]
    return [path.segment, *map(str, numbers)]
