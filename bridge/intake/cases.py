"""
One message on its way through the handler: what came, what it was judged to be, who sent it.

Beside it what its answers need of it: the rows it is kept in, and the way back to its sender.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bridge.intake.verdict import Verdict
from bridge.queue.arrivals import Receipt
from mllp.contract import Peer

Replies = Sequence[bytes]


class Case(NamedTuple):
    """One frame, or one message of a batch."""

    payload: bytes
    verdict: Verdict
    peer: Peer
    now: datetime
    further: tuple[int, ...] = ()
    """Row ids of the other parts of the message."""


def with_parts(case: Case, receipts: Sequence[Receipt]) -> Case:
    """Give a case with the rows of its message behind the first."""
    return case._replace(further=tuple(each.message_id for each in receipts[1:]))


def send_later(late: Replies, peer: Peer) -> None:
    """Send the application acknowledgment; if the sender has gone, its retransmit asks for it."""
    for each in late:
        peer.send(each)
