"""
The short way of ordinary messages through the handler: recorded by their stencil, kept, answered.

What turns out to be none after all (kept before, or not kept) is answered the long way.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from bridge.intake.counting import AckCounter
from bridge.intake.needs import Inbox
from bridge.intake.ordinary import OrdinaryMessages
from bridge.queue.arrivals import Receipt
from mllp.contract import Peer, Tell
from mllp.framing import Frame

LongWay = Callable[[Frame, Peer, datetime, Tell, Receipt | BaseException], None]
"""Answers a frame by what became of its record; told of what failed as well."""


class Shortcut:
    """Stands before the long way of one listener."""

    __slots__ = ("_counter", "_inbox", "_long_way", "_ordinary")

    def __init__(
        self, ordinary: OrdinaryMessages, inbox: Inbox, counter: AckCounter, long_way: LongWay
    ) -> None:
        self._ordinary = ordinary
        self._inbox = inbox
        self._counter = counter
        self._long_way = long_way

    def takes(self, frame: Frame, peer: Peer, now: datetime, tell: Tell) -> bool:
        """Keep and answer a frame, if it is an ordinary message; say whether it is."""
        payload, truncated = frame
        if truncated or (arrival := self._ordinary.arrival(payload, now)) is None:
            return False
        try:
            self._inbox.submit(arrival, partial(self._settle, frame, peer, now, tell))
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._long_way(frame, peer, now, tell, error)
        return True

    def _settle(
        self, frame: Frame, peer: Peer, now: datetime, tell: Tell, kept: Receipt | BaseException
    ) -> None:
        if isinstance(kept, BaseException) or kept.duplicate or kept.reused:
            self._long_way(frame, peer, now, tell, kept)
            return
        self._counter.accepted()
        self._inbox.acknowledged(kept.message_id)
        tell((kept.ack,))
