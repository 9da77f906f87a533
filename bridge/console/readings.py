"""
Readings: what one person reads of one item within five minutes is one audit event.

A page asks for the parts of an item one by one. Each part stores the event of the reading before it
is returned; all of them have one event id, and the trail keeps the first of equal ids.
"""

import secrets
from collections import OrderedDict
from threading import Lock
from typing import Final

READING_MS: Final = 5 * 60 * 1000
_MAX_READINGS: Final = 10_000


class Readings:
    """The event ids of the readings of this process. Thread-safe."""

    def __init__(self) -> None:
        self._begun: OrderedDict[tuple[str, ...], tuple[int, str]] = OrderedDict()
        self._lock = Lock()

    def event_id(self, reading: tuple[str, ...], now: int) -> str:
        """
        Return the event id of a reading, a new one if none began within five minutes.

        `reading` are the person, their address and the item; `now` is in ms.
        """
        with self._lock:
            begun, event_id = self._begun.get(reading, (0, ""))
            if event_id and begun <= now < begun + READING_MS:
                return event_id
            event_id = secrets.token_hex(16)
            self._begun.pop(reading, None)
            self._begun[reading] = now, event_id
            if len(self._begun) > _MAX_READINGS:
                self._begun.popitem(last=False)
            return event_id
