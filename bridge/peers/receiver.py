"""
A receiver of results, as a hospital has one: takes every message and answers it with one code.

It keeps what came in memory's reach of its caller only; there is no queue behind it.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from twisted.internet.defer import Deferred, succeed

from mappings.hl7.acknowledgment import AckCode, build_ack, unframed_nak
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import InternalError, Malformation, Malformed, Refusal
from mllp.contract import Peer
from mllp.errors import FramingError
from mllp.framing import Frame
from mllp.server import MLLPServerFactory


@dataclass(frozen=True, slots=True)
class Received:
    """One message that came, and the answer it got."""

    payload: bytes
    header: Header | None
    reply: bytes


class Receiver:
    """Answers every whole HL7 message with `code`; what is none gets AR."""

    def __init__(self, code: AckCode, take: Callable[[Received], None]) -> None:
        self._code = code
        self._take = take
        self._numbers = itertools.count(1)

    def listen(self, reactor: Any, host: str, port: int) -> int:
        """Start; return the port that listens."""
        factory = MLLPServerFactory(self._handle, clock=reactor, on_unframed=self._unframed)
        return int(reactor.listenTCP(port, factory, interface=host).getHost().port)

    def _handle(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        received = self._answer(frame)
        self._take(received)
        return succeed([received.reply])

    def _answer(self, frame: Frame) -> Received:
        try:
            header = peek(frame.payload)
            if frame.truncated:
                raise Malformed(Malformation.INCOMPLETE)
        except Refusal as refusal:
            return Received(frame.payload, None, self._nak(frame.payload, refusal))
        refusals = () if self._code.positive else (InternalError(),)
        reply = build_ack(
            header, self._code, control_id=self._new_id(), now=datetime.now(UTC), refusals=refusals
        )
        return Received(frame.payload, header, reply)

    def _unframed(self, error: FramingError, head: bytes) -> bytes:
        return self._nak(head, Malformed(Malformation.INCOMPLETE))

    def _nak(self, head: bytes, refusal: Refusal) -> bytes:
        return unframed_nak(head, refusal, control_id=self._new_id(), now=datetime.now(UTC))

    def _new_id(self) -> str:
        return f"R{next(self._numbers)}"
