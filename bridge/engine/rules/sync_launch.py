"""
Which persistent window follows a launch (interface reference, reportingApp parameters).

The newest window of a user follows the newest launch for that user; older launches are skipped.
"""

from collections.abc import Collection
from enum import StrEnum


class FollowAnswer(StrEnum):
    """The answer of a window to a launch that it should follow."""

    PENDING = "pending"
    FOLLOWED = "followed"
    REFUSED = "refused"


class FollowRefusal(StrEnum):
    """The reason why a window does not follow."""

    UNSAVED = "unsaved"
    DIALOG = "dialog"
    NOT_OPENED = "not_opened"


def is_persistent(*, requested: bool, in_frame: bool, frames_follow: bool) -> bool:
    """True if a window is persistent: in a frame only if the site permits it (Limits)."""
    return requested and (frames_follow or not in_frame)


def follows(
    *, window: int, windows: Collection[int], seen: int, sequence: int, answer: FollowAnswer
) -> bool:
    """
    True if this window must follow a launch.

    `windows` are the numbers of the user's persistent windows, the newest is the highest. `seen` is
    the newest launch that this window knows. A refused launch is not offered again.
    """
    return (
        answer is FollowAnswer.PENDING
        and sequence > seen
        and window == max(windows, default=window)
    )
