"""
Messages that register one order and ask for nothing else: nearly all of them do.

A batch of these needs no task, no future and no turns of the loop for each message, which would
cost more than to plan it. Pure; what goes beyond that is the forwarder's.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from bridge.engine_client.models import Launch
from bridge.intake.order_rules import PATIENTS, Step
from bridge.intake.planning import Task, plan
from bridge.intake.registering import launch_of
from bridge.intake.regrouping import neighbours
from bridge.intake.running import Run
from bridge.store.order_index import IndexedOrder, Key


class Plain(NamedTuple):
    """A message whose one order is registered by one launch, and linked with nobody."""

    run: Run
    task: Task
    launch: Launch


def sorted_out(runs: Iterable[Run]) -> tuple[list[Plain], list[Run]]:
    """Part the messages of a batch: those that ask for one launch, and the others."""
    plain: list[Plain] = []
    others: list[Run] = []
    for run in runs:
        found: Plain | None = None
        with suppress(Exception):  # whoever goes on with it alone comes upon it again, and tells
            found = plainly(run)
        if found is None:
            others.append(run)
        else:
            plain.append(found)
    return plain, others


def plainly(run: Run) -> Plain | None:
    """Plan a message; None where it may ask for more than a launch. Raises what planning does."""
    events = run.job.events
    if run.job.conflicts or any(
        each.action in PATIENTS or each.visit is not None for each in events
    ):
        return None
    tasks = plan(events, run.index, run.job.occasion, heard=run.job.heard)
    if len(tasks) != 1 or not _is_plain(tasks[0], run.index):
        return None
    return Plain(run, tasks[0], launch_of(tasks[0]))


def _is_plain(task: Task, index: Mapping[Key, IndexedOrder]) -> bool:
    if task.step is not Step.REGISTER or task.absorbed:
        return False
    if not task.regroups:
        return True
    return task.before is None and (not index or len(neighbours(task.after, index)) == 1)
