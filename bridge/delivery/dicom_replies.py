"""
The reply of a PACS to a delivery, as text: one line for each object, with its DIMSE status.

    C-STORE 0000 Success: Encapsulated PDF Storage 2.25.1234
    C-STORE A700 Out of resources: Basic Text SR Storage 2.25.5678

The text is stored as the reply of the delivery. It contains no patient data. The status of the
request for storage commitment (N-ACTION) is a line, too; it says nothing about the objects. Pure.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydicom.uid import UID

_LINE: Final = re.compile(rb"(C-STORE|STOW-RS|N-ACTION) ([0-9A-F]{4}) [^\n]*")


class ObjectStatus(NamedTuple):
    """The status of one object; `service` is C-STORE, STOW-RS or N-ACTION."""

    service: str
    status: int
    words: str
    sop_class: str
    sop_instance: str


def write_reply(statuses: Sequence[ObjectStatus]) -> bytes:
    lines = [
        f"{one.service} {one.status:04X} {one.words}: {UID(one.sop_class).name} {one.sop_instance}"
        for one in statuses
    ]
    return "\n".join(lines).encode()


def statuses_of(reply: bytes) -> list[str]:
    """Return the statuses of the objects in a text of `write_reply`; none of any other reply."""
    lines = reply.split(b"\n")
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        return []
    return [match[2].decode() for match in found if match and match[1] != b"N-ACTION"]
