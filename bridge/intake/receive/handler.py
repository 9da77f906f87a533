"""The handler of a listener: frames in, acknowledgments out, storage in between.

Beside it what its answers need of it: the rows it is kept in, and the way back to its sender.

Pure: the caller keeps them, and tells the time. Beyond the bound they are only counted: whoever
knocks at a port all day must not fill the disk.

A positive acknowledgment leaves only after the commit. Whatever fails before is answered
negatively; what fails is logged by class and place. Runs on the reactor, never blocks it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import NamedTuple

import structlog
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from bridge.intake.receive.acknowledgments import HEAD, Answers, NewId, owed, split
from bridge.intake.receive.batches import flaw, like, looks_like_batch, open_batch, unless
from bridge.intake.receive.listener import (
    APPLIED,
    Acknowledge,
    Inbox,
    Listening,
    Outcomes,
    all_applied,
)
from bridge.intake.receive.statistics import AckCounter
from bridge.intake.receive.verdict import Judge, Rule, Verdict, ruled
from bridge.queue.ledger.arrivals import Arrival, Receipt
from bridge.queue.states import QueueState
from bridge.redaction import describe, stack_frames
from mappings.hl7.acknowledgment import unframed_nak
from mappings.hl7.batch import join_acks
from mappings.hl7.refusals import InternalError, MalformedMessage, MalformedReason, MessageRefusal
from mappings.hl7.tables import AckCode
from mllp.contract import Peer, Tell, promised, together
from mllp.errors import FrameMemoryExhausted, FrameTooLarge, FramingError, TruncatedFrame
from mllp.framing import COMMIT_ACK, COMMIT_NAK, Frame

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


MOST = 100
SPAN = 3600.0  # seconds in which so many may be kept


class Remnants:
    """Counts what one listener has kept of late."""

    def __init__(self, most: int = MOST, span: float = SPAN) -> None:
        """Allow `most` within any `span` seconds."""
        self._span = span
        self._kept: deque[float] = deque(maxlen=most)

    def may_keep(self, now: float) -> bool:
        """Say whether one more may be kept now (seconds), and count it if so."""
        full = len(self._kept) == self._kept.maxlen
        if full and now - self._kept[0] < self._span:
            return False
        self._kept.append(now)
        return True


Clock = Callable[[], datetime]
"""Tells the time, with its zone."""


Prepared = tuple[Sequence[Case], Sequence[Arrival] | None]
"""The messages of a frame and their records; None where these could not be made."""


def _refusal_of(error: FramingError) -> MessageRefusal:
    """Say what the sender of a frame that is given up is told."""
    if isinstance(error, FrameMemoryExhausted):
        return InternalError()  # AE: the same frame may be sent again
    large = isinstance(error, FrameTooLarge)
    return MalformedMessage(MalformedReason.TOO_LARGE if large else MalformedReason.INCOMPLETE)


class IntakeHandler:
    """The `Handler` of one MLLP listener."""

    def __init__(
        self,
        listening: Listening,
        inbox: Inbox,
        outcomes: Outcomes,
        counter: AckCounter,
        *,
        clock: Clock,
        new_id: NewId,
        rule: Rule | None = None,
    ) -> None:
        """Join a listener's policy with the ledger; `rule` has the last word of each verdict."""
        self._log = structlog.get_logger("intake").bind(listener=listening.name)
        self._inbox = inbox
        self._outcomes = outcomes
        self._counter = counter
        self._clock = clock
        self._new_id = new_id
        self._rule = rule
        self._remnants = Remnants()
        self.adopt(listening)

    def adopt(self, listening: Listening) -> None:
        """Go on with another policy (a mapping was activated); frames in hand keep theirs."""
        self._listening = listening
        self.takes_long = any(each.takes_long for each in listening.definitions)
        """Whether to judge is for a thread, whatever the frame."""
        self._judge = Judge(listening, self._alarm)
        judge = self._judge.judge
        self._judged = judge if self._rule is None else ruled(judge, self._rule)
        self._answers = Answers(listening, self._new_id)

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Replies]:
        """Answer one frame: nothing positive before it is durable."""
        return promised(self.direct, frame, peer)

    def direct(self, frame: Frame, peer: Peer, tell: Tell) -> None:
        """Answer one frame through `tell`."""
        payload = frame.payload
        if looks_like_batch(payload):
            self.keep(frame, self.prepare(frame, peer), tell)
            return
        now = self._clock()
        self._keep(Case(payload, self._judged(frame, now), peer, now), tell)

    def _keep(self, case: Case, tell: Tell, arrival: Arrival | None = None) -> None:
        try:
            payload, verdict, _, now, _ = case
            if arrival is None:
                arrival = self._answers.arrival(verdict, payload, now)
            if verdict.parts:
                self._in_parts(case, arrival).addCallbacks(tell, tell)
                return
            self._inbox.submit(arrival, partial(self._settle, tell, case))
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._alarm(error)
            tell(self._unavailable(case))

    def unframed(self, error: FramingError, head: bytes) -> bytes:
        """Answer a frame that is given up (too large, or never finished), before the close."""
        refusal, now, head = _refusal_of(error), self._clock(), head[:HEAD]
        self._counter.refused(refusal)
        answer = unframed_nak(head, refusal, control_id=self._new_id(), now=now)
        if self._remnants.may_keep(now.timestamp()):
            told = None if isinstance(error, TruncatedFrame) else answer
            arrival = self._answers.remnant(head, refusal, told, now)
            self._inbox.submit(arrival, self._kept_remnant)
        return answer

    def _kept_remnant(self, receipt: Receipt | BaseException) -> None:
        if isinstance(receipt, BaseException):
            self._alarm(receipt)
        else:
            self._inbox.acknowledged(receipt.message_id)

    def _settle(self, tell: Tell, case: Case, kept: Receipt | BaseException) -> None:
        """Answer by what became of an arrival. Whatever fails here is told as well."""
        try:
            if isinstance(kept, BaseException):
                self._alarm(kept)
                replies: Replies | Deferred[Replies] = self._unavailable(case)
            else:
                replies = self._stored(kept, case)
        except Exception:  # noqa: BLE001  # the connection closes unanswered
            tell(Failure())  # type: ignore[no-untyped-call]
            return
        if isinstance(replies, Deferred):
            replies.addCallbacks(tell, tell)
        else:
            tell(replies)

    def _stored(self, receipt: Receipt, case: Case) -> Replies | Deferred[Replies]:
        return self._answered(receipt, case, self._kept(split(receipt.ack)))

    def _answered(
        self, receipt: Receipt, case: Case, replies: Replies
    ) -> Replies | Deferred[Replies]:
        """Give what a stored message is answered, which `applied` may hold back."""
        self._counter.stored(receipt, case.verdict)
        self._inbox.acknowledged(receipt.message_id)
        verdict = case.verdict
        if (
            self._listening.acknowledge is Acknowledge.APPLIED
            and verdict.header is not None
            and not verdict.refusals
            and AckCode(receipt.ack_code).positive
        ):
            return self._when_applied(receipt, replies, case)
        return replies

    def _in_parts(self, case: Case, whole: Arrival) -> Deferred[Replies]:
        """Store the parts of a message that speaks of many patients, all or none."""

        def answer(receipts: Sequence[Receipt]) -> Replies | Deferred[Replies]:
            return self._stored(receipts[0], with_parts(case, receipts))

        parts = self._answers.parted(whole, case.verdict)
        stored = Deferred.fromFuture(self._inbox.accept_many(parts))
        stored.addCallbacks(answer, self._not_stored, errbackArgs=(case,))
        return stored  # type: ignore[return-value]  # it gives what its callback gives

    def _not_stored(self, failure: Failure, case: Case) -> Replies:
        self._alarm(failure.value)
        return self._unavailable(case)

    def _unavailable(self, case: Case) -> Replies:
        """Say no: what could not be stored must be sent again."""
        self._counter.refused(
            case.verdict.refusals[0] if case.verdict.refusals else InternalError()
        )
        if self._listening.commit_blocks:
            return [COMMIT_NAK]
        return split(self._answers.unavailable(case.verdict, case.payload, case.now))

    def _kept(self, replies: Sequence[bytes]) -> Replies:
        return [COMMIT_ACK, *replies] if self._listening.commit_blocks else replies

    def _when_applied(
        self, receipt: Receipt, replies: Replies, case: Case
    ) -> Replies | Deferred[Replies]:
        """Hold the application acknowledgment back until the report service has answered."""
        header = case.verdict.header
        codes = owed(header, case.verdict.code) if header is not None else None
        if codes is None or codes.application is None:
            return replies
        ids, limit = (receipt.message_id, *case.further), self._listening.applied_limit
        applied = Deferred.fromFuture(all_applied(self._outcomes.wait(each, limit) for each in ids))
        answer: Deferred[Replies] = applied.addCallbacks(
            self._applied, self._not_stored, (replies[-1:], case), {}, (case,), {}
        )
        if replies[:-1]:  # something is told at once
            answer.addCallback(send_later, case.peer)
            return replies[:-1]
        return answer

    def _applied(self, state: QueueState, positive: Replies, case: Case) -> Replies:
        """Answer by what became of it; unfinished is an error, so that the sender asks again."""
        if state in APPLIED:
            return positive
        verdict = case.verdict._replace(refusals=(InternalError(),))
        return self._answers.application(verdict, case.payload, self._clock())

    def prepare(self, frame: Frame, peer: Peer) -> Prepared:
        """Judge a frame and make its records, for `keep`. Touches nothing: any thread may."""
        now = self._clock()
        messages, wrong = [frame], None
        if looks_like_batch(frame.payload):
            messages = open_batch(frame)
            stored = self._listening.acknowledge is Acknowledge.STORED
            wrong = None if stored else flaw(frame.payload)
        cases = [
            Case(each.payload, unless(wrong, self._judged(each, now)), peer, now)
            for each in messages
        ]
        try:
            return cases, [self._answers.arrival(e.verdict, e.payload, now) for e in cases]
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._alarm(error)
            return cases, None

    def keep(self, frame: Frame, prepared: Prepared, tell: Tell) -> None:
        """Store what was prepared, and answer it as the frame itself would have been."""
        cases, wholes = prepared
        if looks_like_batch(frame.payload):
            self._keep_batch(frame, cases, wholes).addCallbacks(tell, tell)
        else:
            self._keep(cases[0], tell, None if wholes is None else wholes[0])

    def _keep_batch(
        self, frame: Frame, cases: Sequence[Case], wholes: Sequence[Arrival] | None
    ) -> Deferred[Replies]:
        """Store all messages of a batch or none, and answer them in one batch."""
        if wholes is None:
            return succeed(self._joined(frame, [self._unavailable(each) for each in cases]))
        try:
            parts = list(map(self._answers.parted, wholes, [each.verdict for each in cases]))
            stored = Deferred.fromFuture(self._inbox.accept_many([*chain(*parts)]))
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._alarm(error)
            return succeed(self._joined(frame, [self._unavailable(each) for each in cases]))

        def answer(of_parts: Sequence[Receipt]) -> Replies | Deferred[Replies]:
            kept = [
                self._answered(receipts[0], with_parts(case, receipts), split(receipts[0].ack))
                for case, receipts in zip(cases, like(parts, of_parts), strict=True)
            ]
            if not any(isinstance(each, Deferred) for each in kept):
                return self._kept(self._joined(frame, kept))  # type: ignore[arg-type]  # as said
            whole = together(kept).addCallback(partial(self._joined, frame))
            if not self._listening.commit_blocks:
                return whole
            whole.addCallback(send_later, cases[0].peer)
            return [COMMIT_ACK]

        def refuse(failure: Failure) -> Replies:
            self._alarm(failure.value)
            return self._joined(frame, [self._unavailable(each) for each in cases])

        stored.addCallbacks(answer, refuse)
        return stored  # type: ignore[return-value]  # see above

    def _joined(self, frame: Frame, replies: Sequence[Replies]) -> Replies:
        flat = [ack for each in replies for ack in each[-1:]]
        if COMMIT_NAK in flat:  # all are kept or none
            return [COMMIT_NAK]
        if replies and not flat:  # none of its messages wants an answer
            return []
        return [join_acks(frame.payload, flat, control_id=self._new_id(), now=self._clock())]

    def _alarm(self, error: BaseException | None) -> None:
        if error is not None:
            self._log.error("not accepted", error=describe(error), trace=stack_frames(error))
