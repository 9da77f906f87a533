"""
Values: what the text of a field means, where HL7 leaves senders room.

Null, study UIDs, dates (`mappings.hl7.times`) and names (`mappings.hl7.names`).
"""

import re

from mappings.hl7.elements import NULL
from mappings.hl7.names import PersonName, preferred_name, xcn_display, xpn_display, xpn_raw
from mappings.hl7.times import Precision, Timestamp, format_moment, parse_timestamp

__all__ = [
    "NULL",
    "PersonName",
    "Precision",
    "Timestamp",
    "format_moment",
    "is_null",
    "is_uid",
    "parse_timestamp",
    "preferred_name",
    "present",
    "xcn_display",
    "xpn_display",
    "xpn_raw",
]

_LONGEST_UID = 64
_UID = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+")


def is_null(text: str) -> bool:
    """Tell whether a value is `""`: delete what is stored (HL7 v2.5.1 §2.5.3)."""
    return text.strip() == NULL


def present(text: str) -> str:
    """Return the value without blanks at its ends; '' for null, as for identifiers."""
    text = text.strip()
    return "" if text == NULL else text


def is_uid(text: str) -> bool:
    """Tell whether a text has the syntax of a DICOM UID (PS3.5 §9.1); `ZDS-1` often has not."""
    return len(text) <= _LONGEST_UID and _UID.fullmatch(text) is not None
