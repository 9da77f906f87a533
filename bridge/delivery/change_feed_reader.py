"""
Change feed: reads changes of reports from the report service by long polling, with a cursor.

`status_poll` replaces it for a service without a change feed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import structlog

from bridge.contract import FeedFault
from bridge.delivery.change_processor import ChangeProcessor
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.states import RetryPolicy
from bridge.redaction import describe, stack_frames
from bridge.store.errors import StoreError

PAGE = 200  # changes processed in one transaction; a larger one would delay other writers
WAIT = 20.0  # seconds that the service may hold a call open until a change happens
COURIERS_FIRST = 0.008
"""Seconds until the next call after deliveries were queued, so that couriers start first."""
IGNORED_EVENTS = (
    "order_registered", "order_updated", "report_content_updated", "report_files_updated",
    "report_signed", "addendum_created", "addendum_content_updated", "addendum_cancelled",
    "addendum_signed",
)  # fmt: skip
"""Events for which no destination gets a message: launches, edits, and signatures in the delay."""
ASK_AGAIN = 300.0  # seconds until a service without the feed is asked for it again

_REPLACED = frozenset(FeedFault)


class ChangeFeedReader:
    """
    Reads the feed of one access token; `site` selects the token ('' is the default one).

    `supported` is None until the first response, then whether the service has the feed.
    """

    def __init__(
        self,
        feed: EngineClient,
        processor: ChangeProcessor,
        metrics: Metrics,
        notify: Callable[[], None],
        *,
        random: Random,
        site: str = "",
        wait: float = WAIT,
    ) -> None:
        """`notify` is called after deliveries were queued."""
        self._log = structlog.get_logger("follower")
        self._feed = feed
        self._processor = processor
        self._metrics = metrics
        self._notify = notify
        self._random = random
        self._site = site
        self._name = f"changes {site}".strip()
        self._wait = wait
        self._policy = RetryPolicy(first=0.5, maximum=30.0)
        self._failures = 0
        self._asked = 0  # the cursor of the last request
        self._task: asyncio.Task[None] | None = None
        self.supported: bool | None = None

    def start(self) -> None:
        """Start to read."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop at once. A page that has not been stored is read again after the next start."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def read_page(self, wait: float = 0.0) -> int:
        """Read one page and process it; return the number of changes."""
        after = await Threads.DELIVERY.run(self._processor.cursor, self._name)
        self._asked = after
        page = await self._feed.changes(after, PAGE, wait, self._site, IGNORED_EVENTS)
        self.supported = True
        if page.changes or page.cursor > after:
            queued = await Threads.DELIVERY.run(self._processor.process, self._name, page)
            for change in page.changes:
                self._metrics.changes.labels(change.event).inc()
            if queued:
                self._notify()
                await asyncio.sleep(COURIERS_FIRST)
        return len(page.changes)

    async def _run(self) -> None:
        while True:
            try:
                await self.read_page(self._wait)
                self._failures = 0
            except EngineFailure as failure:
                await self._after(failure)
            except StoreError as error:
                await self._pause(error)
            except Exception as error:  # noqa: BLE001  # one bad page must not end the task
                await self._pause(error)

    async def _after(self, failure: EngineFailure) -> None:
        self._metrics.engine_failures.labels(failure.failure.value, failure.code).inc()
        if failure.is_unsupported or failure.code == "unreadable":
            self.supported = False  # the status poll replaces the feed
            await asyncio.sleep(ASK_AGAIN)
            return
        if failure.code in _REPLACED:
            await self._restart(failure.code)
        await self._pause(failure)

    async def _restart(self, code: str) -> None:
        """Read the feed from its beginning: the service was restored, our cursor is invalid."""
        self._log.error("change feed replaced; it is read again from its beginning", code=code)
        try:
            await Threads.DELIVERY.run(self._processor.restart, self._name, self._asked, code)
        except StoreError as error:
            self._log.warning("feed not restarted", error=describe(error))

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._log.warning("feed not read", error=describe(error), trace=stack_frames(error))
        await asyncio.sleep(self._policy.delay(self._failures, self._random))
