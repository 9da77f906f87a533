"""The queues keep their guarantees under all schedules of faults, and built-in bugs are found."""

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.plans import Fault, FaultKind, Item, Plan
from tests.simulation.simulation import STORIES, search, simulate

SCHEDULES = 50
FOUND_BY = {
    "claim-out-of-order": (0, 60),
    "fresh-control-ids": (0, 60),
    "count-silence-as-accepted": (0, 60),
}
"""Seeds, and numbers of schedules, that find a bug."""

PLAN = Plan(
    seed=7,
    items=tuple(Item(number % 3, number % 2, number) for number in range(8)),
    faults=(
        Fault(FaultKind.FREEZE, 40, 0, 30),
        Fault(FaultKind.KILL, 80, 1, 1),
        Fault(FaultKind.LOST_ANSWER, 90, 0, 1),
    ),
    loss=0.05,
    nodes=2,
)

FAILOVER_BEFORE_A_SETTLEMENT = Plan(
    seed=0,
    items=tuple(
        Item(*item)
        for item in [
            *[(1, 0, 2), (0, 2, 2), (2, 0, 0), (2, 1, 2)],
            *[(1, 0, 2), (2, 1, 2), (2, 0, 0), (1, 0, 0)],
        ]
    ),
    faults=(
        Fault(FaultKind.PARTITION, 81, 0, 1),
        Fault(FaultKind.FAILOVER, 61, 0, 30, lag_steps=30),
    ),
    loss=0.05,
    nodes=1,
)
"""A failover loses a message that has been applied; the next one gets its id before it settles."""

LATE_CALL = Plan(
    seed=230,
    items=(Item(0, 0, 0),) * 5 + (Item(1, 2, 2),) * 2,
    faults=(
        Fault(FaultKind.FREEZE, 0, 1, 1),
        Fault(FaultKind.FAILOVER, 0, 0, 1, lag_steps=1),
    ),
    loss=0.0,
    nodes=2,
)
"""A failover loses the claim of a node that is making its call."""


TWO_NODES = Plan(seed=0, items=(Item(0, 0, 0),) * 5, faults=(), loss=0.0, nodes=2)

CLOCK_BACK_AFTER_A_FAILURE = Plan(
    seed=4337,
    items=tuple(
        Item(*item) for item in [(0, 2, 0), (1, 0, 7), (1, 0, 3), (1, 2, 12), (2, 2, 6), (2, 2, 4)]
    ),
    faults=(
        Fault(FaultKind.CLOCK_BACK, 343, 1, 1),
        Fault(FaultKind.PEER_DOWN, 151, 0, 30),
    ),
    loss=0.05,
    nodes=1,
)
"""A retry is due at a time that the clock, set back, does not reach."""

FROZEN_WITH_A_CLAIM = Plan(
    seed=1011,
    items=(Item(0, 0, 0), Item(0, 0, 0), Item(1, 0, 0), Item(2, 0, 0)),
    faults=(Fault(FaultKind.KILL, 0, 1, 1), Fault(FaultKind.FREEZE, 18, 0, 30)),
    loss=0.0,
    nodes=2,
)
"""A node is frozen with a claim, which another node takes over."""

FROZEN_TWICE = Plan(
    seed=294,
    items=tuple(
        Item(*item)
        for item in [
            *[(0, 1, 0), (1, 1, 0), (2, 0, 2), (0, 0, 0), (0, 0, 0)],
            *[(1, 0, 0), (1, 0, 0), (2, 0, 0), (2, 2, 1), (2, 0, 0)],
        ]
    ),
    faults=(
        Fault(FaultKind.FREEZE, 25, 0, 30),
        Fault(FaultKind.FREEZE, 168, 0, 30),
        Fault(FaultKind.CLOCK_FORWARD, 94, 0, 1),
    ),
    loss=0.0,
    nodes=1,
)
"""A process that was frozen during a call claims the same message again."""


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect the garbage of the simulation, so that its warnings appear in its own tests."""
    yield
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_promises_hold(story: str) -> None:
    """The guarantees hold in fifty schedules with up to eight faults each."""
    found = search(story, 0, SCHEDULES)
    assert (found.problems, found.plan) == ([], None)


@pytest.mark.parametrize("story", STORIES)
def test_a_plan_repeats_exactly(story: str) -> None:
    """The same plan has the same steps at the same times."""
    one, two = simulate(story, PLAN), simulate(story, PLAN)
    assert one.trace == two.trace
    assert one.steps == two.steps > len(PLAN.items)


@pytest.mark.parametrize("name", FOUND_BY)
def test_built_in_bugs_are_found(name: str) -> None:
    story, bug = BUGS[name]
    with bug():
        found = search(story, *FOUND_BY[name], shrink=False)
    assert found.problems


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("settle-without-owner", FROZEN_WITH_A_CLAIM),
        ("recover-too-early", TWO_NODES),
        ("leave-future-retries", CLOCK_BACK_AFTER_A_FAILURE),
    ],
)
def test_a_plan_finds_a_bug(name: str, plan: Plan) -> None:
    _, bug = BUGS[name]
    with bug():
        assert simulate("intake", plan).problems
    assert simulate("intake", plan).problems == []


def test_an_outcome_of_a_lost_message_settles_no_later_one() -> None:
    """A failover loses a message that has been applied; another message gets its id."""
    _, bug = BUGS["settle-later-rows"]
    with bug():
        assert simulate("intake", FAILOVER_BEFORE_A_SETTLEMENT).problems
    assert simulate("intake", FAILOVER_BEFORE_A_SETTLEMENT).problems == []


@pytest.mark.parametrize("seed", [113, 469])
def test_an_attempt_whose_claim_is_lost_is_not_repeated_beside_it(seed: int) -> None:
    """Its outcome would settle the repetition, which may end after a later message of its order."""
    plan = replace(FAILOVER_BEFORE_A_SETTLEMENT, seed=seed)
    assert simulate("intake", plan).problems == []


def test_an_outcome_of_an_earlier_claim_settles_no_later_one() -> None:
    """A process claims a message again while its call of before the freeze still runs."""
    _, bug = BUGS["settle-earlier-attempts"]
    with bug():
        assert simulate("intake", FROZEN_TWICE).problems
    assert simulate("intake", FROZEN_TWICE).problems == []


def test_a_late_call_for_a_lost_claim_replaces_no_newer_one() -> None:
    """After a failover nobody claims until the calls of before have ended."""
    _, bug = BUGS["claim-soon-after-a-failover"]
    with bug():
        assert simulate("cluster", LATE_CALL).problems
    assert simulate("cluster", LATE_CALL).problems == []
