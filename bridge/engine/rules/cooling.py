"""
The sign cooling period: when it ends, and whether it still runs.

Moments are milliseconds of the server's clock; a period that has reached its end is over.
"""


def cooling_end(signed_at: int, sign_delay: int, *, ignore_delay: bool) -> int | None:
    """Return when a signature becomes final; None at once. `sign_delay` is in seconds, 0 is off."""
    return None if ignore_delay or sign_delay <= 0 else signed_at + sign_delay * 1000


def is_cooling(cooling_until: int | None, now: int) -> bool:
    """Tell whether a signature can still be recalled."""
    return cooling_until is not None and now < cooling_until
