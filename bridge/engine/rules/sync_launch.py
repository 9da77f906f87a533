"""
Whether a persistent window follows a launch (interface document, SyncLaunch).

Pure. The newest window of a user follows the newest launch for that user; an older
launch is passed over.
"""

from collections.abc import Collection
from enum import StrEnum


class FollowAnswer(StrEnum):
    """What came of a launch that a window should follow."""

    PENDING = "pending"
    FOLLOWED = "followed"
    REFUSED = "refused"


class FollowRefusal(StrEnum):
    """Why a window stays where it is."""

    UNSAVED = "unsaved"
    DIALOG = "dialog"
    NOT_OPENED = "not_opened"


def is_persistent(*, wished: bool, in_frame: bool, frames_follow: bool) -> bool:
    """Tell whether a window follows: in a frame only where the site has it enabled (Limits)."""
    return wished and (frames_follow or not in_frame)


def follows(
    *, window: int, windows: Collection[int], seen: int, sequence: int, answer: FollowAnswer
) -> bool:
    """
    Tell whether a window is the one to follow a launch.

    `windows` are the user's persistent ones, by number, newest highest; `seen` is the newest
    launch that this window knows of. A refused launch is not asked again by itself.
    """
    return (
        answer is FollowAnswer.PENDING
        and sequence > seen
        and window == max(windows, default=window)
    )
