"""The frame handler of a listener: evaluate, store, acknowledge.

A positive acknowledgment leaves only after the commit. An error before the commit is answered
negatively. Errors are logged by class and place, without message content. Runs on the reactor
thread and never blocks it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import structlog
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from bridge.executors import SLOW_MAPPINGS, ThreadLimit, Threads
from bridge.intake.receive.acknowledgments import (
    MAX_HEAD_BYTES,
    AcknowledgmentBuilder,
    ControlIdSource,
    may_require_application_ack,
    required_codes,
    split_replies,
)
from bridge.intake.receive.completion import APPLIED, Completions, all_applied
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.sequence_numbers import Sequencer
from bridge.intake.receive.statistics import AckCounter
from bridge.intake.receive.verdict import (
    MAX_PART_BYTES,
    FrameEvaluator,
    Verdict,
    batch_refusal,
    looks_like_batch,
    split_batch,
    with_refusal,
    with_rule,
)
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.message_log import ArrivalStore
from bridge.queue.states import QueueState
from bridge.redaction import describe, stack_frames
from bridge.workers.offload import LARGE
from config.listeners import Acknowledge
from mappings.hl7.acknowledgment import unframed_nak
from mappings.hl7.batch import join_acks
from mappings.hl7.refusals import (
    AckCode,
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
    TooLargeForPatients,
)
from mappings.language.conditions import PatternsTakeLong, bounded_patterns
from mllp.contract import Peer, ReplyCallback, gather_replies
from mllp.errors import FrameMemoryExhausted, FrameTooLarge, FramingError, TruncatedFrame
from mllp.framing import COMMIT_ACK, COMMIT_NAK, Frame

MAX_ABANDONED_FRAMES = 100
ABANDONED_FRAMES_SPAN_SECONDS = 3600.0


class AbandonedFrameLimit:
    """Limits the stored abandoned frames of a listener, so that they cannot fill the disk."""

    def __init__(
        self, limit: int = MAX_ABANDONED_FRAMES, span: float = ABANDONED_FRAMES_SPAN_SECONDS
    ) -> None:
        """Allow `limit` frames within any `span` seconds."""
        self._span = span
        self._stored_at: deque[float] = deque(maxlen=limit)

    def may_store(self, now: float) -> bool:
        """True if another frame may be stored at `now` (seconds), and count it if so."""
        full = len(self._stored_at) == self._stored_at.maxlen
        if full and now - self._stored_at[0] < self._span:
            return False
        self._stored_at.append(now)
        return True


def refusal_of(error: FramingError) -> MessageRefusal:
    if isinstance(error, FrameMemoryExhausted):
        return InternalError()  # AE: the same frame may be sent again
    large = isinstance(error, FrameTooLarge)
    return MalformedMessage(MalformedReason.TOO_LARGE if large else MalformedReason.INCOMPLETE)


ReplyPayloads = Sequence[bytes]


class EvaluatedMessage(NamedTuple):
    """One frame, or one message of a batch."""

    payload: bytes
    verdict: Verdict
    peer: Peer
    now: datetime
    other_parts: tuple[int, ...] = ()
    """Row ids of the other parts of the message."""


def with_part_ids(message: EvaluatedMessage, receipts: Sequence[Receipt]) -> EvaluatedMessage:
    """Add the row ids of the parts after the first."""
    return message._replace(other_parts=tuple(receipt.message_id for receipt in receipts[1:]))


def send_later(late: ReplyPayloads, peer: Peer) -> None:
    """Send a deferred acknowledgment. If the connection is gone, a retransmit gets it."""
    for reply in late:
        peer.send(reply)


Clock = Callable[[], datetime]
"""Returns the time, with its zone."""


PreparedFrame = tuple[Sequence[EvaluatedMessage], Sequence[Arrival] | None]
"""The messages of a frame and their records; None if a record could not be built."""


class IntakeHandler:
    """The `Handler` of one listener."""

    def __init__(
        self,
        policy: ListenerPolicy,
        message_log: ArrivalStore,
        completions: Completions,
        counter: AckCounter,
        *,
        clock: Clock,
        new_id: ControlIdSource,
        sequencer: Sequencer | None = None,
    ) -> None:
        """`sequencer` checks the sequence numbers of complete frames, before the message log."""
        self._log = structlog.get_logger("intake").bind(listener=policy.name)
        self._message_log = message_log
        self._inbox: ArrivalStore = sequencer or message_log
        self._completions = completions
        self._counter = counter
        self._clock = clock
        self._new_id = new_id
        self._rule = None if sequencer is None else sequencer.rule
        self._abandoned_frames = AbandonedFrameLimit()
        self.use(policy)

    def use(self, policy: ListenerPolicy) -> None:
        """
        Use another policy from now on, after an activation. Frames in progress keep the previous
        one.
        """
        self._policy = policy
        self.needs_thread = any(definition.needs_thread for definition in policy.definitions)
        """Whether every frame must be evaluated on a thread."""
        self._evaluator = FrameEvaluator(policy, self._report_error)
        evaluate = self._evaluator.evaluate
        self._evaluate = evaluate if self._rule is None else with_rule(evaluate, self._rule)
        self._acknowledgments = AcknowledgmentBuilder(policy, self._new_id)

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """Handle one frame; pass its replies to `reply`."""
        payload = frame.payload
        if looks_like_batch(payload):
            self.store(frame, self.prepare(frame, peer), reply)
            return
        now = self._clock()
        self._store_message(EvaluatedMessage(payload, self._evaluate(frame, now), peer, now), reply)

    def _store_message(
        self, message: EvaluatedMessage, reply: ReplyCallback, arrival: Arrival | None = None
    ) -> None:
        try:
            payload, verdict, _, now, _ = message
            if arrival is None:
                arrival = self._acknowledgments.arrival(verdict, payload, now)
            if verdict.parts:
                self._store_parts(message, arrival).addCallbacks(reply, reply)
                return
            self._inbox.submit(arrival, partial(self._on_stored, reply, message))
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._report_error(error)
            reply(self._reply_unavailable(message))

    def unframed(self, error: FramingError, head: bytes) -> bytes:
        """
        Return the answer to an abandoned frame (too large or unfinished) before the connection
        closes.
        """
        refusal, now, head = refusal_of(error), self._clock(), head[:MAX_HEAD_BYTES]
        self._counter.refused(refusal)
        answer = unframed_nak(head, refusal, control_id=self._new_id(), now=now)
        if self._abandoned_frames.may_store(now.timestamp()):
            reply = None if isinstance(error, TruncatedFrame) else answer
            arrival = self._acknowledgments.abandoned_frame(head, refusal, reply, now)
            self._message_log.submit(arrival, self._abandoned_frame_stored)
        return answer

    def _abandoned_frame_stored(self, receipt: Receipt | BaseException) -> None:
        if isinstance(receipt, BaseException):
            self._report_error(receipt)
        else:
            self._message_log.acknowledged(receipt.message_id)

    def _on_stored(
        self, reply: ReplyCallback, message: EvaluatedMessage, stored: Receipt | BaseException
    ) -> None:
        """Answer after the commit. Every error leads to an answer or closes the connection."""
        try:
            if isinstance(stored, BaseException):
                self._report_error(stored)
                replies: ReplyPayloads | Deferred[ReplyPayloads] = self._reply_unavailable(message)
            else:
                replies = self._replies_to_stored(stored, message)
        except Exception:  # noqa: BLE001  # the connection closes unanswered
            reply(Failure())  # type: ignore[no-untyped-call]
            return
        if isinstance(replies, Deferred):
            replies.addCallbacks(reply, reply)
        else:
            reply(replies)

    def _replies_to_stored(
        self, receipt: Receipt, message: EvaluatedMessage
    ) -> ReplyPayloads | Deferred[ReplyPayloads]:
        return self._reply_to_stored(
            receipt, message, self._with_commit_block(split_replies(receipt.ack))
        )

    def _reply_to_stored(
        self, receipt: Receipt, message: EvaluatedMessage, replies: ReplyPayloads
    ) -> ReplyPayloads | Deferred[ReplyPayloads]:
        """Return the replies to a stored message; with `applied` the engine answers first."""
        self._counter.stored(receipt, message.verdict)
        self._inbox.acknowledged(receipt.message_id)
        verdict = message.verdict
        if (
            self._policy.acknowledge is Acknowledge.APPLIED
            and verdict.header is not None
            and not verdict.refusals
            and AckCode(receipt.ack_code).positive
        ):
            return self._reply_when_applied(receipt, replies, message)
        return replies

    def _store_parts(self, message: EvaluatedMessage, arrival: Arrival) -> Deferred[ReplyPayloads]:
        """Store the parts of a message about many patients, all or none."""

        def answer(receipts: Sequence[Receipt]) -> ReplyPayloads | Deferred[ReplyPayloads]:
            return self._replies_to_stored(receipts[0], with_part_ids(message, receipts))

        parts = self._acknowledgments.split_parts(arrival, message.verdict)
        stored = Deferred.fromFuture(self._inbox.accept_many(parts))
        stored.addCallbacks(answer, self._reply_not_stored, errbackArgs=(message,))
        return stored  # type: ignore[return-value]  # it gives what its callback gives

    def _reply_not_stored(self, failure: Failure, message: EvaluatedMessage) -> ReplyPayloads:
        self._report_error(failure.value)
        return self._reply_unavailable(message)

    def _reply_unavailable(self, message: EvaluatedMessage) -> ReplyPayloads:
        """Answer negatively: the message was not stored and must be sent again."""
        self._counter.refused(
            message.verdict.refusals[0] if message.verdict.refusals else InternalError()
        )
        if self._policy.commit_blocks:
            return [COMMIT_NAK]
        return split_replies(
            self._acknowledgments.unavailable(message.verdict, message.payload, message.now)
        )

    def _with_commit_block(self, replies: Sequence[bytes]) -> ReplyPayloads:
        return [COMMIT_ACK, *replies] if self._policy.commit_blocks else replies

    def _reply_when_applied(
        self, receipt: Receipt, replies: ReplyPayloads, message: EvaluatedMessage
    ) -> ReplyPayloads | Deferred[ReplyPayloads]:
        """
        Delay the application acknowledgment until the report engine has answered.

        The commit acknowledgment is sent at once, unless the peer gets one response only.
        """
        header = message.verdict.header
        if header is None or not may_require_application_ack(header):
            return replies
        has_application = required_codes(header, message.verdict.code).application is not None
        end = len(replies) - has_application
        commit, application = replies[:end], replies[end:]
        ids, limit = (receipt.message_id, *message.other_parts), self._policy.applied_timeout
        applied = Deferred.fromFuture(
            all_applied(self._completions.wait(identifier, limit) for identifier in ids)
        )
        answer: Deferred[ReplyPayloads] = applied.addCallbacks(
            self._reply_by_state,
            self._reply_unknown_outcome,
            (application, message),
            {},
            (message,),
            {},
        )
        if not message.peer.accepts_later_frames:
            return answer.addCallback(lambda later: [*commit, *later])
        if commit:
            answer.addCallback(send_later, message.peer)
            return commit
        return answer

    def _reply_by_state(
        self, state: QueueState, positive: ReplyPayloads, message: EvaluatedMessage
    ) -> ReplyPayloads:
        return positive if state in APPLIED else self._reply_not_applied(message)

    def _reply_unknown_outcome(self, failure: Failure, message: EvaluatedMessage) -> ReplyPayloads:
        error = failure.value
        self._log.error("outcome of a message not read", error=error and describe(error))
        return self._reply_not_applied(message)

    def _reply_not_applied(self, message: EvaluatedMessage) -> ReplyPayloads:
        """Answer with an error, so that the sender sends the message again."""
        verdict = message.verdict._replace(refusals=(InternalError(),))
        return self._acknowledgments.application_reply(verdict, message.payload, self._clock())

    def prepare(self, frame: Frame, peer: Peer) -> PreparedFrame:
        """Evaluate a frame and build its records for `store`. Safe on any thread."""
        now = self._clock()
        frames, refusal = [frame], None
        if looks_like_batch(frame.payload):
            frames = split_batch(frame)
            checked = self._policy.acknowledge is not Acknowledge.STORED
            refusal = batch_refusal(frame.payload, checked=checked)
        messages, size = [], 0
        for part in frames:
            verdict = with_refusal(refusal, self._evaluate(part, now))
            size += len(verdict.parts) * len(part.payload)
            if verdict.parts and size > MAX_PART_BYTES:
                verdict = with_refusal(TooLargeForPatients(), verdict)
            messages.append(EvaluatedMessage(part.payload, verdict, peer, now))
        try:
            return messages, [
                self._acknowledgments.arrival(e.verdict, e.payload, now) for e in messages
            ]
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._report_error(error)
            return messages, None

    def store(self, frame: Frame, prepared: PreparedFrame, reply: ReplyCallback) -> None:
        messages, arrivals = prepared
        if looks_like_batch(frame.payload):
            self._store_batch(frame, messages, arrivals).addCallbacks(reply, reply)
        else:
            self._store_message(messages[0], reply, None if arrivals is None else arrivals[0])

    def _store_batch(
        self, frame: Frame, messages: Sequence[EvaluatedMessage], arrivals: Sequence[Arrival] | None
    ) -> Deferred[ReplyPayloads]:
        if arrivals is None:
            return succeed(self._refuse_batch(frame, messages))
        try:
            verdicts = [message.verdict for message in messages]
            parts = list(map(self._acknowledgments.split_parts, arrivals, verdicts))
            stored = Deferred.fromFuture(self._inbox.accept_many([*chain(*parts)]))
        except Exception as error:  # noqa: BLE001  # there is always an answer
            self._report_error(error)
            return succeed(self._refuse_batch(frame, messages))

        def answer(receipts: Sequence[Receipt]) -> ReplyPayloads | Deferred[ReplyPayloads]:
            following = iter(receipts)
            grouped = [list(islice(following, len(own))) for own in parts]
            return self._answer_batch(frame, messages, grouped)

        def refuse(failure: Failure) -> ReplyPayloads:
            self._report_error(failure.value)
            return self._refuse_batch(frame, messages)

        stored.addCallbacks(answer, refuse)
        return stored  # type: ignore[return-value]  # a Deferred gives what its callback gives

    def _answer_batch(
        self,
        frame: Frame,
        messages: Sequence[EvaluatedMessage],
        receipts: Sequence[Sequence[Receipt]],
    ) -> ReplyPayloads | Deferred[ReplyPayloads]:
        """Answer a stored batch; `receipts` are those of each message's parts."""
        replies = [
            self._reply_to_stored(own[0], with_part_ids(message, own), split_replies(own[0].ack))
            for message, own in zip(messages, receipts, strict=True)
        ]
        if not any(isinstance(reply, Deferred) for reply in replies):
            return self._with_commit_block(self._join_replies(frame, replies))  # type: ignore[arg-type]  # checked above
        joined = gather_replies(replies).addCallback(partial(self._join_replies, frame))
        if not self._policy.commit_blocks:
            return joined
        joined.addCallback(send_later, messages[0].peer)
        return [COMMIT_ACK]

    def _refuse_batch(self, frame: Frame, messages: Sequence[EvaluatedMessage]) -> ReplyPayloads:
        return self._join_replies(frame, [self._reply_unavailable(message) for message in messages])

    def _join_replies(self, frame: Frame, replies: Sequence[ReplyPayloads]) -> ReplyPayloads:
        flat = [ack for reply in replies for ack in reply[-1:]]
        if COMMIT_NAK in flat:  # all messages are stored, or none
            return [COMMIT_NAK]
        if replies and not flat:  # no message requests a reply
            return []
        return [join_acks(frame.payload, flat, control_id=self._new_id(), now=self._clock())]

    def _report_error(self, error: BaseException | None) -> None:
        if error is not None:
            self._log.error(
                "message not accepted", error=describe(error), trace=stack_frames(error)
            )


# One process evaluates them.
LARGE_FRAMES = ThreadLimit(Threads.EXTERNAL, "large frames", 1, 10_000)
_WaitingFrame = tuple[Frame, Peer, ReplyCallback]


class FrameOffload:
    """Passes frames to a listener's handler; slow frames are evaluated on threads."""

    def __init__(
        self,
        handler: IntakeHandler,
        *,
        min_bytes: int = LARGE,
        needs_lookup: Callable[[bytes], bool] | None = None,
    ) -> None:
        """
        Evaluate on threads: frames of at least `min_bytes`, frames with `needs_lookup`, frames of
        definitions with hooks, and those with slow patterns. None of these kinds delays another.
        """
        self._handler = handler
        self._min_bytes = min_bytes
        self._needs_lookup = needs_lookup
        self._waiting: dict[int, deque[_WaitingFrame]] = {}  # of connections with a slow frame
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """Handle a frame; frames of one connection are stored in their order."""
        waiting = self._waiting.get(peer.connection_id)
        if waiting is not None:
            waiting.append((frame, peer, reply))
        elif not self._handle_now(frame, peer, reply):
            self._waiting[peer.connection_id] = deque()
            task = asyncio.ensure_future(self._handle_in_order(frame, peer, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def submit(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """
        Evaluate a frame, on a thread if it is slow; return its future replies once it is submitted
        to the store.
        """
        answered: Deferred[Sequence[bytes]] = Deferred()
        if not self._handle_now(frame, peer, answered.callback):
            await self._submit_slow(frame, peer, answered.callback)
        return answered

    async def _handle_in_order(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        waiting = self._waiting[peer.connection_id]
        try:
            await self._handle_slow(frame, peer, reply)
            while waiting:
                following = waiting.popleft()
                try:
                    done = self._handle_now(*following)
                except Exception:  # noqa: BLE001  # the connection closes without an answer
                    following[-1](Failure())  # type: ignore[no-untyped-call]
                    done = True
                if not done:
                    await self._handle_slow(*following)
        finally:
            del self._waiting[peer.connection_id]

    async def _handle_slow(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """
        Evaluate a frame on a thread, and submit it to the store.

        A large one is also awaited: the store writes it concurrently with later frames.
        """
        answered: Deferred[Sequence[bytes]] = Deferred()
        answered.addCallbacks(reply, reply)
        try:
            await self._submit_slow(frame, peer, answered.callback)
        except Exception:  # noqa: BLE001  # the connection closes without an answer
            answered.errback(Failure())  # type: ignore[no-untyped-call]
        if self._is_large(frame):
            await answered.asFuture(asyncio.get_running_loop())

    def _handle_now(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> bool:
        """Handle a frame unless it is slow; return whether it was handled."""
        if self._needs_thread(frame):
            return False
        try:
            with bounded_patterns():
                self._handler(frame, peer, reply)
        except PatternsTakeLong:  # nothing was stored
            return False
        return True

    async def _submit_slow(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        self._handler.store(frame, await self._prepare(frame, peer), reply)

    async def _prepare(self, frame: Frame, peer: Peer) -> PreparedFrame:
        prepare = self._handler.prepare
        if not self._handler.needs_thread:
            if self._is_large(frame):
                return await LARGE_FRAMES.run(prepare, frame, peer)
            if self._reads_database(frame):
                return await Threads.EXTERNAL.run(prepare, frame, peer)
        return await SLOW_MAPPINGS.run(prepare, frame, peer)

    def _needs_thread(self, frame: Frame) -> bool:
        return self._handler.needs_thread or self._is_large(frame) or self._reads_database(frame)

    def _is_large(self, frame: Frame) -> bool:
        return len(frame.payload) >= self._min_bytes

    def _reads_database(self, frame: Frame) -> bool:
        return self._needs_lookup is not None and self._needs_lookup(frame.payload)
