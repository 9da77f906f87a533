"""
The HTTP interface of the report engine: terms here, bodies of responses in `responses`.

The engine and `bridge.engine_client` share it, and do not import each other.
"""

from enum import StrEnum

TOKEN_HEADER = "x-access-token"  # noqa: S105  # the header's name, no token


MAX_REPORT_ORDERS = 100
"""Orders of one report. Each change in the feed has all of them, with their tags."""


class ReportStatus(StrEnum):
    """Status of a report (interface reference, Report status record)."""

    PRE_LAUNCH = "PreLaunch"  # launch responses only: nothing to show yet
    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


class FeedFault(StrEnum):
    """Error codes of change feed cursors that come from another database."""

    BEYOND_END = "cursor_beyond_end"
    OTHER_FEED = "cursor_of_another_feed"


_MARKED = 1 << 52
"""
The bit that is set in cursors with a mark. JSON readers represent integers of up to 53 bits
exactly.
"""
_MARK_BITS = 16
MAX_MARKS = 1 << _MARK_BITS


def mark_cursor(position: int, mark: int) -> int:
    """
    Return a change feed cursor: the number of a change, and a mark computed from its content.

    Cursors increase with the numbers. A cursor of an older release has no mark: it is the number.
    """
    return _MARKED | position << _MARK_BITS | mark


def split_cursor(cursor: int) -> tuple[int, int | None]:
    """Return the number of a cursor's change, and its mark, None if the cursor has no mark."""
    if not _MARKED <= cursor < 2 * _MARKED:
        return cursor, None
    return (cursor - _MARKED) >> _MARK_BITS, cursor % MAX_MARKS
