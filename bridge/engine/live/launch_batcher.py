"""
Batches launches that arrive at the same time.

Launches of one token share statements and one commit. Each has its own outcome or error and its own
audit event. Launches with files are executed alone because they take longer.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, LaunchOutcome
from bridge.engine.live.database_executor import Batcher, DatabaseExecutor
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch.launches import (
    LaunchContext,
    audit_events_of,
    launch_all,
    launch_one,
)
from bridge.engine.service.work import ActorRef, Work
from bridge.store.errors import StoreUnavailable
from bridge.store.short_work import SHORT

MAX_BATCH = 64


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A requested launch; `origin` is its source address for the audit trail."""

    context: LaunchContext
    request: LaunchInput
    origin: Mapping[str, str] = field(default_factory=dict)


class LaunchBatcher:
    """Accepts launches on the event loop and executes them in batches."""

    def __init__(self, executor: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._executor = executor
        self._clock = clock
        self._batcher = Batcher[PendingLaunch, LaunchOutcome](self._execute_batch, MAX_BATCH)

    async def launch(self, launch: PendingLaunch) -> LaunchOutcome:
        """Execute one launch, or raise its error."""
        if launch.request.attachments:
            return await self._execute_alone(launch)
        return await self._batcher.submit(launch)

    async def _execute_batch(
        self, batch: Sequence[PendingLaunch]
    ) -> list[LaunchOutcome | Exception]:
        """Execute the launches of each caller together; return the outcomes in their order."""
        positions: dict[Caller, list[int]] = {}
        for position, launch in enumerate(batch):
            positions.setdefault(launch.context.caller, []).append(position)
        outcomes_by_caller = await asyncio.gather(
            *(self._of_one_caller([batch[each] for each in own]) for own in positions.values())
        )
        outcomes: dict[int, LaunchOutcome | Exception] = {}
        for own, found in zip(positions.values(), outcomes_by_caller, strict=True):
            outcomes.update(zip(own, found, strict=True))
        return [outcomes[position] for position in range(len(batch))]

    async def _of_one_caller(
        self, batch: Sequence[PendingLaunch]
    ) -> list[LaunchOutcome | Exception]:
        if len(batch) > 1:
            try:
                return [*await self._in_one_transaction(batch)]
            except StoreUnavailable as error:
                return [error] * len(batch)
            except Exception:  # noqa: BLE001, S110  # executed alone, each launch gets its own error
                pass
        alone = (self._execute_alone(launch) for launch in batch)
        done = await asyncio.gather(*alone, return_exceptions=True)
        return [_checked(outcome) for outcome in done]

    async def _in_one_transaction(
        self, batch: Sequence[PendingLaunch]
    ) -> list[LaunchOutcome | EngineError]:
        context = batch[0].context

        def execute(work: Work) -> list[LaunchOutcome | EngineError]:
            outcomes = launch_all(work, context, [launch.request for launch in batch])
            for launch, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, LaunchOutcome):
                    _audit(work, launch, outcome)
            return outcomes

        brief = len(batch) <= SHORT
        return await self._executor.change(_actor(context), self._clock(), execute, brief=brief)

    async def _execute_alone(self, launch: PendingLaunch) -> LaunchOutcome:
        def execute(work: Work) -> LaunchOutcome:
            outcome = launch_one(work, launch.context, launch.request)
            _audit(work, launch, outcome)
            return outcome

        brief = not launch.request.attachments
        return await self._executor.change(
            _actor(launch.context), self._clock(), execute, brief=brief
        )


def _audit(work: Work, launch: PendingLaunch, outcome: LaunchOutcome) -> None:
    work.audit_events += audit_events_of(launch.context, [launch.request], [outcome], launch.origin)


def _actor(context: LaunchContext) -> ActorRef:
    return ActorRef(context.caller.account_id, context.caller.token_id)


def _checked(outcome: LaunchOutcome | BaseException) -> LaunchOutcome | Exception:
    """Return a result or an error; raise exceptions that end the event loop."""
    if isinstance(outcome, (LaunchOutcome, Exception)):
        return outcome
    raise outcome
