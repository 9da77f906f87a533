"""
Words of the report service's interface that both of its sides use.

The engine answers with them and the engine's client reads them; neither imports the other.
"""

from enum import StrEnum

TOKEN_HEADER = "x-access-token"  # noqa: S105  # the header's name, no token


class ReportStatus(StrEnum):
    """What a report can be (interface document, status record and launch response)."""

    PRE_LAUNCH = "PreLaunch"  # launch responses only: nothing to show yet
    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


class FeedFault(StrEnum):
    """Codes of refused cursors of the change feed: the database is not the one they came from."""

    BEYOND_END = "cursor_beyond_end"
    OTHER_FEED = "cursor_of_another_feed"


_MARKED = 1 << 52
"""Set in cursors that bear a mark; JSON's readers keep integers up to 53 bits exact."""
_MARK_BITS = 16
MOST_MARKS = 1 << _MARK_BITS


def mark_cursor(position: int, mark: int) -> int:
    """
    Return a cursor of the change feed: the number of a change, and a mark of what it says.

    Cursors grow with the numbers. One without a mark, as older releases give it, is the number.
    """
    return _MARKED | position << _MARK_BITS | mark


def split_cursor(cursor: int) -> tuple[int, int | None]:
    """Return the number of the change that a cursor is at, and its mark; None without one."""
    if not _MARKED <= cursor < 2 * _MARKED:
        return cursor, None
    return (cursor - _MARKED) >> _MARK_BITS, cursor % MOST_MARKS
