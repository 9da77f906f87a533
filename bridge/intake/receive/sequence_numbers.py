"""The sequence number protocol (HL7 v2.5.1 §2.10.1): frames one at a time, numbers on disk.

Pure. The number last accepted comes in; what is to be said of MSH-13 goes out. Who keeps the
numbers is `sequencing`'s business.

A message is stored before its number, and its number before it is answered: what is sent again
after a crash between the two is known by its bytes, and counted then. The rules are `sequence`'s.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred

from bridge.executors import Threads
from bridge.intake.receive.batches import looks_like_batch, open_batch
from bridge.intake.receive.listener import Inbox, SequenceNumbers
from bridge.intake.receive.patient_split import number_of
from bridge.intake.receive.verdict import Turn, Verdict
from bridge.queue.ledger.arrivals import Arrival, Receipt, signed64
from bridge.store.errors import StoreError
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import (
    DuplicateKeyIdentifier,
    InternalError,
    MessageRefusal,
    MissingField,
    OutOfSequence,
    WrongDataType,
)
from mappings.hl7.tables import AckCode
from mllp.contract import Handler, Peer
from mllp.framing import Frame

PLACE = "MSH-13"
RESTART, RESYNCHRONIZE = 0, -1
_MOST_DIGITS = 15  # of an NM, HL7 v2.5.1 §2.15.9.13
_UNKNOWN = b"-1"  # MSA-4 when any number may be the next


class Advance(NamedTuple):
    """
    A verdict under the protocol, and the number that is the last one then.

    `last` None: none is known, so that any number may follow. `only_if_taken`: it counts once
    the message was stored and answered positively.
    """

    verdict: Verdict
    last: int | None
    only_if_taken: bool = True


def advance(verdict: Verdict, payload: bytes, last: int | None, mode: SequenceNumbers) -> Advance:
    """Apply the protocol to what was found of a message that its header does not refuse."""
    header = verdict.header
    if header is None or verdict.definition is None or mode is SequenceNumbers.OFF:
        return Advance(verdict, last)
    raw = header.sequence_number.strip()
    if not raw or raw == b'""':
        missing = mode is SequenceNumbers.REQUIRE
        return Advance(_refused(verdict, MissingField(PLACE)) if missing else verdict, last)
    number = _read(raw)
    if number is None:
        return Advance(_refused(verdict, WrongDataType(PLACE)), last)
    if number in {RESTART, RESYNCHRONIZE}:
        return _about_the_link(verdict, payload, number, last)
    return _in_turn(verdict, number, last)


def _in_turn(verdict: Verdict, number: int, last: int | None) -> Advance:
    if last is None or number == last + 1:
        turn = Turn(b"%d" % number)
        taken = not verdict.refusals
        return Advance(verdict._replace(turn=turn), number if taken else last)
    refusal = DuplicateKeyIdentifier(PLACE) if number <= last else OutOfSequence()
    return Advance(_refused(verdict, refusal, _expected(last), fresh=number > last), last)


def _about_the_link(verdict: Verdict, payload: bytes, number: int, last: int | None) -> Advance:
    """
    Answer a restart with what is expected, a resynchronization with -1.

    Such a message need have nothing but its header. One that has more is a message as well.
    """
    after = last if number == RESTART else None
    said = _expected(after)
    if verdict.header is not None and is_bare(payload, verdict.header):
        turn = Turn(said, is_fresh=True, is_bare=True)
        verdict = Verdict(verdict.header, verdict.definition, turn=turn)
    else:
        verdict = verdict._replace(turn=Turn(said))
    return Advance(verdict, after, only_if_taken=False)


def is_bare(payload: bytes, header: Header) -> bool:
    """Tell whether all fields behind MSH are empty or null."""
    marks = header.delimiters
    nothing = f'{marks.field}{marks.encoding_characters}" \t'.encode()
    lines = payload.replace(b"\n", b"\r").split(b"\r")
    beyond = [line for line in lines if line.strip()][1:]
    return not any(line[3:].strip(nothing) for line in beyond)


def _expected(last: int | None) -> bytes:
    return _UNKNOWN if last is None else b"%d" % (last + 1)


def _refused(
    verdict: Verdict, refusal: MessageRefusal, expected: bytes = b"", *, fresh: bool = False
) -> Verdict:
    turn = Turn(expected, is_fresh=fresh)
    return Verdict(verdict.header, verdict.definition, refusals=(refusal,), turn=turn)


def _read(raw: bytes) -> int | None:
    """Read an NM that is whole; None where it is none, or below -1."""
    digits = raw.removeprefix(b"+").removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    number = int(raw)
    return number if number >= RESYNCHRONIZE else None


HandOver = Callable[[Frame, Peer], Awaitable[Deferred[Sequence[bytes]]]]
"""Judges a frame and hands it over to be stored; gives what becomes its answer."""

Links = dict[int, int | None]
Answer = Sequence[Receipt] | BaseException


class Numbers(Protocol):
    """What is needed of `bridge.store.records.sequence_numbers`. Blocking."""

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
        except MessageRefusal:
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
