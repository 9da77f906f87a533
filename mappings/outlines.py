"""
The outline of a message: one pattern for all that are cut into segments alike.

Says nothing of what stands in them; its groups are the fields that somebody wants to read.
"""

import re
from collections.abc import Sequence

from mappings.hl7.header import Header

HEAD = 4
"""Bytes of a line that belong to its outline: a segment's name and the field separator."""


def outline(
    heads: Sequence[bytes], places: Sequence[tuple[int, int]], header: Header
) -> re.Pattern[bytes] | None:
    """
    Write the pattern of a message whose lines begin so; a group for each place, in their order.

    Possessive throughout: what does not match is found out in one pass. None where a line to be
    read has no field separator behind its name.
    """
    separator = header.fields[1]
    lines = []
    for number, head in enumerate(heads):
        wanted = {field for line, field in places if line == number}
        if wanted and head[3:] != separator:
            return None
        known = head + header.fields[2] + separator if number == 0 else head
        lines.append(re.escape(known) + _line(wanted, re.escape(separator), len(head)))
    return re.compile(rb"\r".join(lines) + rb"\r*+")


def _line(wanted: set[int], separator: bytes, head: int) -> bytes:
    """Write the pattern of what is behind a head: fields as far as wanted, and the rest."""
    if head < HEAD:
        return b""
    one = rb"[^\r%s]*+" % separator
    fields = b""
    for number in range(max(wanted, default=0), 0, -1):
        field = b"(%s)" % one if number in wanted else one
        fields = field + (rb"(?:%s%s)?+" % (separator, fields) if fields else b"")
    return fields + rb"[^\r]*+"
