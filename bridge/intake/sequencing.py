"""
Listeners that count their senders' messages (MSH-13): frames one at a time, numbers on disk.

A message is stored before its number, and its number before it is answered: what is sent again
after a crash between the two is known by its bytes, and counted then. The rules are `sequence`'s.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bridge.executors import Threads
from bridge.intake.batches import looks_like_batch, open_batch
from bridge.intake.listening import SequenceNumbers
from bridge.intake.needs import Inbox
from bridge.intake.parts import number_of
from bridge.intake.sequence import Advance, advance
from bridge.intake.verdict import Verdict
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.hashing import signed64
from bridge.store.errors import StoreError
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import InternalError, Refusal
from mappings.hl7.tables import AckCode
from mllp.contract import Handler, Peer
from mllp.framing import Frame

HandOver = Callable[[Frame, Peer], Awaitable[Deferred[Sequence[bytes]]]]
"""Judges a frame and hands it over to be stored; gives what becomes its answer."""

Links = dict[int, int | None]
Answer = Sequence[Receipt] | BaseException


class Numbers(Protocol):
    """What is needed of `bridge.store.sequence_links`. Blocking."""

    def read(self, senders: Sequence[int]) -> Links:
        """Give the number accepted last of each sender."""

    def keep(self, before: Links, after: Links) -> None:
        """Write what is accepted now, unless somebody else has."""


@dataclass(slots=True)
class _Case:
    """One frame while it is judged and stored; `before` None: the numbers could not be read."""

    before: Links | None
    after: Links = field(default_factory=dict)
    steps: list[tuple[int, Advance]] = field(default_factory=list)
    """Sender and outcome of each message, in order."""
    stored: asyncio.Future[None] | None = None
    heads: list[bool] = field(default_factory=lambda: [True])
    """Of each arrival whether it answers for a message, or is a further part of one."""

    def to_keep(self, receipts: Sequence[Receipt]) -> Links:
        """Give the numbers that have changed."""
        before = self.before or {}
        now: Links = dict(before)
        for (sender, step), receipt in zip(self.steps, compress(receipts, self.heads), strict=True):
            if not step.only_if_taken or AckCode(receipt.ack_code).positive:
                now[sender] = step.last
        return {sender: last for sender, last in now.items() if before.get(sender) != last}


class Sequencer:
    """Stands before a handler, has the last word of its verdicts, and is its inbox."""

    def __init__(self, inbox: Inbox, numbers: Numbers, mode: SequenceNumbers) -> None:
        """Store in `inbox`, then in `numbers`."""
        self._inbox = inbox
        self._numbers = numbers
        self._mode = mode
        self._turn = asyncio.Lock()
        self._case = _Case(None)
        self._tasks: set[asyncio.Task[None]] = set()

    def in_front(self, hand_over: HandOver) -> Handler:
        """Give a handler that hands frames over one after the other."""

        def answer(frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
            return Deferred.fromFuture(asyncio.ensure_future(self._take(hand_over, frame, peer)))

        return answer

    def rule(self, verdict: Verdict, payload: bytes) -> Verdict:
        """Give what a verdict comes to under the protocol."""
        case, header = self._case, verdict.header
        if header is None or case.before is None:
            unread = () if header is None else (InternalError(),)
            step = Advance(verdict._replace(lanes=(), refusals=verdict.refusals or unread), None)
            sender = 0
        else:
            sender = _sender(header)
            last = case.after.get(sender, case.before.get(sender))
            step = advance(verdict, payload, last, self._mode)
            case.after[sender] = step.last
        case.steps.append((sender, step))
        return step.verdict

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """Store one message, then its number; what was not judged has none."""
        if not self._case.steps or self._case.stored is not None:
            self._inbox.submit(arrival, settle)
            return

        def tell(answer: Answer) -> None:
            settle(answer if isinstance(answer, BaseException) else answer[0])

        stored, finish = self._finisher(tell)
        self._inbox.submit(
            arrival, lambda one: finish(one if isinstance(one, BaseException) else [one])
        )
        self._case.stored = stored

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages of a batch and then their numbers, or none."""
        kept = self._inbox.accept_many(arrivals)
        result: asyncio.Future[Sequence[Receipt]] = asyncio.get_running_loop().create_future()
        self._case.stored, finish = self._finisher(partial(_resolve, result))
        kept.add_done_callback(lambda done: finish(done.exception() or done.result()))
        self._case.heads = [not number_of(each.flags) for each in arrivals]
        return result

    def acknowledged(self, message_id: int) -> None:
        """Note that a message's acknowledgment went to the connection it was owed to."""
        self._inbox.acknowledged(message_id)

    async def _take(self, hand_over: HandOver, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop = asyncio.get_running_loop()
        async with self._turn:
            self._case = case = _Case(await self._read(frame))
            answered = await hand_over(frame, peer)  # judged, and on its way to be stored
            if case.stored is not None:
                await case.stored
        return await answered.asFuture(loop)

    async def _read(self, frame: Frame) -> Links | None:
        try:
            return await Threads.INTAKE.run(self._numbers.read, [*set(_senders(frame))])
        except StoreError:
            return None

    def _finisher(
        self, tell: Callable[[Answer], object]
    ) -> "tuple[asyncio.Future[None], Callable[[Answer], None]]":
        """Give what goes on with the case in hand once it is stored, and what waits for that."""
        case = self._case
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(answer: Answer) -> None:
            task = asyncio.ensure_future(self._keep(case, answer, tell))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: _resolve(stored, None))

        return stored, finish

    async def _keep(self, case: _Case, answer: Answer, tell: Callable[[Answer], object]) -> None:
        """Keep the numbers of what was taken, then tell what came of it, whatever fails."""
        if not isinstance(answer, BaseException):
            try:
                if changed := case.to_keep(answer):
                    await Threads.INTAKE.run(self._numbers.keep, case.before or {}, changed)
            except Exception as error:  # noqa: BLE001  # the sender is answered, negatively
                answer = error
        tell(answer)


def _senders(frame: Frame) -> Iterator[int]:
    for each in open_batch(frame) if looks_like_batch(frame.payload) else [frame]:
        try:
            yield _sender(peek(each.payload))
        except Refusal:
            continue


def _sender(header: Header) -> int:
    return signed64(header.sending_application.strip(), header.sending_facility.strip())


def _resolve(future: asyncio.Future[Any], answer: object) -> None:
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
