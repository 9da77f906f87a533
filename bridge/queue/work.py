"""
What a worker is handed, and what it gives back.

No I/O. An outcome names the event; which state follows is `states.TRANSITIONS`' business.
"""

from dataclasses import dataclass
from typing import Any

from bridge.queue.states import Event, Failure


@dataclass(frozen=True, slots=True)
class Claimed:
    """A stored message whose turn it is. `attempts` counts this one; times are in ms."""

    message_id: int
    payload: bytes
    listener: str
    mapping: str
    mapping_version: str
    lanes: tuple[int, ...]
    attempts: int
    received_at: int
    flags: int
    message_type: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What came of an attempt: ACCEPTED, IGNORED, POSTPONED or GIVEN_UP.

    `code` and `detail` are for operators and bear no patient data. `retry_at` (ms) is for
    what is postponed; None leaves it to the retry policy. `notes` is any JSON value to keep.
    """

    message_id: int
    event: Event
    failure: Failure | None = None
    code: str = ""
    detail: str = ""
    retry_at: int | None = None
    notes: Any = None
