"""
The time of a message (MSH-7), the clock that it was read from, and comparison of two times.

Times of different clocks are never compared: a clock that is five minutes fast would make the
cancellation of another sender look older than the order. Times of one clock are compared at the
coarser resolution: 10:00 is not earlier than 10:00:30.
"""

from enum import IntEnum, unique
from typing import NamedTuple

UNKNOWN = 0
"""The clock of arrival times, and of times that were stored before clocks were recorded."""


@unique
class Resolution(IntEnum):
    """The precision of a time."""

    MINUTE = 1
    SECOND = 2
    MILLISECOND = 3


_UNITS_MS = {Resolution.MINUTE: 60_000, Resolution.SECOND: 1_000, Resolution.MILLISECOND: 1}
_RESOLUTION_BITS = 2
_SENDERS = (1 << 61) - 1


class MessageTime(NamedTuple):
    """Milliseconds since 1970, and the clock: the sender's number above the resolution bits."""

    at: int
    clock: int

    @property
    def sender(self) -> int:
        return self.clock >> _RESOLUTION_BITS

    @property
    def resolution(self) -> Resolution:
        return Resolution(self.clock & ((1 << _RESOLUTION_BITS) - 1))


def clock(sender: int, resolution: Resolution) -> int:
    """Return the number of a clock: positive, and never `UNKNOWN`."""
    return (sender & _SENDERS) << _RESOLUTION_BITS | resolution


def comparable_time(at: int | None, clock: int | None) -> MessageTime | None:
    """Read a time from its two columns; None if it cannot be compared."""
    return None if at is None or not clock else MessageTime(at, clock)


def are_comparable(one: MessageTime | None, other: MessageTime | None) -> bool:
    """True if two times were read from the same clock."""
    return one is not None and other is not None and one.sender == other.sender


def is_earlier(
    one: MessageTime | None, other: MessageTime | None, *, came_first: bool = False
) -> bool:
    """
    True if one message was sent before the other.

    Equal, missing and incomparable times prove nothing: the result is then `came_first`. By default
    messages arrived in the order in which they are processed.
    """
    if one is None or other is None or one.sender != other.sender:
        return came_first
    unit = _UNITS_MS[min(one.resolution, other.resolution)]
    left, right = one.at // unit, other.at // unit
    return left < right if left != right else came_first


def newest(known: MessageTime | None, time: MessageTime | None) -> MessageTime | None:
    """Return the later of a known time and that of a message that was processed after it."""
    if time is None or is_earlier(time, known):
        return known
    return time
