"""A whole bridge in one process: real engine behind ASGI, real queue, receivers in memory."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.contract.responses import StatusRecordBody
from bridge.delivery.change_feed import ChangeFeedReader, ChangeProcessor
from bridge.delivery.composer import Composer
from bridge.delivery.courier import Courier
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.preparation import ReportTexts
from bridge.delivery.status_poll import StatusPoller
from bridge.engine.errors import EngineError
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.site_settings import SiteSettings
from bridge.engine.settings import EngineSettings
from bridge.engine_client.client import EngineClient
from bridge.intake.process.order_processor import OrderProcessor
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.intake.process.worklist import reports_of
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.statistics import AckCounter
from bridge.metrics import Metrics
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import pull_new
from bridge.queue.message_log import MessageLog
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueState
from bridge.queue.worker import Worker
from bridge.store.database import Database
from bridge.transports import MessageSender
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mllp.contract import as_deferred
from mllp.framing import Frame
from mllp.testing import MemoryClient, MemoryPeer
from tests.bridge.delivery.fixtures import (
    FAST,
    SITE,
    TOKEN,
    USER,
    Page,
    Time,
    accepting,
    inbound,
)
from tests.bridge.engine.http.applications import application_with
from tests.databases import fresh_file
from tests.eventually import eventually_async

PEERS = {"CT1": ["*"], "MR1": [SITE]}
"""The sites of DICOM peers."""


class ReportClient(EngineClient):
    async def sign(self, order: OrderKey, *, ignore_sign_delay: bool = False) -> None:
        await self._act("sign", order, ignoreSignDelay=ignore_sign_delay)

    async def release_addendum(self, order: OrderKey) -> None:
        await self._act("addendum/sign", order, ignoreSignDelay=True)

    async def prelim(self, order: OrderKey, group: str, tag: str) -> None:
        await self._act("prelim", order, prelimGroup=group, prelimTag=tag)

    async def _act(self, action: str, order: OrderKey, **options: object) -> None:
        body = {"clinicalInfo": order.tags(), **options}
        await self._succeed("POST", f"/api/report/{action}", order.site, body=body)


@dataclass
class Hospital:
    time: Time
    http: httpx.AsyncClient
    client: ReportClient
    database: Database
    engine_database: Database
    handler: IntakeHandler
    feed_reader: ChangeFeedReader
    poller: StatusPoller
    couriers: list[Courier]
    receivers: dict[str, MemoryClient]
    metrics: Metrics
    outbox: Outbox
    worker: Worker
    use: Callable[[ListenerPolicy], None]
    numbers: Any = field(default_factory=lambda: count(1))

    async def send(self, payload: bytes) -> ReceivedAck:
        """Send a message as a RIS does, and wait until it is applied."""
        ack = await self.hand_over(payload)
        await self.applied()
        return ack

    async def hand_over(self, payload: bytes) -> ReceivedAck:
        """Send a message as a RIS does."""
        replies = await as_deferred(self.handler, Frame(payload), MemoryPeer()).asFuture(
            asyncio.get_running_loop()
        )
        self.worker.notify()
        return read_ack(replies[0])

    async def applied(self) -> None:
        """Wait until all messages are applied."""
        await eventually_async(lambda: not self.states() & {"queued", "claimed"})

    def states(self) -> set[str]:
        return {state for (state,) in self.rows("SELECT state FROM message")}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        pull_new(self.database)
        with self.database.read() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    def last_message(self) -> tuple[str, str]:
        """Return state and code of the last message."""
        ((state, code),) = self.rows("SELECT state, code FROM message ORDER BY id DESC LIMIT 1")
        return state, code

    async def descriptions(self) -> dict[str, str]:
        rows = (await self.client.worklist(SITE, status="Ordered")).items
        orders = (order for row in rows for order in row["orders"])
        return {order["Accession"]: order.get("StudyDescription", "") for order in orders}

    async def report(self, accession: str, mrn: str = "M1") -> StatusRecordBody | None:
        found = await reports_of(self.client, [OrderKey(SITE, mrn, accession)])
        return found[0] if found else None

    async def page(self, accession: str, mrn: str = "M1") -> Page:
        """Open a report as a radiologist does."""
        tags = OrderKey(SITE, mrn, accession).tags()
        response = await self.http.post(
            "/api/report/launch/clinical",
            json={
                "clinicalInfo": tags,
                "reportingApp": {},
                "response": {"type": "link"},
                "userInfo": USER,
            },
            headers={"x-access-token": TOKEN},
        )
        assert response.status_code == 200, response.text
        page = await self.http.get(response.json()["reportLink"])
        found = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page.text)
        assert found, page.text
        return Page(self.http, json.loads(found[1])["session"])

    async def read_and_sign(self, accession: str, text: str, mrn: str = "M1") -> Page:
        page = await self.page(accession, mrn)
        await page("save", text=text)
        await page("sign")
        return page

    async def follow(self) -> None:
        while await self.feed_reader.read_page():
            pass

    async def delivered(self, number: int, destination: str = "ris") -> list[bytes]:
        """Wait until a receiver has this many messages."""
        await eventually_async(lambda: len(self.receivers[destination].sent) >= number)
        return self.receivers[destination].sent


@dataclass(frozen=True)
class Notifier:
    couriers: list[Courier]

    def notify(self) -> None:
        for courier in self.couriers:
            courier.notify()


@asynccontextmanager
async def open_hospital(
    folder: Path,
    database: Database,
    *destinations: CompiledDestination,
    reply_with: dict[str, Callable[[bytes], bytes | None]] | None = None,
    senders: Mapping[str, MessageSender] | None = None,
    sign_delay: int = 0,
    steps: StepWriter | None = None,
    **courier_options: Any,
) -> AsyncIterator[Hospital]:
    """
    Start all parts except the change feed, which tests read step by step.

    A destination without a sender has a receiver in memory.
    """
    time, metrics = Time(), Metrics()
    engine_database = Database(fresh_file(folder / "engine.db"))
    with engine_database.write() as connection:
        site = SiteSettings(site_id=SITE, name="Site", sign_delay=sign_delay)
        with suppress(EngineError):  # the installation is opened again
            site_settings.add_site(connection, site, time())
    settings = EngineSettings((("k1", secrets.token_bytes(32)),), service_token=TOKEN)
    application = application_with(settings, engine_database, time)
    async with AsyncExitStack() as stack:
        await application.state.engine.start()
        stack.push_async_callback(application.state.engine.stop)
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8575")
        )
        client = ReportClient(http, TOKEN)
        listening = ListenerPolicy("ris", inbound(), site=SITE)
        message_log = MessageLog(database)
        message_log.start(asyncio.get_running_loop())
        stack.push_async_callback(message_log.stop)

        async def state_of(message_id: int) -> QueueState:
            return QueueState.DONE

        waiting = CompletionWaiter(state_of)
        repository = OrderRepository(database, time, steps, PEERS)
        order_processor = OrderProcessor(client, repository, {"ris": listening}, waiting, metrics)
        worker = Worker(
            Inbox(database, "test", write_records=repository.write),
            order_processor.apply,
            clock=time,
            policy=FAST,
            poll=0.02,
        )
        await worker.start()
        stack.push_async_callback(worker.stop)
        ids = count(1)
        handler = IntakeHandler(
            listening,
            message_log,
            waiting,
            AckCounter(metrics, "ris"),
            clock=time.moment,
            new_id=lambda: f"ACK{next(ids)}",
        )
        outbox = Outbox(database, "test")
        composer, texts = Composer(database, time.moment), ReportTexts(client)
        receivers, couriers = {}, []
        for destination in destinations:
            receivers[destination.name] = MemoryClient(
                (reply_with or {}).get(destination.name, accepting)
            )
            courier = Courier(
                destination,
                outbox,
                composer,
                texts,
                (senders or {}).get(destination.name, receivers[destination.name]),
                metrics,
                clock=time,
                random=Random(1),
                **courier_options,
            )
            courier.start()
            stack.push_async_callback(courier.stop)
            couriers.append(courier)

        def use(changed: ListenerPolicy) -> None:
            handler.use(changed)
            order_processor.use({"ris": changed})

        counter = Notifier(couriers)
        write_steps = None if steps is None else steps.write
        processor = ChangeProcessor(database, outbox, destinations, time, write_steps=write_steps)
        feed_reader = ChangeFeedReader(client, processor, metrics, counter.notify, random=Random(1))
        poller = StatusPoller(client, processor, counter.notify, every=0.01)
        try:
            yield Hospital(
                time,
                http,
                client,
                database,
                engine_database,
                handler,
                feed_reader,
                poller,
                couriers,
                receivers,
                metrics,
                outbox,
                worker,
                use,
            )
        finally:
            await stack.aclose()
            engine_database.dispose()
