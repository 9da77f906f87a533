"""
Plans: the work and the faults of one schedule. Hypothesis draws and shrinks them.

Only the plan defines a schedule: the same plan has the same steps.
"""

from dataclasses import dataclass
from enum import StrEnum

from hypothesis import strategies as st


class FaultKind(StrEnum):
    KILL = "process killed"
    FREEZE = "process frozen"
    PARTITION = "database unreachable"
    LOST_ANSWER = "commit done, answer lost"
    CLOCK_FORWARD = "clock set forward"
    CLOCK_BACK = "clock set back"
    FAILOVER = "failover to an earlier state"
    PEER_DOWN = "peer unreachable"


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A fault before step `step`, of a node, for so many seconds.

    A failover happens `lag_steps` steps later and restores the state before `step`.
    """

    kind: FaultKind
    step: int
    node: int
    seconds: int
    lag_steps: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """
    One piece of work: a message of a sender, or a release of a report.

    `subject` is the patient, or the report. `variant` selects the kind of message, or the
    receiver's replies.
    """

    actor: int
    subject: int
    variant: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule. `seed` draws delays, losses and jitter."""

    seed: int
    items: tuple[Item, ...]
    faults: tuple[Fault, ...]
    loss: float
    """The share of peers' calls that get no answer."""
    nodes: int


LENGTHS = (1, 8, 30)
"""Seconds of a fault, shorter and longer than a lease; also the steps by which a standby lags."""


def _fault(kind: FaultKind, step: int, node: int, length: int) -> Fault:
    return Fault(kind, step, node, length, length if kind is FaultKind.FAILOVER else 0)


def plans(
    *, nodes: int, kinds: tuple[FaultKind, ...] = tuple(FaultKind)
) -> st.SearchStrategy[Plan]:
    item = st.builds(Item, st.integers(0, 2), st.integers(0, 2), st.integers(0, 15))
    fault = st.builds(
        _fault,
        st.sampled_from(kinds),
        st.integers(0, 400),
        st.integers(0, nodes - 1),
        st.sampled_from(LENGTHS),
    )
    return st.builds(
        Plan,
        seed=st.integers(0, 9999),
        items=st.lists(item, min_size=1, max_size=20).map(tuple),
        faults=st.lists(fault, max_size=8).map(tuple),
        loss=st.sampled_from([0.0, 0.05, 0.3]),
        nodes=st.integers(1, nodes),
    )
