"""
Follow the change feed of the report service: what happens there is known here at once.

Keeps a cursor; long-polls. A service without the feed is left to `poller`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

import structlog

from bridge.contract import FeedFault
from bridge.delivery.change_processor import ChangeProcessor
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import ChangePage
from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.queue.states import RetryPolicy
from bridge.redaction import describe, where
from bridge.store.errors import StoreError

PAGE = 200  # changes that are processed in one transaction: others have to write too
WAIT = 20.0  # seconds a call may wait for something to happen
COURIERS_FIRST = 0.008
"""Seconds until the next call after deliveries were queued: couriers begin first."""
NO_NEWS = (
    "order_registered", "order_updated", "report_content_updated", "report_files_updated",
    "report_signed", "addendum_created", "addendum_content_updated", "addendum_cancelled",
    "addendum_signed",
)  # fmt: skip
"""Events of which no destination is told: our own launches, writing, and what may be recalled."""
ASK_AGAIN = 300.0  # seconds after which a service without the feed is asked for it again

_REPLACED = frozenset(FeedFault)


class Feed(Protocol):
    """What is needed of the engine's client."""

    async def changes(
        self,
        after: int,
        limit: int = 500,
        wait: float = 0.0,
        site: str = "",
        without: Sequence[str] = (),
    ) -> ChangePage:
        """Read what changed, but for some events."""


class Follower:
    """
    Follows the feed as one token sees it; `site` names the token ('' for the default one).

    `supported` is None until the service has answered, then whether it has the feed.
    """

    def __init__(
        self,
        feed: Feed,
        processor: ChangeProcessor,
        metrics: Metrics,
        notify: Callable[[], None],
        *,
        random: Random,
        site: str = "",
        wait: float = WAIT,
    ) -> None:
        """Take whom to notify when there is something to deliver."""
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
        self._asked = 0  # the cursor that was asked with last
        self._task: asyncio.Task[None] | None = None
        self.supported: bool | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """End at once; what was learned is stored, what was not will be read again."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def step(self, wait: float = 0.0) -> int:
        """Read one page and take it in; give how many changes it had."""
        after = await Threads.DELIVERY.run(self._processor.cursor, self._name)
        self._asked = after
        page = await self._feed.changes(after, PAGE, wait, self._site, NO_NEWS)
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
                await self.step(self._wait)
                self._failures = 0
            except EngineFailure as failure:
                await self._after(failure)
            except StoreError as error:
                await self._pause(error)
            except Exception as error:  # noqa: BLE001  # one bad page must not end the following
                await self._pause(error)

    async def _after(self, failure: EngineFailure) -> None:
        self._metrics.engine_failures.labels(failure.failure.value, failure.code).inc()
        if failure.is_unsupported or failure.code == "unreadable":
            self.supported = False  # the status poll takes over
            await asyncio.sleep(ASK_AGAIN)
            return
        if failure.code in _REPLACED:
            await self._restart(failure.code)
        await self._pause(failure)

    async def _restart(self, code: str) -> None:
        """Read the feed from its beginning: the service was restored, and our cursor is void."""
        self._log.error("change feed replaced; it is read again from its beginning", code=code)
        try:
            await Threads.DELIVERY.run(self._processor.restart, self._name, self._asked, code)
        except StoreError as error:
            self._log.warning("feed not restarted", error=describe(error))

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._log.warning("feed not read", error=describe(error), trace=where(error))
        await asyncio.sleep(self._policy.delay(self._failures, self._random))
