"""
Courier: claims the deliveries of one destination, sends their messages and stores the outcomes.

One message is in flight at a time. Until its reply arrives, the courier claims and composes the
next batch and stores earlier outcomes. `reply_policy` decides what follows a reply. An unreachable
destination does not delay other destinations. A refused result delays only later results of its
report.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from types import MappingProxyType
from typing import Any

import structlog
from twisted.internet.defer import Deferred

from bridge.delivery.composer import Composer
from bridge.delivery.destinations import CompiledDestination, control_id
from bridge.delivery.preparation import (
    ClaimedDeliveries,
    Preparation,
    PreparedDelivery,
    ReportTexts,
)
from bridge.delivery.reply_policy import (
    REPLY_OF_LOSS,
    CircuitBreaker,
    CircuitState,
    OutcomePolicy,
    ReplyKind,
    ReplyProblem,
    give_up,
    read_reply,
)
from bridge.executors import DELIVERIES, Threads
from bridge.metrics import Metrics
from bridge.queue.claims import CurrentSession, Lease, no_heartbeat_session
from bridge.queue.deliveries import (
    INTERRUPTED,
    NOT_CONNECTED,
    ClaimedDelivery,
    DeliveryOutcome,
    current_delivery,
)
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent
from bridge.queue.wakeup import PollTimer
from bridge.redaction import describe, stack_frames
from bridge.store.errors import Conflict, StoreError, StoreUnavailable
from bridge.transports import MessageSender, NoAcknowledgment
from mappings.hl7.acknowledgment import read_ack
from mllp.errors import LossReason, NotConnected, ReplyLost, Unframeable
from mllp.tls import HandshakeFailure

POLL_SECONDS = 0.25  # seconds between polls of the outbox without a notification
DATABASE_PAUSE = 1.0  # seconds, after the database was unavailable
BATCH_SIZE = 32  # deliveries that are claimed and composed together; one more batch may wait

GATHER_SECONDS = 0.1  # seconds that outcomes wait for others, to share a commit
MAX_WAITING_OUTCOMES = 256  # after a crash, at most this many messages are sent again


def _ignore_pause(reason: str) -> None:
    """Ignore a pause."""


MAX_KNOWN = 10_000
"""Control ids of messages that were sent, to find them without the database."""

NEGATIVE = frozenset({ReplyKind.AE, ReplyKind.AR, ReplyKind.CE, ReplyKind.CR})

_STOP_SECONDS = 5.0


async def nothing_to_store() -> object:
    """Do nothing: there are no outcomes that wait."""
    return None


class FurtherReplies:
    def __init__(self, outbox: Outbox, destination: str, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._outbox = outbox
        self._destination = destination
        self._clock = clock
        self._log = structlog.get_logger("courier").bind(destination=destination)
        self._sent: OrderedDict[str, int] = OrderedDict()
        self._tasks: set[asyncio.Task[bool]] = set()
        self.store_outcomes: Callable[[], Awaitable[object]] = nothing_to_store
        """Stores the outcomes of first replies, which come before further ones."""

    def note_sent(self, control_id: str, delivery_id: int) -> None:
        """Remember a message that is being sent."""
        self._sent[control_id] = delivery_id
        self._sent.move_to_end(control_id)
        if len(self._sent) > MAX_KNOWN:
            self._sent.popitem(last=False)

    def take(self, reply: bytes) -> Deferred[bool]:
        """Store a reply; True if it is about an earlier message to this destination."""
        task = asyncio.ensure_future(self._store(reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        taken: Deferred[Any] = Deferred.fromFuture(task)
        return taken

    async def stop(self) -> None:
        """Wait until the replies that have come are stored."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)

    async def _store(self, reply: bytes) -> bool:
        ack = read_ack(reply)
        control_id = ack.control_id.decode("utf-8", "replace")
        if ack.code is None or not control_id:
            return False
        try:
            await self.store_outcomes()
            return await DELIVERIES.run(self._store_found, control_id, reply)
        except StoreError as error:
            self._log.error("further reply not stored", error=describe(error))
            return True  # nothing shows that it is about the message in flight

    def _store_found(self, control_id: str, reply: bytes) -> bool:
        kind, detail = read_reply(reply, {})
        return self._outbox.add_further_reply(
            self._destination,
            control_id,
            self._sent.get(control_id),
            reply,
            (kind.value, detail),
            self._clock(),
            is_negative=kind in NEGATIVE,
        )


class Courier:
    """Delivers to one destination until it is stopped."""

    def __init__(
        self,
        destination: CompiledDestination,
        outbox: Outbox,
        composer: Composer,
        texts: ReportTexts,
        sender: MessageSender,
        metrics: Metrics,
        *,
        clock: Callable[[], int],
        random: Random,
        on_pause: Callable[[str], object] = _ignore_pause,
        poll: float = POLL_SECONDS,
        timer: Callable[[], float] = time.monotonic,
        session: CurrentSession = no_heartbeat_session,
        further: FurtherReplies | None = None,
    ) -> None:
        """
        Send by `sender`; `clock` is in milliseconds, `poll` and `timer` in seconds.

        `further` stores the replies that `sender` receives about earlier messages.
        `session` is that of the heartbeat lock of the outbox's owner.
        When the reply policy pauses the destination, `on_pause` is called with the kind of reply.
        """
        self.destination = destination
        self._log = structlog.get_logger("courier").bind(destination=destination.name)
        self._outbox = outbox
        self._sender = sender
        self._metrics = metrics
        self._clock = clock
        self._on_pause = on_pause
        self._wakeup = asyncio.Event()
        self._next_due = PollTimer(poll)
        self._stopping = self._paused = False
        self._breaker = CircuitBreaker(destination.retry, destination.breaker_after, random)
        policy = OutcomePolicy(
            destination, self._breaker, metrics, clock, random, on_pause=self._pause_for
        )
        self._outcome_policy = policy
        self._preparation = Preparation(composer, texts, outbox, policy, self._log_error)
        self._outcomes = OutcomeWriter(outbox, clock, self._forget, self._log_error)
        self._further = further or FurtherReplies(outbox, destination.name, clock)
        self._further.store_outcomes = self._outcomes.flush
        self._timer = timer
        self._session = session
        self._leases: dict[int, Lease] = {}  # by delivery id
        self._unsent: set[int] = set()  # deliveries whose message was never passed to the sender
        self._claiming: asyncio.Task[ClaimedDeliveries] | None = None
        self._next: asyncio.Task[Sequence[PreparedDelivery]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to deliver. The caller has requeued the claims of the previous process."""
        self._task = asyncio.create_task(self._run(), name=f"courier {self.destination.name}")

    async def stop(self, drain: float = 5.0) -> None:
        """Wait `drain` seconds for the reply in flight; requeue all other claims."""
        self._stopping = True
        self._wakeup.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=drain)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._further.stop()
        self._outcomes.cancel()
        await self._release_claims()
        await self._sender.close().asFuture(asyncio.get_running_loop())

    @property
    def is_paused(self) -> bool:
        """True if an operator or a reply has paused the destination."""
        return self._paused

    def pause(self) -> None:
        """Send nothing until `resume`; the reply to the message in flight is still read."""
        self._paused = True

    def _pause_for(self, reason: str) -> None:
        self.pause()
        self._on_pause(reason)

    def resume(self) -> None:
        """Continue to send."""
        self._paused = False
        self._wakeup.set()

    def use(self, destination: CompiledDestination) -> None:
        """Use other settings for messages that are composed from now on."""
        self.destination = destination

    def notify(self) -> None:
        """Poll the outbox now. Call it on the event loop's thread."""
        self._wakeup.set()

    async def _run(self) -> None:
        while not self._stopping:
            try:
                if self._is_on_hold():
                    await self._release_claims()
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                batch = await self._next_batch()
                if not batch:
                    await self._wait_for_wakeup(self._next_due.seconds_until_next(self._clock()))
                elif not await self._deliver(batch):
                    await self._wait_for_wakeup(POLL_SECONDS)
            except StoreError as error:
                self._log_error("deliveries not claimed or stored", error)
                await self._wait_for_wakeup(DATABASE_PAUSE)
        await self._outcomes.flush()

    @property
    def circuit_status(self) -> tuple[int | None, int, int, ReplyProblem]:
        """
        The end of the open circuit (ms, None if closed), replies, refusals in a row, and why the
        last attempt got no usable reply.
        """
        breaker = self._breaker
        return breaker.open_until, breaker.replies, breaker.refused, breaker.problem

    def _is_on_hold(self) -> bool:
        """True if an operator, the circuit breaker or a lost heartbeat pauses sending."""
        circuit = self._breaker.circuit(self._clock())
        self._metrics.circuit_open.labels(self.destination.name).set(
            circuit is not CircuitState.CLOSED
        )
        return self._paused or circuit is CircuitState.OPEN or self._session() is None

    async def _next_batch(self) -> Sequence[PreparedDelivery]:
        prepared, self._next = self._next, None
        if prepared is not None and (batch := await prepared):
            return batch
        await self._outcomes.flush()
        self._wakeup.clear()
        return await self._prepare()

    async def _prepare(self) -> Sequence[PreparedDelivery]:
        """Claim and compose a batch."""
        self._claiming = asyncio.create_task(self._claim())
        claimed = await asyncio.shield(self._claiming)  # `_release_claims` waits for it
        return await self._preparation.compose(claimed)

    async def _claim(self) -> ClaimedDeliveries:
        now, lease = self._clock(), Lease(self._lease_from_now(), self._timer, self._session)
        limit = 1 if self._breaker.circuit(now) is CircuitState.TRYING else BATCH_SIZE
        claimed = await self._preparation.claim(lambda: self.destination, now, limit)
        self._leases |= {delivery.delivery_id: lease.copy() for delivery in claimed.deliveries}
        self._unsent |= {
            delivery.delivery_id for delivery in claimed.deliveries if delivery.is_unsent
        }
        return claimed

    async def _wait_for_wakeup(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()

    async def _deliver(self, batch: Sequence[PreparedDelivery]) -> bool:
        """
        Send messages one after the other; requeue those that are not sent.

        Return False if there was no connection.
        """
        if len(batch) == BATCH_SIZE and self._next is None:
            self._next = asyncio.create_task(self._prepare())
        for delivery, payload in batch:
            if isinstance(payload, DeliveryOutcome):
                self._count_unsent(payload)
                await self._outcomes.add(payload)
                continue
            if self._stopping or self._is_on_hold() or not self._holds_lease(delivery):
                await self._release_claims()
                return True
            self._unsent.discard(delivery.delivery_id)
            outcome = await self._send(delivery, payload)
            if outcome is None:
                if delivery.is_unsent:
                    self._unsent.add(delivery.delivery_id)
                await self._release_claims(NOT_CONNECTED, self._breaker.problem.words)
                return False
            await self._outcomes.add(outcome)
        return True

    def _lease_from_now(self) -> float:
        return self._timer() + self._outbox.lease / 1000

    def _holds_lease(self, delivery: ClaimedDelivery) -> bool:
        # While the process was suspended, another node may have sent this message and later ones.
        lease = self._leases.get(delivery.delivery_id)
        return lease is not None and lease.is_held

    async def _send(self, delivery: ClaimedDelivery, payload: bytes) -> DeliveryOutcome | None:
        """Send one message and return its outcome; None if there is no connection."""
        sent_at = self._clock()
        current_delivery.set(delivery)
        self._further.note_sent(
            delivery.control_id or control_id(self.destination.name, delivery.release_key),
            delivery.delivery_id,
        )
        began = self._timer()
        try:
            reply = await self._sender.send(payload).asFuture(asyncio.get_running_loop())
        except NotConnected as failure:
            if failure.is_tls:
                self._note_handshake(failure.cause)
            self._breaker.record_failure(sent_at, *describe_connection(failure))
            self._metrics.deliveries.labels(self.destination.name, "", NOT_CONNECTED).inc()
            return None
        except ReplyLost as loss:
            if loss.reason is LossReason.CLOSED and loss.detail:
                self._note_handshake(loss.detail)  # TLS 1.3: the peer refused us afterwards
            return self._outcome_policy.after_reply(
                delivery,
                REPLY_OF_LOSS[loss.reason],
                loss.reason.value,
                loss.received or None,
                sent_at,
                loss.detail,
            )
        except NoAcknowledgment as response:
            return self._outcome_policy.after_reply(
                delivery, ReplyKind.HTTP, str(response.status), None, sent_at
            )
        except Unframeable:
            outcome = give_up(delivery, "unframeable")
            self._count_unsent(outcome)
            return outcome
        self._metrics.reply_seconds.labels(self.destination.name).observe(self._timer() - began)
        kind, error = read_reply(reply, self.destination.replies)
        return self._outcome_policy.after_reply(delivery, kind, error, reply, sent_at)

    def _count_unsent(self, outcome: DeliveryOutcome) -> None:
        """Count a delivery that was parked because there is no message to send."""
        if outcome.event is QueueEvent.GIVEN_UP:
            self._metrics.deliveries.labels(self.destination.name, "", outcome.event.value).inc()

    def _note_handshake(self, reason: str) -> None:
        name = self.destination.name
        self._metrics.handshakes.note(
            "destination", name, self.destination.address, HandshakeFailure(reason)
        )

    def _forget(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        for outcome in outcomes:
            self._leases.pop(outcome.delivery_id, None)
            self._unsent.discard(outcome.delivery_id)
            if outcome.retry_at is not None:
                self._next_due.add_due_time(outcome.retry_at)

    async def _release_claims(self, code: str = INTERRUPTED, detail: str = "") -> None:
        """Store outcomes of messages that were sent; requeue the others with a reason."""
        await self._outcomes.flush()
        prepared, self._next = self._next, None
        if prepared is not None:
            prepared.cancel()
            await asyncio.gather(prepared, return_exceptions=True)
        if self._claiming is not None:
            await asyncio.gather(self._claiming, return_exceptions=True)
        await self._preparation.finish_storing()
        if self._leases:
            ids, self._leases = list(self._leases), {}
            unsent, self._unsent = self._unsent, set()
            with suppress(StoreUnavailable):  # the leases expire anyway
                await DELIVERIES.run(self._outbox.release, ids, self._clock(), code, unsent, detail)

    async def keep_leases(self) -> None:
        """
        Extend the leases of deliveries in progress.

        Called several times per lease. Raises StoreError.
        """
        if ids := list(self._leases):
            ends_at = self._lease_from_now()
            extended = await Threads.LEASES.run(self._outbox.extend, ids, self._clock())
            for key in extended & self._leases.keys():
                if self._leases[key].is_held:
                    self._leases[key].ends_at = ends_at

    async def correct_due_times(self) -> None:
        """Make retries due whose time a wrong clock set too late. Raises StoreError."""
        name, longest = self.destination.name, self.destination.retry.maximum
        if await DELIVERIES.run(self._outbox.correct_due_times, name, self._clock(), longest):
            self._wakeup.set()

    def _log_error(self, event: str, error: Exception) -> None:
        self._log.error(event, error=describe(error), trace=stack_frames(error))


def describe_connection(error: NotConnected) -> tuple[str, str]:
    """Return a code and words for a connection that could not be made."""
    if error.is_tls:
        return "tls", f"the TLS handshake failed: {error.cause}"
    return NOT_CONNECTED, _CONNECTION_WORDS.get(error.cause, f"no connection ({error.cause})")


_CONNECTION_WORDS = MappingProxyType(
    {
        "ConnectionRefusedError": "nothing listens at its address (connection refused)",
        "TimeoutError": "no connection within the time limit",
        "TCPTimedOutError": "no connection within the time limit",
        "NoRouteError": "there is no route to its address",
        "DNSLookupError": "its host name is not known",
        "ConnectionDone": "it closed the connection at once",
        "ConnectionLost": "it reset the connection at once",
        "closed": "the connection is closed",
    }
)


class OutcomeWriter:
    """
    Stores the outcomes of one courier while it sends the next messages.

    The first outcome is stored at once. Outcomes that come during its commit share the next commit.
    If the process ends before an outcome is stored, the same bytes are sent again.
    """

    def __init__(
        self,
        outbox: Outbox,
        clock: Callable[[], int],
        on_end: Callable[[Sequence[DeliveryOutcome]], None],
        on_error: Callable[[str, Exception], None],
    ) -> None:
        """
        `on_end` gets outcomes that were stored or that the database refuses, `on_error` the errors
        of storing.
        """
        self._outbox = outbox
        self._clock = clock
        self._on_end = on_end
        self._log_error = on_error
        self._waiting: list[DeliveryOutcome] = []
        self._task: asyncio.Task[None] | None = None
        self._flush_requested = asyncio.Event()

    async def add(self, outcome: DeliveryOutcome) -> None:
        """Add an outcome; wait only if too many outcomes wait."""
        self._waiting.append(outcome)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="outcomes")
        elif len(self._waiting) >= MAX_WAITING_OUTCOMES:
            await self.flush()

    async def flush(self) -> bool:
        """Wait until all outcomes are stored, without a limit; return whether there were any."""
        if self._task is None:
            return False
        self._flush_requested.set()
        await asyncio.shield(self._task)
        return True

    def cancel(self) -> None:
        """Stop. Messages whose outcomes have not been stored are sent again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._write(taken)
                if self._waiting and not self._flush_requested.is_set():
                    await self._gather()
        finally:
            self._task = None
            self._flush_requested.clear()

    async def _gather(self) -> None:
        try:
            await asyncio.wait_for(self._flush_requested.wait(), GATHER_SECONDS)
        except TimeoutError:
            return

    async def _write(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Store outcomes together, or one by one if the database refuses one of them."""
        try:
            await self._settle(outcomes)
        except StoreError as error:
            self._log_error("outcomes not stored", error)
            if len(outcomes) > 1:
                for outcome in outcomes:
                    await self._write([outcome])
                return
        self._on_end(outcomes)  # the lease of a refused outcome expires, its message is sent again

    async def _settle(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Store outcomes; wait for the database if it is unavailable. Raises StoreError."""
        while True:
            try:
                await DELIVERIES.run(self._outbox.settle, outcomes, self._clock())
            except (StoreUnavailable, Conflict) as error:
                self._log_error("outcomes not stored, trying again", error)
                await asyncio.sleep(DATABASE_PAUSE)
            else:
                return
