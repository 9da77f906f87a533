r"""
NUL characters in fields: databases and reports cannot hold them, so such messages are refused.

A field contains NUL as a byte or as the escape `\X00\` (HL7 v2.5.1 §2.7.6). NUL bytes around a
message come from transports and are ignored.
"""

import re
from functools import lru_cache

from mappings.hl7 import lines
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.header import Header

_NUL = b"\0"


def null_place(payload: bytes, header: Header) -> str:
    """Return the first location of a message with NUL, such as `OBX[2]-5.1`; '' without NUL."""
    marks = header.delimiters
    mark = marks.escape.encode("latin-1")
    if _NUL not in payload:
        if not mark or payload.count(mark) == header.fields[2].count(mark):
            return ""  # no escape sequences
        if not any(
            0 in bytes.fromhex(each.decode()) for each in _hexadecimal(mark).findall(payload)
        ):
            return ""
    body, _ = lines.trim(payload)
    numbers: dict[bytes, int] = {}
    for line in lines.split(body, marks.field.encode("latin-1")):
        name = line[:3].upper()
        numbers[name] = numbers.get(name, 0) + 1
        at = _position(line, mark)
        if at is not None:
            return _named(line[:at], name.decode("ascii"), numbers[name], marks)
    return ""


def _position(line: bytes, mark: bytes) -> int | None:
    """Return the position of the first NUL in a segment."""
    found = [at] if (at := line.find(_NUL)) >= 0 else []
    for escape in _hexadecimal(mark).finditer(line) if mark else ():
        if 0 in bytes.fromhex(escape[1].decode()):
            found.append(escape.start())
            break
    return min(found, default=None)


@lru_cache(maxsize=64)
def _hexadecimal(mark: bytes) -> re.Pattern[bytes]:
    """Return the possessive pattern of hexadecimal escapes; its search takes linear time."""
    return re.compile(re.escape(mark) + rb"[Xx]((?:[0-9A-Fa-f]{2})++)" + re.escape(mark))


def _named(before: bytes, name: str, number: int, marks: Delimiters) -> str:
    """Return the location that follows a text in its segment."""
    text = before.decode("latin-1")
    field = text.count(marks.field) + (name == "MSH")
    if not field:
        return name
    rest = text.rpartition(marks.field)[2]
    if marks.repetition:
        rest = rest.rpartition(marks.repetition)[2]
    component = rest.count(marks.component) + 1 if marks.component else 1
    segment = f"{name}[{number}]" if number > 1 else name
    return f"{segment}-{field}.{component}" if component > 1 else f"{segment}-{field}"
