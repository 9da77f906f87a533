"""Launches of many messages in few calls: messages that wait at the same moment share a batch.

Falls back to single launches where the service has no batch, and where a batch failed as a
whole for something that may be the fault of one of its members.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import LaunchRequest, LaunchResult
from bridge.intake.process.planning import Task
from bridge.store.records.order_index import OrderIndexKey

SHARED = frozenset({None, 401, 429, 502, 503, 504})
"""Statuses of a batch (None: no answer) that say nothing about its members."""


_Request = tuple[LaunchRequest, "asyncio.Future[LaunchResult]"]


class LaunchService(Protocol):
    """What the launcher needs of the engine's client."""

    async def launch(self, launch: LaunchRequest) -> LaunchResult:
        """Launch one report."""

    async def launch_batch(
        self, launches: Sequence[LaunchRequest]
    ) -> list[LaunchResult | EngineFailure]:
        """Launch several; one result each, in order."""

    def token_of(self, site: str) -> str:
        """Name the token that a site's calls bear: a batch has one."""


class Launcher:
    """Collects launches, sends them in batches, hands each caller its own result."""

    def __init__(self, service: LaunchService, *, most: int = 100, parallel: int = 8) -> None:
        """Send at most `most` launches in a batch, `parallel` single ones at a time."""
        self._service = service
        self._most = most
        self._slots = asyncio.Semaphore(parallel)
        self._waiting: list[_Request] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_batch = True

    async def launch(self, launch: LaunchRequest) -> LaunchResult:
        """Launch one report, in a batch with the others that wait. Raises EngineFailure."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LaunchResult] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((launch, future))
        return await future

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        task = asyncio.ensure_future(self._dispatch(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dispatch(self, waiting: Sequence[_Request]) -> None:
        """Send all that waits, a batch for each token; whatever happens, every caller hears."""
        try:
            by_token: defaultdict[str, list[_Request]] = defaultdict(list)
            for each in waiting:
                by_token[self._service.token_of(each[0].site)].append(each)
            chunks = [each for group in by_token.values() for each in _chunks(group, self._most)]
            await asyncio.gather(*map(self._send, chunks))
        except Exception as error:  # noqa: BLE001  # see above
            for _, future in waiting:
                _settle(future, error)

    async def _send(self, chunk: Sequence[_Request]) -> None:
        try:
            results = await self._results([launch for launch, _ in chunk])
        except Exception as error:  # noqa: BLE001  # see above
            results = [error] * len(chunk)
        for (_, future), result in zip(chunk, results, strict=True):
            _settle(future, result)

    async def _results(
        self, launches: Sequence[LaunchRequest]
    ) -> Sequence[LaunchResult | Exception]:
        if len(launches) > 1 and self._has_batch:
            try:
                return await self._service.launch_batch(launches)
            except EngineFailure as failure:
                if failure.status in SHARED:
                    raise
                self._has_batch = not failure.is_unsupported
        return await asyncio.gather(*(self._single(each) for each in launches))

    async def _single(self, launch: LaunchRequest) -> LaunchResult | Exception:
        async with self._slots:
            try:
                return await self._service.launch(replace(launch, link_group=""))
            except Exception as error:  # noqa: BLE001  # only its own caller hears of it
                return error


def _settle(future: "asyncio.Future[LaunchResult]", result: LaunchResult | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _chunks(items: Sequence[_Request], size: int) -> Iterator[list[_Request]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def launch_of(task: Task, link_group: str = "") -> LaunchRequest:
    """
    Make the launch that registers an order, with everything that is known of it.

    `link_group` names the new orders of the message that share a report.
    """
    event = task.event
    location = {"SiteLocation": event.location} if event.location else {}
    tags = {**task.after.tags, **location}
    return registering(task.after.key, tags, event.reporting_app, link_group)


def registering(
    key: OrderIndexKey,
    tags: Mapping[str, Any],
    app: Mapping[str, Any] = MappingProxyType({}),
    link_group: str = "",
) -> LaunchRequest:
    """Make the launch that registers an order with these tags, and these of the report's app."""
    own = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return LaunchRequest(
        {**tags, **own}, app, lazy=True, register_order=True, link_group=link_group
    )
