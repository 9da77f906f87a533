"""
The priority of an order, as a code of HL7 table 0485.

It is the member `Priority` of the order's Metadata. Many senders send a word instead of a code; the
words below are converted to codes. Other values are kept.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

MEMBER: Final = "Priority"
"""The member of an order's Metadata."""

_MOST_URGENT_FIRST: Final = ("S", "A", "T", "C", "P", "R", "PRN")
_WORDS: Final = {
    "STAT": "S",
    "EMERGENCY": "S",
    "ASAP": "A",
    "TIMING CRITICAL": "T",
    "CALLBACK": "C",
    "PREOP": "P",
    "PRE-OP": "P",
    "PREOPERATIVE": "P",
    "ROUTINE": "R",
    "AS NEEDED": "PRN",
}


def priority_code(order_metadata: Mapping[str, Any]) -> str | None:
    """Return the priority code of an order, None if its Metadata has none."""
    value = order_metadata.get(MEMBER)
    sent = value.strip() if isinstance(value, str) else ""
    code = _WORDS.get(sent.upper(), sent.upper())
    return (code if code in _MOST_URGENT_FIRST else sent) or None


def most_urgent(codes: Iterable[str | None]) -> str | None:
    """Return the most urgent of the codes of a group; values outside the table come last."""
    return min((code for code in codes if code), key=_rank, default=None)


def _rank(code: str) -> int:
    known = code in _MOST_URGENT_FIRST
    return _MOST_URGENT_FIRST.index(code) if known else len(_MOST_URGENT_FIRST)
