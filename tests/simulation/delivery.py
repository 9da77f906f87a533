"""
The story of delivery: reports are released, several nodes send them, and a receiver replies.

The nodes run the change feed reader, the change processor, the outbox and a courier with the
shipped mapping. The receiver accepts, refuses, is silent, late, or answers another message.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx
from twisted.internet.defer import Deferred, succeed
from typing_extensions import override

from bridge.delivery.change_feed import ChangeFeedReader, ChangeProcessor
from bridge.delivery.composer import Composer
from bridge.delivery.courier import Courier
from bridge.delivery.preparation import ReportTexts
from bridge.engine_client.client import EngineClient
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.claims import no_heartbeat_session
from bridge.queue.deliveries import current_delivery
from bridge.queue.errors import QueueError
from bridge.queue.operations import retry_delivery
from bridge.queue.outbox import Outbox
from bridge.queue.states import RetryPolicy
from bridge.store.errors import StoreError
from bridge.transports import MessageSender
from mappings.hl7.header import peek
from mllp.errors import LossReason, NotConnected, ReplyLost
from tests.bridge.delivery.fixtures import accepting, destination
from tests.history import Kind
from tests.simulation.invariants import Claims
from tests.simulation.lock_server import LockServer
from tests.simulation.membership import Membership
from tests.simulation.node import Faults, Node
from tests.simulation.plans import Item, Plan
from tests.simulation.storage import Storage
from tests.simulation.world import EPOCH_MS, World

LEASE_MS, CLUSTER_LEASE_MS = 15_000, 60_000
"""In a cluster a session ends before the lease of a frozen node."""
REPLY_SECONDS = 8.0
RECEIVER = "ris"
REPLIES = ("AA", "AE", "AR", "silence", "late", "mismatch", "closed", "away")
_MARK = re.compile(rb"version (\d+) of (R\d)")


class ReportService(httpx.AsyncBaseTransport):
    def __init__(self, world: World, loss: float) -> None:
        self._world, self._loss = world, loss
        self.changes: list[dict[str, Any]] = []
        self._versions: dict[str, int] = {}

    def release(self, report: str) -> int:
        """Release the next version of a report: the text, then addenda. Return its number."""
        version = self._versions[report] = self._versions.get(report, 0) + 1
        kind = "final" if version == 1 else "addendum"
        self.changes.append(
            {
                "cursor": len(self.changes) + 1,
                "at": EPOCH_MS + round(self._world.now * 1000),
                "event": "report_released",
                "record": self._record(report),
                "release": {"kind": kind, "sequence": max(1, version - 1)},
                "addenda": version - 1 or None,
            }
        )
        return version

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        world, random = self._world, self._world.random
        await asyncio.sleep(world.peers.delay())
        if random.random() < self._loss:
            raise random.choice([httpx.ConnectError, httpx.ReadError])("lost")
        if request.url.path == "/api/report/changes":
            found: object = await self._page(request.url.params)
        elif request.url.path == "/api/report/status":
            found = [self._text(listed) for listed in json.loads(request.content)["clinicalInfo"]]
        else:
            return httpx.Response(404, json={})
        await asyncio.sleep(world.peers.delay())
        return httpx.Response(200, json=found)

    async def _page(self, query: Mapping[str, Any]) -> dict[str, Any]:
        after, until = int(query["after"]), self._world.now + float(query.get("wait") or 0)
        while len(self.changes) <= after and self._world.now < until:  # noqa: ASYNC110  # simulated
            await asyncio.sleep(0.5)
        changes = self.changes[after : after + 3]
        return {"changes": changes, "cursor": after + len(changes)}

    def _record(self, report: str) -> dict[str, Any]:
        status = "Final" if self._versions[report] == 1 else "Addendum"
        return {"reportId": report, "status": status, "clinicalInfo": [_order(report)]}

    def _text(self, order: Mapping[str, str]) -> dict[str, Any]:
        report = order["Accession"]
        texts = [
            {
                "content": f"version {number} of {report}",
                "signedAt": "2026-01-01T00:00:00+00:00",
                "signedBy": {"name": "Reader", "email": "reader@example.org"},
            }
            for number in range(1, self._versions[report] + 1)
        ]
        text = {"reportInfo": texts[0], "addendumInfo": texts[1:]}
        return {**self._record(report), "text": text}


def _order(report: str) -> dict[str, str]:
    return {"SiteID": "SITE1", "PatientMRN": f"M-{report}", "Accession": report}


class Receiver(MessageSender):
    def __init__(self, story: "DeliveryStory", node: Node) -> None:
        self._story, self._node = story, node
        self._late = False

    @override
    def send(self, payload: bytes) -> Deferred[bytes]:
        """Send a message; the reply arrives after a delay, or never."""
        claimed = current_delivery.get()
        assert claimed is not None
        story, peers, replies = self._story, self._node.world.peers, list[str]()
        story.check_send(self._node, claimed.delivery_id)
        seconds = peers.delay()
        # The message arrives even if this node is frozen or killed now.
        peers.call_later(seconds, lambda: replies.append(story.receive(payload)))
        reply = self._reply(payload, replies, seconds + peers.delay())
        return Deferred.fromFuture(asyncio.ensure_future(reply))

    async def _reply(self, payload: bytes, replies: Sequence[str], seconds: float) -> bytes:
        """Return the receiver's reply, which is in `replies` after some seconds."""
        await asyncio.sleep(seconds)
        (reply,) = replies
        if reply == "away":
            raise NotConnected
        late, self._late = self._late, reply == "late"
        if reply in ("silence", "late"):
            await asyncio.sleep(REPLY_SECONDS)
            raise ReplyLost(LossReason.TIMEOUT)
        if late or reply == "mismatch":  # this is the reply to the previous message
            raise ReplyLost(LossReason.MISMATCH)
        if reply == "closed":
            raise ReplyLost(LossReason.CLOSED)
        return accepting(payload).replace(b"MSA|AA", b"MSA|" + reply.encode())

    @override
    def close(self) -> Deferred[None]:
        return succeed(None)


@cache
def _metrics() -> Metrics:
    return Metrics()


class DeliveryParts:
    def __init__(
        self,
        node: Node,
        story: "DeliveryStory",
        service: ReportService,
        server: LockServer | None,
    ) -> None:
        receiver = destination(
            RECEIVER, retry=RetryPolicy(first=1.0, maximum=6.0), replies={"AR": "retry 2 then park"}
        )
        self._node = node
        self._member = None if server is None else Membership(node, server)
        lease = LEASE_MS if server is None else CLUSTER_LEASE_MS
        session = no_heartbeat_session if self._member is None else self._member.session
        self._outbox = Outbox(node.database, node.name, lease=lease, session=session)
        http = httpx.AsyncClient(transport=service, base_url="http://engine.test")
        client = EngineClient(http, "rbt_token")
        composer = Composer(node.database, lambda: datetime.fromtimestamp(node.clock() / 1000, UTC))
        self.courier = Courier(
            receiver,
            self._outbox,
            composer,
            ReportTexts(client),
            Receiver(story, node),
            _metrics(),
            clock=node.clock,
            random=node.random,
            poll=6.0,
            timer=node.timer,
            session=session,
        )
        processor = ChangeProcessor(node.database, self._outbox, [receiver], node.clock)
        self._reader = ChangeFeedReader(
            client, processor, _metrics(), self.courier.notify, random=node.random
        )
        node.every(LEASE_MS / 3000, self._keep_leases)
        assert node.loop is not None
        node.loop.create_task(self._start())

    async def _start(self) -> None:
        if self._member is not None:
            await self._member.start()
        await self._node.persist(self._begin)

    async def _begin(self) -> None:
        requeue, now = self._outbox.requeue_expired_claims, self._node.clock()
        await Threads.LEASES.run(requeue, now, include_own=True)
        self.courier.start()
        self._reader.start()

    async def _keep_leases(self) -> None:
        """As `bridge.runtime.delivery` does."""
        await self.courier.keep_leases()
        if await Threads.LEASES.run(self._outbox.requeue_expired_claims, self._node.clock()):
            self.courier.notify()
        await self.courier.correct_due_times()


class DeliveryStory:
    is_cluster = False

    def __init__(self, plan: Plan, world: World, storage: Storage) -> None:
        self._plan, self._world, self._storage = plan, world, storage
        self._server = LockServer(world, storage) if self.is_cluster else None
        self._claims = Claims(world, storage, "delivery", self._server)
        self._service = ReportService(world, plan.loss)
        self._replies: dict[str, list[str]] = {}
        self._recomposed: set[str] = set()  # control ids; a failover lost what was sent
        self._undone: set[str] = set()  # control ids; a failover lost the outcome
        self._nodes = [
            Node(world, storage, number, self._begin, self._server) for number in range(plan.nodes)
        ]
        self._faults = Faults(world, storage, self._nodes, self._lose, self._server)
        for node in self._nodes:
            node.on_call = self._claims.check
        self._faults.plan(plan)
        self._is_open = True
        world.peers.create_task(self._release(plan.items))
        world.peers.create_task(self._operate())

    def _begin(self, node: Node) -> None:
        node.parts = DeliveryParts(node, self, self._service, self._server)

    async def _release(self, items: Sequence[Item]) -> None:
        world = self._world
        for item in items:
            report = f"R{item.subject}"
            version = self._service.release(report)
            script = [REPLIES[item.variant % 8]] * (1 + item.variant // 8)
            self._replies[f"{report} {version}"] = script
            world.note(f"release of {report} version {version}; replies {script}")
            world.record(Kind.RELEASED, report, version)
            await asyncio.sleep(world.random.choice([0.0, 0.3, 3.0]))
        self._is_open = False

    def _is_away(self) -> bool:
        """True if the receiver cannot be reached."""
        return self._world.now < self._faults.peer_down_until

    def check_send(self, node: Node, delivery_id: int) -> None:
        self._claims.check_call(node.name, delivery_id)
        self._world.note(f"{node.name} sends delivery {delivery_id}")

    def _next_reply(self, payload: bytes) -> str:
        script = self._replies[" ".join(map(str, content_of(payload)))]
        return script.pop(0) if script else "AA"

    def receive(self, payload: bytes) -> str:
        """Receive a message; return the reply, or the fault of the exchange."""
        reply = "away" if self._is_away() else self._next_reply(payload)
        if reply not in ("away", "silence"):  # the message arrived
            self._record_received(payload)
        return reply

    def _record_received(self, payload: bytes) -> None:
        report, version = content_of(payload)
        control_id = peek(payload).control_id.decode()
        self._world.note(f"receiver: {report} version {version}")
        self._world.record(Kind.DELIVERED, report, version, control_id, payload)

    async def _operate(self) -> None:
        """Send parked deliveries again."""
        while True:
            await asyncio.sleep(7.0)
            for (delivery_id,) in self._storage.rows(
                "SELECT id FROM delivery WHERE state = 'parked'"
            ):
                with suppress(StoreError, QueueError):
                    retry_delivery(self._storage.databases[-1], delivery_id)

    def _lose(self, earlier: sqlite3.Connection) -> None:
        """
        Note the messages whose sending an asynchronous failover undoes: they may be sent again.

        It loses no release, because the feed is read again.
        """
        stored = "SELECT control_id, state FROM delivery JOIN delivery_body ON delivery_id = id"
        rows, kept = self._storage.rows(stored), set(earlier.execute(stored).fetchall())
        self._undone |= {row[0] for row in rows if row not in kept}
        self._recomposed |= {row[0] for row in rows} - {row[0] for row in kept}
        self._claims.forget(earlier)

    def run(self) -> None:
        if not self._world.run(self._is_over, steps=60_000, seconds=1800.0):
            rows = self._storage.rows("SELECT id, state, code FROM delivery WHERE state <> 'done'")
            self._world.violate(f"not ended: {rows}")
        # A body that a failover lost is composed again and may differ under the same control id.
        self._world.events = [
            replace(event, content=b"") if event.control_id in self._recomposed else event
            for index, event in enumerate(self._world.events)
            if event.control_id not in self._undone or not self._is_repeated(index)
        ]

    def _is_repeated(self, index: int) -> bool:
        """True if the receiver got the same version of a report again after an event."""
        found, *later = self._world.events[index:]
        same = (Kind.DELIVERED, found.order, found.step)
        return any((item.kind, item.order, item.step) == same for item in later)

    def _is_over(self) -> bool:
        if self._is_open or self._world.now < self._faults.healed_at:
            return False
        ((done,),) = self._storage.rows("SELECT count(*) FROM delivery WHERE state = 'done'")
        return bool(done >= len(self._service.changes))


def content_of(payload: bytes) -> tuple[str, int]:
    """Return the report and the newest version that a message contains."""
    found = [(int(version), report.decode()) for version, report in _MARK.findall(payload)]
    version, report = max(found)
    return report, version


class ClusterDeliveryStory(DeliveryStory):
    is_cluster = True
