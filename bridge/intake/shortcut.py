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
from bridge.intake.verdict import Alarm, Verdict
from bridge.queue.arrivals import Arrival, Receipt
from mllp.contract import Peer, Tell
from mllp.framing import Frame

LongWay = Callable[[Frame, Peer, datetime, Tell, Receipt | BaseException], None]
"""Answers a frame by what became of its record; told of what failed as well."""


class Shortcut:
    """Stands before the long way of one listener."""

    __slots__ = ("_alarm", "_counter", "_inbox", "_long_way", "_ordinary")

    def __init__(
        self,
        ordinary: OrdinaryMessages,
        inbox: Inbox,
        counter: AckCounter,
        long_way: LongWay,
        alarm: Alarm,
    ) -> None:
        self._alarm = alarm
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

    def learn(self, verdict: Verdict, arrival: Arrival, now: datetime) -> None:
        """Look at what is kept the long way. A message does not fail for what is not learned."""
        try:
            self._ordinary.learn(verdict, arrival, now)
        except Exception as error:  # noqa: BLE001  # it is kept and answered all the same
            self._alarm(error)

    def _settle(
        self, frame: Frame, peer: Peer, now: datetime, tell: Tell, kept: Receipt | BaseException
    ) -> None:
        if isinstance(kept, BaseException) or kept.duplicate or kept.reused:
            self._long_way(frame, peer, now, tell, kept)
            return
        self._counter.accepted()
        self._inbox.acknowledged(kept.message_id)
        tell((kept.ack,))
