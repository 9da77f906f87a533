"""Launches: messages that are applied at the same moment share a batch call.

Single calls are the fallback if the engine has no batch call, or if a batch fails as a whole and
one of its members may be the cause.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from bridge.contract.responses import LaunchResponse
from bridge.engine_client.client import EngineClient, LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.executors import set_outcome
from bridge.orders.order import OrderIndexKey
from bridge.orders.plans import OrderTask

SHARED_FAILURES = frozenset({None, 401, 429, 502, 503, 504})
"""Statuses of a failed batch (None: no answer) that do not depend on its members."""


_Request = tuple[LaunchRequest, "asyncio.Future[LaunchResponse]"]


class Launcher:
    """Collects launches, sends them in batches, and returns to each caller its own result."""

    def __init__(self, client: EngineClient, *, batch_size: int = 100, parallel: int = 8) -> None:
        """Send at most `batch_size` launches in a batch, and `parallel` single ones at a time."""
        self._client = client
        self._batch_size = batch_size
        self._slots = asyncio.Semaphore(parallel)
        self._waiting: list[_Request] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_batch = True

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        """Launch one report, together with other waiting launches. Raises EngineFailure."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LaunchResponse] = loop.create_future()
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
        """
        Send the waiting launches, one batch for each token. Every caller gets a result or an
        error.
        """
        try:
            by_token: defaultdict[str, list[_Request]] = defaultdict(list)
            for each in waiting:
                by_token[self._client.token_of(each[0].site)].append(each)
            chunks = [
                each for group in by_token.values() for each in _chunks(group, self._batch_size)
            ]
            await asyncio.gather(*map(self._send, chunks))
        except Exception as error:  # noqa: BLE001  # raised to all callers
            for _, future in waiting:
                set_outcome(future, error)

    async def _send(self, chunk: Sequence[_Request]) -> None:
        try:
            results = await self._results([launch for launch, _ in chunk])
        except Exception as error:  # noqa: BLE001  # raised to the callers of this batch
            results = [error] * len(chunk)
        for (_, future), result in zip(chunk, results, strict=True):
            set_outcome(future, result)

    async def _results(
        self, launches: Sequence[LaunchRequest]
    ) -> Sequence[LaunchResponse | Exception]:
        if len(launches) > 1 and self._has_batch:
            try:
                return await self._client.launch_batch(launches)
            except EngineFailure as failure:
                if failure.status in SHARED_FAILURES:
                    raise
                self._has_batch = not failure.is_unsupported
        return await asyncio.gather(*(self._single(each) for each in launches))

    async def _single(self, launch: LaunchRequest) -> LaunchResponse | Exception:
        async with self._slots:
            try:
                return await self._client.launch(replace(launch, link_group=""))
            except Exception as error:  # noqa: BLE001  # raised to its own caller
                return error


def _chunks(items: Sequence[_Request], size: int) -> Iterator[list[_Request]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def launch_of(task: OrderTask, link_group: str = "") -> LaunchRequest:
    """
    Return the launch that registers an order with all its values.

    `link_group` names the new orders of the message that share a report.
    """
    event = task.event
    location = {"SiteLocation": event.location} if event.location else {}
    tags = {**task.after.tags, **location}
    return registration(task.after.key, tags, event.reporting_app, link_group)


def registration(
    key: OrderIndexKey,
    tags: Mapping[str, Any],
    app: Mapping[str, Any] = MappingProxyType({}),
    link_group: str = "",
) -> LaunchRequest:
    own = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return LaunchRequest(
        {**tags, **own}, app, lazy=True, register_order=True, link_group=link_group
    )
