"""Applying stored messages: the worker, its claims and its definitions."""

import time

from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.monitoring.tracing import traced_apply
from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.ledger import Ledger
from bridge.queue.states import QueueState
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.queue.worker.throttle import ProcessingThrottle
from bridge.queue.worker.worker import Worker
from bridge.runtime.context import Process
from bridge.runtime.listener_definitions import ActiveListeners, ListenerCompiler
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, ServicePart, now_ms


class Applying:
    """The worker of a process; `completions` is for listeners that wait for it."""

    def __init__(
        self, process: Process, client: EngineClient, membership: Membership, ledger: Ledger
    ) -> None:
        self._process = process
        self.compiler = ListenerCompiler(process)
        self.first = self.compiler.compile()
        self.completions = CompletionWaiter(self._state_of)
        repository = OrderRepository(process.database, now_ms)
        self._processor = OrderProcessor(
            client,
            repository,
            self.compiler.definitions(self.first),
            self.completions,
            process.metrics,
        )
        inbox = Inbox(
            process.database,
            f"{process.node}-intake",
            write_records=repository.write,
            acknowledgments=ledger.notes,
            session=membership.session,
        )
        notified = process.database.dialect == "postgresql"
        self._worker = Worker(
            inbox,
            traced_apply(self._processor.apply, process.tracer),
            clock=now_ms,
            throttle=ProcessingThrottle(lambda: ledger.arrived, time.monotonic, time.process_time),
            poll=POLL_WITH_NOTIFICATIONS if notified else POLL_WITHOUT_NOTIFICATIONS,
        )
        membership.call_on_wakeup(self._worker.notify_of_old_messages)
        ledger.call_after_batch(self._worker.notify)

    def parts(self) -> list[ServicePart]:
        """Return the parts in the order of their start."""
        worker, every = self._worker, self._worker.lease / 3
        return [
            self._process.schedule.periodic(Job.INBOX_LEASES, worker.keep_leases, every=every),
            ServicePart("worker", worker.start, worker.stop),
        ]

    def use(self, found: ActiveListeners) -> None:
        """Apply messages by other definitions from now on."""
        self._processor.use(self.compiler.definitions(found))

    async def _state_of(self, message_id: int) -> QueueState:
        return await Threads.INTAKE.run(queries.message_state, self._process.database, message_id)
