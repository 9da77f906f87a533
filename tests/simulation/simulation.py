"""Run schedules of a story, and find the smallest plan that breaks a promise."""

import gc
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import structlog
from hypothesis import HealthCheck, Phase, given, seed, settings

from bridge import index_key
from tests.history import violations
from tests.simulation.delivery import ClusterDeliveryStory, DeliveryStory
from tests.simulation.intake import ClusterIntakeStory, IntakeStory
from tests.simulation.plans import Plan, plans
from tests.simulation.storage import Storage, storage
from tests.simulation.world import World

BATCH = 100
"""Schedules of one seed."""


class Story(Protocol):
    def __init__(self, plan: Plan, world: World, storage: Storage) -> None: ...

    def run(self) -> None:
        """Run to the end."""


STORIES: Mapping[str, tuple[Sequence[type[Story]], int]] = MappingProxyType(
    {
        "intake": ([IntakeStory], 2),
        "delivery": ([DeliveryStory], 2),
        "cluster": ([ClusterIntakeStory, ClusterDeliveryStory], 3),
    }
)
"""Story classes, chosen by the plan's seed; and the largest number of nodes."""


@dataclass
class Result:
    schedules: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    plan: Plan | None = None


class BrokenPromiseError(AssertionError):
    """A schedule broke a promise."""


def simulate(name: str, plan: Plan) -> Result:
    index_key.install(bytes(range(index_key.KEY_BYTES)))
    world, store = World(plan.seed), storage()
    store.begin(world.boot_ms)
    classes = STORIES[name][0]
    with _without_logs():
        try:
            classes[plan.seed % len(classes)](plan, world, store).run()
        finally:
            world.close()
    problems = list(dict.fromkeys([*world.broken, *violations(world.events)]))
    return Result(1, world.steps, world.faults, problems, world.trace, plan)


@contextmanager
def _without_logs() -> Iterator[None]:
    """The product logs each fault: hundreds of lines for a schedule."""
    before, level = structlog.get_config(), logging.root.manager.disable
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)
        structlog.configure(**before)


def search(name: str, number: int, schedules: int = BATCH, *, shrink: bool = True) -> Result:
    """Run the schedules of one seed; with `shrink` a problem is reduced to a small plan."""
    total, failed = Result(), Result()

    @seed(number)
    @settings(
        max_examples=schedules,
        database=None,
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(plan=plans(nodes=STORIES[name][1]))
    def examine(plan: Plan) -> None:
        nonlocal failed
        result = simulate(name, plan)
        total.schedules += 1
        total.steps += result.steps
        total.faults += result.faults
        if result.problems:
            failed = result
            raise BrokenPromiseError(result.problems[0])

    try:
        examine()
    except BrokenPromiseError:
        total.problems, total.trace, total.plan = failed.problems, failed.trace, failed.plan
    gc.collect()
    return total
