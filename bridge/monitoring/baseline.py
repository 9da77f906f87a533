"""
Baseline: how many messages a listener usually has by now. Pure; times in ms.

A listener that is silent longer than usual is noticed without a setting. To be robust against
holidays, the smallest count of the same time of earlier weeks is expected. To be robust against
senders of batches, nothing is expected within a usual pause.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from typing import Final
from zoneinfo import ZoneInfo

MINUTE: Final = 60_000
QUARTER: Final = 15 * MINUTE
WEEK: Final = 7 * 86_400_000
WEEKS: Final = 4
"""Earlier weeks that are compared, if there are statistics of them."""
MIN_WEEKS: Final = 2
_MIN_MINUTES: Final = 10
_USUAL_SHARE: Final = 0.9


def week_shift(number: int, now: int, zone: str) -> int:
    """Return the ms from a time `number` weeks ago to the same local time of this week."""
    shift = number * WEEK
    return shift + _offset(now - shift, zone) - _offset(now, zone)


def _offset(moment: int, zone: str) -> int:
    local = datetime.fromtimestamp(moment / 1000, UTC).astimezone(ZoneInfo(zone))
    offset = local.utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


def expected_messages(weeks: Sequence[Mapping[int, int]], begin: int, end: int) -> float:
    """
    Return how many messages usually come from `begin` to `end`.

    `weeks` are counts by quarter hour of earlier weeks, shifted to this week. Of a quarter hour
    that is not complete, a part of its messages is expected.
    """
    expected, start = 0.0, begin - begin % QUARTER
    while start < end:
        part = min(end, start + QUARTER) - max(begin, start)
        expected += min(week.get(start, 0) for week in weeks) * part / QUARTER
        start += QUARTER
    return expected


def longest_usual_pause(minutes: Sequence[int]) -> int:
    """
    Return how long a listener may be silent without a reason.

    `minutes` are the starts of the minutes of the last day with a message, in ascending order. Nine
    of ten pauses between them are at most half as long.
    """
    if len(minutes) < _MIN_MINUTES:
        return QUARTER
    pauses = sorted(after - before - MINUTE for before, after in pairwise(minutes))
    return max(MINUTE, 2 * pauses[ceil(_USUAL_SHARE * len(pauses)) - 1])
