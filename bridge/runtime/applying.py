"""Applying stored messages: the worker, its claims and its definitions."""

from collections.abc import Mapping, Sequence

from bridge import active_settings
from bridge.admin.orders.merges import complete_undos
from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.process.scheduled_steps import StepRules, StepWriter, active_step_rules
from bridge.intake.receive.completion import CompletionWaiter
from bridge.monitoring.tracing import traced_apply
from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueState
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.queue.worker import Worker
from bridge.runtime.channel_control import ActivationFollower
from bridge.runtime.context import Process
from bridge.runtime.listener_definitions import ActiveListeners, ListenerCompiler
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, ServicePart, now_ms

PeerSites = Mapping[str, frozenset[str]]
"""The sites of DICOM peers, by AE title."""


class Applying:
    """The worker of a process; `completions` is for listeners that wait for it."""

    def __init__(self, process: Process, client: EngineClient, membership: Membership) -> None:
        self._process = process
        self._client = client
        self._compiler = ListenerCompiler(process)
        self._first = self._compiler.compile()
        self._steps = StepWriter(self._step_rules())
        self.completions = CompletionWaiter(self._state_of)
        self._repository = OrderRepository(
            process.database, now_ms, self._steps, self._peer_sites()
        )
        self._processor = OrderProcessor(
            client,
            self._repository,
            self._compiler.definitions(self._first),
            self.completions,
            process.metrics,
        )
        self._inbox = Inbox(
            process.database,
            f"{process.node}-intake",
            write_records=self._repository.write,
            session=membership.session,
        )
        notified = process.database.dialect == "postgresql"
        self._worker = Worker(
            self._inbox,
            traced_apply(self._processor.apply, process.tracer),
            clock=now_ms,
            poll=POLL_WITH_NOTIFICATIONS if notified else POLL_WITHOUT_NOTIFICATIONS,
        )
        membership.call_on_wakeup(self._worker.notify_of_old_messages)

    def more(self, acknowledged: Sequence[int]) -> None:
        """There are messages to claim; the acknowledgments of these were sent. On the loop."""
        self._inbox.acknowledged(acknowledged)
        self._worker.notify()

    def parts(self) -> list[ServicePart]:
        """Return the parts in the order of their start."""
        worker, schedule = self._worker, self._process.schedule
        follower = ActivationFollower(
            self._process.latest_activation,
            self._first.activation,
            lambda: (self._compiler.compile(), self._step_rules(), self._peer_sites()),
            self._use,
            lambda: False,
        )
        return [
            schedule.periodic(Job.INBOX_LEASES, worker.keep_leases, every=worker.lease / 3),
            ServicePart("worker", worker.start, worker.stop),
            follower.part(schedule, Job.DEFINITION_ACTIVATIONS),
            schedule.periodic(Job.INTERRUPTED_UNDOS, self._complete_undos),
        ]

    async def _complete_undos(self) -> None:
        database = self._process.database
        if await complete_undos(database, self._client, self._steps, now_ms()):
            self._worker.notify()

    async def _use(self, found: tuple[ActiveListeners, StepRules | None, PeerSites]) -> None:
        listeners, self._steps.rules, self._repository.peer_sites = found
        self._processor.use(self._compiler.definitions(listeners))

    def _step_rules(self) -> StepRules | None:
        return active_step_rules(self._process.settings, self._process.database)

    def _peer_sites(self) -> PeerSites:
        active = active_settings.current(self._process.settings, self._process.database)
        return {peer.ae_title: frozenset(peer.sites) for peer in active.dicom.peer}

    async def _state_of(self, message_id: int) -> QueueState:
        return await Threads.MESSAGES.run(queries.message_state, self._process.database, message_id)
