"""The delivery parts of a process: change follower, status poll, and one courier for each
destination.

One whose settings changed ends before another begins in its place, so that what it had in hand is
given back and sent in its turn. Makes no connection by itself: it is given what does.

So that the console, which may be another process, can tell. The database may be away: what has
changed is written down the next time.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from bridge.delivery.change_processor import ChangeProcessor
from bridge.delivery.composer import Composer
from bridge.delivery.courier import Courier
from bridge.delivery.destinations import Destination
from bridge.delivery.follower import Follower
from bridge.delivery.reconciler import Reconciler
from bridge.delivery.report_texts import ReportTexts
from bridge.delivery.status_poll import StatusPoller
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.intake.receive.unmapped_codes import Tally
from bridge.metrics import Metrics
from bridge.monitoring import start_failures
from bridge.monitoring.channels import Circuit, Kind, channels, note_activity, note_circuits
from bridge.monitoring.tracing import Tracer, traced
from bridge.queue.outbox import Outbox
from bridge.queue.wakeup import POLL_WITH_NOTIFICATIONS, POLL_WITHOUT_NOTIFICATIONS
from bridge.redaction import describe
from bridge.runtime.activation_follower import Following, latest_activation
from bridge.runtime.channel_control import Switchboard
from bridge.runtime.membership import Membership
from bridge.runtime.schedule import Job, Schedule, Step, now_ms
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import in_force
from bridge.wiring.destinations import chance, destinations, origin, sender
from config import Settings
from config.sections import Destination as WrittenDestination
from mllp.errors import TLSConfigurationError

Make = Callable[[Destination, WrittenDestination], Courier]


class Receivers(NamedTuple):
    """The destinations that are on, as compiled and as written, and which of them are paused."""

    compiled: Sequence[Destination]
    written: Mapping[str, WrittenDestination]
    paused: Collection[str]


class Couriers:
    """Starts, exchanges and ends them; on the event loop's thread."""

    def __init__(self, make: Make) -> None:
        """`make` connects one; raises BridgeError or TLSConfigurationError where it cannot."""
        self._log = structlog.get_logger("couriers")
        self._make = make
        self._written: dict[str, WrittenDestination] = {}
        self.troubles: dict[str, str] = {}
        """Why some are not connected, by their destinations."""
        self.named: dict[str, Courier] = {}
        """Those there are, by their destinations."""

    def __iter__(self) -> Iterator[Courier]:
        """Give those there are."""
        return iter(list(self.named.values()))

    def begin(self, found: Receivers, must: Collection[WrittenDestination]) -> None:
        """Make the first ones, started later; raises for one of `must`."""
        for each in found.compiled:
            written = found.written[each.name]
            if written in must:
                self._join(each, written)
            else:
                self._joined(each, written)

    async def adopt(self, found: Receivers, board: Switchboard) -> None:
        """Go on with other destinations; `troubles` names those that could not be connected."""
        gone = [
            name for name, written in self._written.items() if found.written.get(name) != written
        ]
        await asyncio.gather(*(self._end(name, board) for name in gone))
        self.troubles = {n: why for n, why in self.troubles.items() if n in found.written}
        for each in found.compiled:
            if each.name in self.named:
                self.named[each.name].adopt(each)
            elif self._joined(each, found.written[each.name]):
                board.connect(each.name, self.named[each.name], paused=each.name in found.paused)
                self.named[each.name].start()
                self._log.info("connected", destination=each.name)

    async def _end(self, name: str, board: Switchboard) -> None:
        courier = self.named.pop(name)
        del self._written[name]
        board.disconnect(name)
        await courier.stop()
        self._log.info("ended", destination=name)

    def _joined(self, destination: Destination, written: WrittenDestination) -> bool:
        """Make one; tell whether that went well, and say once why not."""
        try:
            self._join(destination, written)
        except (BridgeError, TLSConfigurationError) as error:
            if destination.name not in self.troubles:
                reason = describe(error)
                self._log.error("not connected", destination=destination.name, error=reason)
            self.troubles[destination.name] = str(error)
            return False
        self.troubles.pop(destination.name, None)
        return True

    def _join(self, destination: Destination, written: WrittenDestination) -> None:
        self.named[destination.name] = self._make(destination, written)
        self._written[destination.name] = written


Pulse = tuple[int | None, int, int]


class Beating(Protocol):
    """What has a circuit."""

    @property
    def pulse(self) -> Pulse:
        """Until when it is open (ms); how many were answered; how many refused in a row."""


class Circuits:
    """Writes down what is not as it was. All are closed at the start, or new."""

    def __init__(
        self, database: Database, couriers: Mapping[str, Beating], clock: Callable[[], int]
    ) -> None:
        self._database = database
        self._couriers = couriers
        self._clock = clock
        self._noted: dict[str, Circuit] = {}
        self._replies: dict[str, int] = {}

    async def note(self) -> None:
        """Write down what is not as it was."""
        pulses = {name: courier.pulse for name, courier in self._couriers.items()}
        changed = {
            name: circuit
            for name, (until, _, refused) in pulses.items()
            if self._noted.get(name) != (circuit := Circuit(until, refused))
        }
        now = self._clock()
        active = {
            (Kind.DESTINATION, name): now
            for name, (_, replies, _) in pulses.items()
            if replies > self._replies.get(name, 0)
        }
        self._noted = {name: noted for name, noted in self._noted.items() if name in pulses}
        self._replies = {
            n: r for n, r in self._replies.items() if n in pulses and r <= pulses[n][1]
        }
        if not changed and not active:
            return
        await Threads.LEASES.run(note_circuits, self._database, changed)
        await Threads.LEASES.run(note_activity, self._database, active)
        self._noted |= changed
        self._replies = {name: replies for name, (_, replies, _) in pulses.items()}


LOOK_AGAIN = 10.0  # seconds until what seems to differ is looked at again


class Delivery:
    """Followers, the scheduled poll, and the couriers."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        client: EngineClient,
        metrics: Metrics,
        owner: str,
        reactor: Any,
        membership: Membership,
        *,
        schedule: Schedule,
        tally: Tally,
        tracer: Tracer | None = None,
    ) -> None:
        self._schedule = schedule
        self._every = settings.schedule.poll_status_every
        self._owner = owner
        self._outbox = Outbox(database, owner)
        self._membership = membership
        membership.wakes(self._notify)
        self._settings, self._database = settings, database
        self._activation = latest_activation(database)
        found = self._compiled()
        composer = Composer(database, lambda: datetime.now(UTC), tally.note)
        texts = ReportTexts(client)
        self._couriers = Couriers(partial(self._courier, composer, texts, metrics, reactor, tracer))
        self._couriers.begin(found, settings.destination)
        named = self._couriers.named
        self._board = Switchboard(database, Kind.DESTINATION, named, metrics, now_ms, schedule)
        self._circuits = Circuits(database, named, now_ms)
        self._processor = ChangeProcessor(database, self._outbox, found.compiled, now_ms)
        self._followers = [
            self._follower(client, metrics, site) for site in client.tokens.distinct()
        ]
        self._poller = StatusPoller(client, self._processor, self._notify, every=self._every)
        self._reconciler = Reconciler(client, database, found.compiled, metrics, LOOK_AGAIN)
        self._comparing = asyncio.Lock()
        self._heard = 0  # the last wish for a round that was followed

    def _follower(self, client: EngineClient, metrics: Metrics, site: str) -> Follower:
        return Follower(client, self._processor, metrics, self._notify, random=chance(), site=site)

    def parts(self) -> list[Step]:
        """Give the parts in the order of their start."""
        periodic = self._schedule.periodic
        return [
            Step("switches", self._board.start, self._board.stop),
            periodic(Job.CIRCUITS, self._circuits.note, last=self._circuits.note),
            periodic(Job.OUTBOX_LEASES, self._keep_leases),
            Step("couriers", self._start_couriers, self._stop_couriers),
            self._following().part(self._schedule, Job.DESTINATION_ACTIVATIONS),
            Step("followers", self._start_followers, self._stop_followers),
            periodic(Job.STATUS_POLL, self._poll, every=self._every),
            periodic(Job.RECONCILING, self._reconcile),
            periodic(Job.ROUND_REQUESTS, self._begin_requested_round),
        ]

    def _following(self) -> Following[Receivers]:
        known, couriers = self._activation, self._couriers
        return Following(
            self._database, known, self._compiled, self._adopt, lambda: couriers.troubles
        )

    def _courier(
        self,
        composer: Composer,
        texts: ReportTexts,
        metrics: Metrics,
        reactor: Any,
        tracer: Tracer | None,
        destination: Destination,
        written: WrittenDestination,
    ) -> Courier:
        """Join a destination, as it is written in the settings, with its connection."""
        heard = self._database.dialect == "postgresql"
        return Courier(
            destination,
            self._outbox,
            composer,
            texts,
            traced(
                sender(self._settings, written, reactor),
                tracer,
                written.name,
                origin(self._database),
            ),
            metrics,
            clock=now_ms,
            random=chance(),
            on_pause=partial(self._pause_for, destination.name),
            poll=POLL_WITH_NOTIFICATIONS if heard else POLL_WITHOUT_NOTIFICATIONS,
        )

    def _compiled(self) -> Receivers:
        """Compile what is in force. Blocking."""
        settings = active_settings.current(self._settings, self._database)
        known = channels(self._database, Kind.DESTINATION)
        return Receivers(
            destinations(settings, in_force(settings, self._database)),
            {each.name: each for each in settings.destination if each.enabled},
            {name for name, each in known.items() if each.paused},
        )

    async def _adopt(self, found: Receivers) -> None:
        """Go on with other destinations, written by other definitions."""
        self._processor.adopt(found.compiled)
        self._reconciler.adopt(found.compiled)
        await self._couriers.adopt(found, self._board)
        await self._tell()

    async def _tell(self) -> None:
        """Write down which destinations could not be connected here."""
        reasons = dict(self._couriers.troubles)
        await Threads.DELIVERY.run(
            start_failures.note, self._database, Kind.DESTINATION, self._owner, reasons, now_ms()
        )

    def _notify(self) -> None:
        for courier in self._couriers:
            courier.notify()

    def _pause_for(self, name: str, reason: str) -> None:
        self._board.pause_for(name, reason)

    async def _start_couriers(self) -> None:
        await Threads.LEASES.run(self._outbox.requeue_expired_claims, now_ms(), include_own=True)
        for courier in self._couriers:
            courier.start()
        await self._tell()

    async def _stop_couriers(self) -> None:
        await asyncio.gather(*(courier.stop() for courier in self._couriers))

    async def _start_followers(self) -> None:
        for follower in self._followers:
            follower.start()

    async def _stop_followers(self) -> None:
        await asyncio.gather(*(follower.stop() for follower in self._followers))

    async def _poll(self) -> None:
        """Ask for the status of reports where the service has no change feed."""
        unheard = any(follower.supported is False for follower in self._followers)
        if unheard and self._membership.leads():
            await self._poller.poll()

    async def _keep_leases(self) -> None:
        """
        Extend the claims of all couriers; then requeue claims of others that have ended.

        In this order: the clock may have been set, and nothing in progress here is overdue.
        """
        for courier in self._couriers:
            await courier.keep_leases()
        if await Threads.LEASES.run(self._outbox.requeue_expired_claims, now_ms()):
            self._notify()
        for courier in self._couriers:
            await courier.hasten()

    async def _reconcile(self) -> None:
        """Compare some orders with the service; what differs is counted and logged."""
        if self._membership.leads():
            async with self._comparing:
                await self._reconciler.reconcile(now_ms())

    async def _begin_requested_round(self) -> None:
        """Compare all at once where somebody waits for it; where that fails, a minute later."""
        wish = await Threads.DELIVERY.run(self._reconciler.wish)
        if wish and wish != self._heard:
            self._heard = wish
            await self._reconcile()
