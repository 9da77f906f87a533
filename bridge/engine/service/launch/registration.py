"""
Registers orders (registerOrder): empty, unassigned Ordered reports.

Many orders need as few statements as there are tables. Registering a known order again changes the
tags of an unsigned report, and nothing of a signed one. A launched report then has a registered
order, which remains when its Draft is discarded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.engine.rules.lifecycle import SIGNED, ReportOrigin, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.service.launch.creation import NewReport, OrderInput, create_many, update_order
from bridge.engine.service.report_lookup import (
    LockedOrder,
    lock_orders,
)
from bridge.engine.service.report_transitions import mark_registered
from bridge.engine.service.work import Work


class Registration(StrEnum):
    """The outcome of registering an order."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SIGNED = "signed"  # the report is signed: nothing was changed


@dataclass(frozen=True, slots=True)
class RegisteredOrder:
    """The outcome for one order, with the id and status of its report."""

    report_id: str
    status: Status
    outcome: Registration


def register_current(
    work: Work,
    identities: Sequence[OrderId],
    orders: Sequence[OrderInput],
    groups: Sequence[str] | None = None,
) -> list[RegisteredOrder]:
    """
    Register orders under current identities (merged patient identifiers are already followed).

    New orders of one patient with the same name in `groups` share one report; an empty name means
    no group.
    """
    group_names = groups or [""] * len(orders)
    done: dict[int, RegisteredOrder] = {}
    for turn in _turns(identities):
        found = lock_orders(work, [identities[index] for index in turn], current=True)
        known = {index: each for index, each in zip(turn, found, strict=True) if each}
        done |= {index: _update(work, each, orders[index]) for index, each in known.items()}
        new = [index for index in turn if index not in known]
        created = _create(
            work,
            [
                NewReport(
                    identities[index],
                    orders[index],
                    Status.ORDERED,
                    ReportOrigin.ORDER,
                    group=group_names[index],
                )
                for index in new
            ],
        )
        done |= dict(zip(new, created, strict=True))
    return [done[index] for index in range(len(orders))]


def _turns(identities: Sequence[OrderId]) -> list[list[int]]:
    """Split into turns in which no order occurs twice; a repeated order is in the next turn."""
    turns: list[list[int]] = []
    seen: dict[OrderId, int] = {}
    for index, identity in enumerate(identities):
        turn = seen.get(identity, 0)
        seen[identity] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(index)
    return turns


def _update(work: Work, found: LockedOrder, order: OrderInput) -> RegisteredOrder:
    report = found.report
    mark_registered(report)
    if report.status in SIGNED:
        return RegisteredOrder(report.report_id, report.status, Registration.SIGNED)
    changed = update_order(work, report, found.order, order, clears=True)
    outcome = Registration.UPDATED if changed else Registration.UNCHANGED
    return RegisteredOrder(report.report_id, report.status, outcome)


def _create(work: Work, new: Sequence[NewReport]) -> list[RegisteredOrder]:
    return [
        RegisteredOrder(each, Status.ORDERED, Registration.CREATED)
        for each in create_many(work, new)
    ]
