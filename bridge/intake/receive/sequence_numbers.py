"""The sequence number protocol (HL7 v2.5.1 §2.10.1): frames one at a time, numbers in the database.

The message is stored first, then its number, then it is answered. After a crash between the first
two steps, a retransmit is recognized by its bytes, and its number is stored then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import NamedTuple

from twisted.internet.defer import Deferred

from bridge.executors import Threads, set_outcome
from bridge.index_key import signed64
from bridge.intake.receive.verdict import SequenceCheck, Verdict, looks_like_batch, split_batch
from bridge.queue.arrivals import Arrival, Receipt, part_number
from bridge.queue.message_log import ArrivalStore
from bridge.store.errors import StoreError
from bridge.store.records.sequence_numbers import Links, SequenceLinks
from config.listeners import SequenceNumbers
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import (
    AckCode,
    DuplicateKeyIdentifier,
    InternalError,
    MessageRefusal,
    MissingField,
    OutOfSequence,
    WrongDataType,
)
from mllp.contract import Handler, Peer, ReplyCallback
from mllp.framing import Frame

PLACE = "MSH-13"
RESTART, RESYNCHRONIZE = 0, -1
_MAX_DIGITS = 15  # digits of an NM, HL7 v2.5.1 §2.15.9.13
_LONGEST_HEADER = 2**16
_UNKNOWN = b"-1"  # MSA-4 if any number may be next


class SequencedVerdict(NamedTuple):
    """
    A verdict under the protocol, and the last accepted number after it.

    `last` None: unknown, any number may follow. With `only_if_accepted` the number is stored only
    if the message was stored and answered positively.
    """

    verdict: Verdict
    last: int | None
    only_if_accepted: bool = True


def apply_protocol(
    verdict: Verdict, payload: bytes, last: int | None, mode: SequenceNumbers
) -> SequencedVerdict:
    """Apply the protocol to a verdict; `last` is the number accepted last."""
    header = verdict.header
    if header is None or verdict.definition is None or mode is SequenceNumbers.OFF:
        return SequencedVerdict(verdict, last)
    raw = header.sequence_number.strip()
    if not raw or raw == b'""':
        missing = mode is SequenceNumbers.REQUIRE
        return SequencedVerdict(
            _refused(verdict, MissingField(PLACE)) if missing else verdict, last
        )
    number = _read(raw)
    if number is None:
        return SequencedVerdict(_refused(verdict, WrongDataType(PLACE)), last)
    if number in {RESTART, RESYNCHRONIZE}:
        return _about_numbering(verdict, payload, number, last)
    return _in_turn(verdict, number, last)


def _in_turn(verdict: Verdict, number: int, last: int | None) -> SequencedVerdict:
    if last is None or number == last + 1:
        sequence = SequenceCheck(b"%d" % number)
        accepted = not verdict.refusals
        return SequencedVerdict(verdict._replace(sequence=sequence), number if accepted else last)
    refusal = DuplicateKeyIdentifier(PLACE) if number <= last else OutOfSequence()
    return SequencedVerdict(_refused(verdict, refusal, _expected(last), fresh=number > last), last)


def _about_numbering(
    verdict: Verdict, payload: bytes, number: int, last: int | None
) -> SequencedVerdict:
    """
    Answer a restart with the expected number, a resynchronization with -1.

    Such a message may consist of its header only. If it has more segments, it is also processed.
    """
    after = last if number == RESTART else None
    expected = _expected(after)
    if verdict.header is not None and has_only_header(payload, verdict.header):
        sequence = SequenceCheck(expected, may_change=True, is_header_only=True)
        verdict = Verdict(verdict.header, verdict.definition, sequence=sequence)
    else:
        verdict = verdict._replace(sequence=SequenceCheck(expected))
    return SequencedVerdict(verdict, after, only_if_accepted=False)


def has_only_header(payload: bytes, header: Header) -> bool:
    """
    True if all fields after MSH are empty or null.

    A message beyond `_LONGEST_HEADER` bytes has content, so that it is not split into its lines.
    """
    if len(payload) > _LONGEST_HEADER:
        return False
    marks = header.delimiters
    nothing = f'{marks.field}{marks.encoding_characters}" \t'.encode()
    lines = payload.replace(b"\n", b"\r").split(b"\r")
    after_header = [line for line in lines if line.strip()][1:]
    return not any(line[3:].strip(nothing) for line in after_header)


def _expected(last: int | None) -> bytes:
    return _UNKNOWN if last is None else b"%d" % (last + 1)


def _refused(
    verdict: Verdict, refusal: MessageRefusal, expected: bytes = b"", *, fresh: bool = False
) -> Verdict:
    sequence = SequenceCheck(expected, may_change=fresh)
    return Verdict(verdict.header, verdict.definition, refusals=(refusal,), sequence=sequence)


def _read(raw: bytes) -> int | None:
    """Read a whole number of type NM; None if it is not one, or below -1."""
    digits = raw.removeprefix(b"+").removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        return None
    number = int(raw)
    return number if number >= RESYNCHRONIZE else None


SubmitFrame = Callable[[Frame, Peer], Awaitable[Deferred[Sequence[bytes]]]]
"""Evaluates a frame and submits it to the store; returns its future replies."""

StoreResult = Sequence[Receipt] | BaseException
"""The receipts of the messages of a frame, or why they were not stored."""


@dataclass(slots=True)
class _FrameProgress:
    """One frame while it is evaluated and stored; `before` None: the numbers could not be read."""

    before: Links | None
    after: dict[int, int | None] = field(default_factory=dict)
    steps: list[tuple[int, SequencedVerdict]] = field(default_factory=list)
    """Sender and sequenced verdict of each message, in order."""
    stored: asyncio.Future[None] | None = None
    heads: list[bool] = field(default_factory=lambda: [True])
    """For each arrival, True if it is the first part of its message, which is answered."""

    def changed_numbers(self, receipts: Sequence[Receipt]) -> Links:
        before = self.before or {}
        now = dict(before)
        for (sender, step), receipt in zip(self.steps, compress(receipts, self.heads), strict=True):
            if not step.only_if_accepted or AckCode(receipt.ack_code).positive:
                now[sender] = step.last
        return {sender: last for sender, last in now.items() if before.get(sender) != last}


class Sequencer:
    """
    Applies the protocol for one listener: wraps its handler, changes its verdicts, and is its
    store.
    """

    def __init__(self, inbox: ArrivalStore, numbers: SequenceLinks, mode: SequenceNumbers) -> None:
        """`inbox` stores messages, `numbers` the sequence numbers."""
        self._inbox = inbox
        self._numbers = numbers
        self._mode = mode
        self._turn = asyncio.Lock()
        self._progress = _FrameProgress(None)
        self._tasks: set[asyncio.Task[None]] = set()

    def serialized(self, submit: SubmitFrame) -> Handler:
        def answer(frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
            answered = asyncio.ensure_future(self._process(submit, frame, peer))
            Deferred.fromFuture(answered).addCallbacks(reply, reply)

        return answer

    def rule(self, verdict: Verdict, payload: bytes) -> Verdict:
        """Apply the protocol to a verdict."""
        progress, header = self._progress, verdict.header
        if header is None or progress.before is None:
            unread = () if header is None else (InternalError(),)
            step = SequencedVerdict(
                verdict._replace(lanes=(), refusals=verdict.refusals or unread), None
            )
            sender = 0
        else:
            sender = _sender(header)
            last = progress.after.get(sender, progress.before.get(sender))
            step = apply_protocol(verdict, payload, last, self._mode)
            progress.after[sender] = step.last
        progress.steps.append((sender, step))
        return step.verdict

    def submit(
        self, arrival: Arrival, on_stored: Callable[[Receipt | BaseException], object]
    ) -> None:
        """Store the message of the frame in progress, then its number."""

        def report(outcome: StoreResult) -> None:
            on_stored(outcome if isinstance(outcome, BaseException) else outcome[0])

        stored, finish = self._finisher(report)
        self._inbox.submit(
            arrival, lambda one: finish(one if isinstance(one, BaseException) else [one])
        )
        self._progress.stored = stored

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        """Store all messages of a batch and then their numbers, or none."""
        stored = self._inbox.accept_many(arrivals)
        result: asyncio.Future[Sequence[Receipt]] = asyncio.get_running_loop().create_future()
        self._progress.stored, finish = self._finisher(partial(set_outcome, result))
        stored.add_done_callback(lambda done: finish(done.exception() or done.result()))
        self._progress.heads = [not part_number(arrival.flags) for arrival in arrivals]
        return result

    def acknowledged(self, message_id: int) -> None:
        """Record that the acknowledgment of a message was passed to its connection."""
        self._inbox.acknowledged(message_id)

    async def _process(self, submit: SubmitFrame, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop = asyncio.get_running_loop()
        async with self._turn:
            self._progress = progress = _FrameProgress(await self._read(frame))
            answered = await submit(frame, peer)
            if progress.stored is not None:
                await progress.stored
        return await answered.asFuture(loop)

    async def _read(self, frame: Frame) -> Links | None:
        try:
            return await Threads.MESSAGES.run(lambda: self._numbers.read(_senders(frame)))
        except StoreError:
            return None

    def _finisher(
        self, report: Callable[[StoreResult], object]
    ) -> "tuple[asyncio.Future[None], Callable[[StoreResult], None]]":
        """Return a future for the stored frame, and the function that completes it."""
        progress = self._progress
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(outcome: StoreResult) -> None:
            task = asyncio.ensure_future(self._store_numbers(progress, outcome, report))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: set_outcome(stored, None))

        return stored, finish

    async def _store_numbers(
        self,
        progress: _FrameProgress,
        outcome: StoreResult,
        report: Callable[[StoreResult], object],
    ) -> None:
        """
        Store the numbers of accepted messages, then report the result, even if storing
        them failed.
        """
        if not isinstance(outcome, BaseException):
            try:
                if changed := progress.changed_numbers(outcome):
                    await Threads.MESSAGES.run(self._numbers.store, progress.before or {}, changed)
            except Exception as error:  # noqa: BLE001  # the sender gets a negative answer
                outcome = error
        report(outcome)


def _senders(frame: Frame) -> Iterator[int]:
    for part in split_batch(frame) if looks_like_batch(frame.payload) else [frame]:
        try:
            yield _sender(peek(part.payload))
        except MessageRefusal:
            continue


def _sender(header: Header) -> int:
    return signed64(header.sending_application.strip(), header.sending_facility.strip())
