"""
Launches that wait at the same moment are carried out together.

Those of one token share their statements and their commit; each keeps its own outcome or refusal
and its own deed in the audit trail. Launches that bring files go alone: they take longer.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.engine.errors import EngineError
from bridge.engine.launch.outcome import LaunchOutcome
from bridge.engine.launch.request import LaunchRequest
from bridge.engine.live.batcher import Batcher
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch.launches import (
    LaunchContext,
    audit_events_of,
    launch_all,
    launch_one,
)
from bridge.engine.service.work import Actor, Work
from bridge.store.errors import StoreUnavailable
from bridge.store.short_work import SHORT

MOST_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A launch that was asked for; `origin` says where from, for the audit trail."""

    desk: LaunchContext
    request: LaunchRequest
    origin: Mapping[str, str] = field(default_factory=dict)


class LaunchBatcher:
    """Takes launches on the event loop; hands them to the workshop in parties."""

    def __init__(self, work: DatabaseExecutor, clock: Callable[[], int]) -> None:
        self._work = work
        self._clock = clock
        self._parties = Batcher[PendingLaunch, LaunchOutcome](self._together, MOST_TOGETHER)

    async def launch(self, asked: PendingLaunch) -> LaunchOutcome:
        """Carry out one launch, or raise its refusal."""
        if asked.request.attachments:
            return await self._alone(asked)
        return await self._parties.give(asked)

    async def _together(self, party: Sequence[PendingLaunch]) -> list[LaunchOutcome | Exception]:
        tables: dict[Caller, list[int]] = {}
        for place, asked in enumerate(party):
            tables.setdefault(asked.desk.caller, []).append(place)
        served = await asyncio.gather(
            *(self._of_one_caller([party[place] for place in table]) for table in tables.values())
        )
        places = (place for table in tables.values() for place in table)
        outcomes = (outcome for each in served for outcome in each)
        return [outcome for _, outcome in sorted(zip(places, outcomes, strict=True), key=_place)]

    async def _of_one_caller(
        self, party: Sequence[PendingLaunch]
    ) -> list[LaunchOutcome | Exception]:
        if len(party) > 1:
            try:
                return [*await self._in_one(party)]
            except StoreUnavailable as error:
                return [error] * len(party)
            except Exception:  # noqa: BLE001, S110  # whose fault it was shows when each goes alone
                pass
        alone = (self._alone(asked) for asked in party)
        done = await asyncio.gather(*alone, return_exceptions=True)
        return [_checked(outcome) for outcome in done]

    async def _in_one(self, party: Sequence[PendingLaunch]) -> list[LaunchOutcome | EngineError]:
        desk, requests = party[0].desk, [asked.request for asked in party]

        def deed(work: Work) -> list[LaunchOutcome | EngineError]:
            outcomes = launch_all(work, desk, requests)
            for asked, outcome in zip(party, outcomes, strict=True):
                if isinstance(outcome, LaunchOutcome):
                    work.audit_events += audit_events_of(
                        desk, [asked.request], [outcome], asked.origin
                    )
            return outcomes

        brief = len(party) <= SHORT
        return await self._work.change(_actor(desk), self._clock(), deed, brief=brief)

    async def _alone(self, asked: PendingLaunch) -> LaunchOutcome:
        def deed(work: Work) -> LaunchOutcome:
            outcome = launch_one(work, asked.desk, asked.request)
            work.audit_events += audit_events_of(
                asked.desk, [asked.request], [outcome], asked.origin
            )
            return outcome

        brief = not asked.request.attachments
        return await self._work.change(_actor(asked.desk), self._clock(), deed, brief=brief)


def _actor(desk: LaunchContext) -> Actor:
    return Actor(desk.caller.account_id, desk.caller.token_id)


def _place(pair: tuple[int, LaunchOutcome | Exception]) -> int:
    return pair[0]


def _checked(outcome: LaunchOutcome | BaseException) -> LaunchOutcome | Exception:
    """Return a result or an error; what ends the whole loop is raised."""
    if isinstance(outcome, (LaunchOutcome, Exception)):
        return outcome
    raise outcome
