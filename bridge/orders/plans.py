"""
Plans: the step for each order of a message, and the state of the order after it.

Events of one message about one order are one task: several ORC groups may share an
accession, and an accession is one report.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.contract import OrderKey
from bridge.orders.duplicates import early_rows, order_numbers, with_early_rows
from bridge.orders.hierarchy import (
    FROM_PARENT,
    has_lost_parent,
    involves_parent,
    leaves_open_children,
    parent_of,
    with_child_events,
)
from bridge.orders.order import Order, OrderState, key_of
from bridge.orders.rules import (
    CLOSING_ACTIONS,
    ORDER_ACTIONS,
    OrderStep,
    SourceMessage,
    Transition,
    decide,
    with_state,
)
from bridge.orders.times import is_earlier
from bridge.orders.values import (
    applicable_later_event,
    combined_event,
    differs_from,
    is_number_only_after,
    names_procedure,
    uncancelled_procedures,
    updated_values,
    with_later_event,
    with_links,
    with_older_values,
    with_procedures,
)
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import step_accessions

SUPERSEDED = "superseded"
"""The code of a message that a later message, processed earlier, made obsolete."""

ORDER_UNKNOWN = "order_unknown"
"""The code of a message that cancels or holds an unknown order."""

SEVERAL_ORDERS = "several_orders"
"""The code of a message that does not say which of several orders or procedures it closes."""

SEVERAL_ACCESSIONS = "several_accessions"
"""The code of a message whose scheduled steps give one procedure several accession numbers."""

ORDER_CANCELLED = "order_cancelled"
"""The code of a message that changes, holds or releases a cancelled order."""


@dataclass(frozen=True, slots=True)
class OrderTask:
    """
    One step for one order. `before` is None for an unknown order.

    `combined_rows` are rows about the same order, which become one row with it: rows that are
    known by a number only, and rows of the former patient of its visit.
    """

    step: OrderStep
    event: OrderEvent
    before: Order | None
    after: Order
    combined_rows: Sequence[Order] = ()

    @property
    def marks_as_reported(self) -> bool:
        """Whether the engine does not know yet that the order is reported elsewhere."""
        if self.step is not OrderStep.REPORT_ELSEWHERE:
            return False
        return (
            self.event.action is OrderAction.REPORTED
            or self.before is None
            or bool(self.combined_rows)
            or self.before.state != OrderState.REPORTED
        )

    @property
    def returns_to_unread(self) -> bool:
        """Whether an order that was reported elsewhere must be read again."""
        return (
            self.step is OrderStep.REGISTER
            and self.before is not None
            and self.before.state == OrderState.REPORTED
        )

    @property
    def regroups(self) -> bool:
        """Whether its links must be checked: it is new on the worklist, or its links changed."""
        if self.step is not OrderStep.REGISTER:
            return False
        return (
            self.before is None
            or bool(self.combined_rows)
            or self.before.state != OrderState.ORDERED
            or self.before.links != self.after.links
            or self.before.parents != self.after.parents
            or self.event.action is OrderAction.LINK
        )


def merge_events(events: Iterable[OrderEvent]) -> list[OrderEvent]:
    """Merge the events about one order; the values of the first one take precedence."""
    groups: dict[tuple[OrderAction, OrderKey], list[OrderEvent]] = {}
    for event in events:
        groups.setdefault((event.action, key_of(event)), []).append(event)
    return list(map(combined_event, groups.values()))


def plan(
    events: Sequence[OrderEvent],
    index: Mapping[OrderKey, Order],
    source: SourceMessage,
    *,
    has_early_rows: bool = False,
) -> list[OrderTask]:
    """
    Plan the order events of a message in order; each event starts from the state that the previous
    one leaves.

    `has_early_rows`: the index may have rows of its orders that are known by a number only.
    """
    known = dict(index)
    tasks = []
    final = {
        key_of(event)
        for event in events
        if event.action is OrderAction.OUTSIDE_REPORT and event.outside_is_final
    }
    planned = (
        event
        for event in (_with_reported(event, index, final) for event in events)
        if event.action in ORDER_ACTIONS and event.note != SEVERAL_ORDERS
    )
    own_events = _replacements_first(merge_events(planned))
    for position, event in enumerate(with_child_events(own_events, index.values(), source.sent_at)):
        if has_early_rows or event.prior_mrn:
            task = _plan_event(event, known, position, source)
        else:  # the usual case; `_plan_event` would scan all known orders
            task = _task_with_later_event(event, known.get(key_of(event)), known, position, source)
        has_early_rows = has_early_rows or task.after.number_only
        for row in task.combined_rows:
            del known[row.key]
        known[task.after.key] = task.after
        tasks.append(task)
    return tasks


IDENTITY_TAGS = ("SiteID", "PatientMRN", "Accession")


def _with_reported(
    event: OrderEvent, index: Mapping[OrderKey, Order], final: Collection[OrderKey]
) -> OrderEvent:
    """
    Return what an outside report does to its order: a known one is reported elsewhere.

    Only a final or corrected result does that. Without one in the message, a withdrawn report
    returns the order as a new examination does; that of an addendum does not. The values of the
    order do not change.
    """
    if event.action is not OrderAction.OUTSIDE_REPORT:
        return event
    known = index.get(key_of(event))
    applies = (
        known is not None
        and not (known.number_only or known.moved_away)
        and known.state is not OrderState.CANCELLED
    )
    info = {tag: event.clinical_info[tag] for tag in IDENTITY_TAGS if tag in event.clinical_info}
    note = event.note if event.note == SEVERAL_ORDERS else ""
    own = replace(event, clinical_info=info, note=note, outside=None)
    if applies and event.outside_is_final:
        return replace(own, action=OrderAction.REPORTED)
    returns = (
        known is not None
        and known.state in {OrderState.REPORTED, OrderState.ORDERED}
        and event.outside is not None
        and event.outside.is_withdrawn
        and not event.outside.parent
        and key_of(event) not in final
    )
    if applies and returns:
        return replace(own, action=OrderAction.CHANGE, examined=True)
    return replace(own, action=OrderAction.IGNORE)


def is_final_cancellation(task: OrderTask, events: Iterable[OrderEvent]) -> bool:
    """True if an order is cancelled and the message has no other event under its accession."""
    return task.after.state == OrderState.CANCELLED and all(
        event.action in CLOSING_ACTIONS for event in events if key_of(event) == task.after.key
    )


def was_reopened_later(task: OrderTask, source: SourceMessage) -> bool:
    """True if an order was released or examined after this cancellation was sent."""
    before = task.before
    if before is None or task.after.state != OrderState.CANCELLED:
        return False
    return before.is_open and is_earlier(source.sent_at, before.state_changed_at)


def no_effect_code(task: OrderTask, source: SourceMessage) -> str:
    """Return the exception code of an event that does not change its order; '' if it does."""
    event, before, sent_at = task.event, task.before, source.sent_at
    closes = event.action in CLOSING_ACTIONS
    if event.note == FROM_PARENT:
        return ""
    if closes and (before is None or before.number_only):
        return ORDER_UNKNOWN
    if before is not None and _closes_nothing(task):
        return SEVERAL_ORDERS
    if before is None:
        return (
            ""
            if task.step is not OrderStep.NOTHING or event.action is OrderAction.UNLINK
            else SUPERSEDED
        )
    leaves = closes or event.action is OrderAction.REPORTED
    late = is_earlier(sent_at, before.opened_at if leaves else before.state_changed_at)
    late |= event.action in {OrderAction.HOLD, OrderAction.REPORTED} and is_earlier(
        sent_at, before.state_changed_at
    )
    if task.step is OrderStep.NOTHING and task.after.state == OrderState.CANCELLED and not late:
        return "" if event.examined else ORDER_CANCELLED  # reported as examined_after_cancel
    reopens = event.examined or event.action is OrderAction.RELEASE
    if task.step is OrderStep.NOTHING or (task.step is OrderStep.REMEMBER and reopens):
        lost = late
    else:
        launches = task.step in {OrderStep.REGISTER, OrderStep.REPORT_ELSEWHERE}
        overtaken = launches and is_earlier(sent_at, before.tags_sent_at)
        lost = overtaken and differs_from(event, task.after)
    return SUPERSEDED if lost else ""


def _closes_nothing(task: OrderTask) -> bool:
    """True if a cancellation or hold names none of the procedures of its order."""
    before = task.before
    closes = task.event.action in CLOSING_ACTIONS and task.step is OrderStep.REGISTER
    return closes and before is not None and task.after.echo == before.echo


def gets_several_accessions(task: OrderTask) -> bool:
    """
    True if a message gives a procedure steps of several accession numbers, which it had not before.

    Each accession number is an imaging service request of its own (IHE RAD-4): the procedure, its
    report and its result have the first one, so a person must check what becomes of the others.
    """
    if not task.after.is_open or task.event.action in CLOSING_ACTIONS:
        return False
    before = () if task.before is None else task.before.echo
    found = step_accessions(task.after.echo)
    return len(found) > 1 and found != step_accessions(before)


def leaves_children_of_replaced(
    tasks: Iterable[OrderTask], index: Mapping[OrderKey, Order]
) -> bool:
    """True if open orders remain whose parent this message or an earlier one replaced."""
    parent_tasks = [task for task in tasks if involves_parent(task.event)]
    if not parent_tasks:
        return False
    known = {**index, **{task.after.key: task.after for task in parent_tasks}}.values()
    return any(
        leaves_open_children(task.event, known)
        or (task.regroups and has_lost_parent(task.event, known))
        for task in parent_tasks
    )


def _replacements_first(events: Sequence[OrderEvent]) -> list[OrderEvent]:
    """Put replaced orders first: the replacement may have the same accession."""
    return sorted(events, key=lambda event: event.action is not OrderAction.REPLACE)


def _plan_event(
    event: OrderEvent,
    known: Mapping[OrderKey, Order],
    position: int,
    source: SourceMessage,
) -> OrderTask:
    key = key_of(event)
    own = known.get(key)
    rows = list(known.values())
    combined_rows = (
        early_rows(key, order_numbers(event, own), rows, event.prior_mrn) if rows else []
    )
    before = with_early_rows(event, own, combined_rows) if combined_rows else own
    task = _task_with_later_event(event, before, known, position, source)
    return _with_combined_rows(task, own, combined_rows) if combined_rows else task


def _with_combined_rows(
    task: OrderTask, own: Order | None, combined_rows: Sequence[Order]
) -> OrderTask:
    """Choose the step by the state of the order that the rows become."""
    listed = own is not None and own.state == OrderState.ORDERED
    if task.after.state == OrderState.ORDERED:
        return replace(task, step=OrderStep.REGISTER, combined_rows=combined_rows)
    if task.after.state == OrderState.REPORTED:
        return replace(task, step=OrderStep.REPORT_ELSEWHERE, combined_rows=combined_rows)
    return replace(
        task, step=OrderStep.WITHDRAW if listed else task.step, combined_rows=combined_rows
    )


def _task_with_later_event(
    event: OrderEvent,
    before: Order | None,
    known: Mapping[OrderKey, Order],
    position: int,
    source: SourceMessage,
) -> OrderTask:
    task = _task_of(event, before, known, position, source)
    if before is None:
        return task
    after = with_later_event(before, task.after, event, source.sent_at)
    return task if after is task.after else replace(task, after=after)


def _task_of(
    event: OrderEvent,
    before: Order | None,
    known: Mapping[OrderKey, Order],
    position: int,
    source: SourceMessage,
) -> OrderTask:
    step, after = _transition(event, before, known, source)
    later = applicable_later_event(before, event, source.sent_at) if before is not None else None
    if (
        before is not None
        and step is OrderStep.WITHDRAW
        and (parts := uncancelled_procedures(before, event))
    ):
        return OrderTask(
            OrderStep.REGISTER, event, before, with_procedures(before, parts, source.message_id)
        )
    if before is not None and step in {OrderStep.NOTHING, OrderStep.DETACH}:
        return OrderTask(step, event, before, _unchanged_with_numbers(before, event, source))
    base = before or Order(key_of(event), after, source.message_id, 0, position)
    if before is not None and _starts_anew(before, step, source):
        base = Order(key_of(event), after, source.message_id, 0, position)
    if step is OrderStep.REGISTER and later is not None and later.is_hold:
        step, after = OrderStep.REMEMBER, OrderState.HELD
    base = with_state(base, event, before, after, source)
    if later is not None and source.sent_at is not None and after is not OrderState.CANCELLED:
        base = replace(base, state_changed_at=source.sent_at._replace(at=later.at))
    if is_earlier(source.sent_at, base.tags_sent_at, came_first=source.is_behind(before)):
        late = with_older_values(base, event)
        late = replace(late, number_only=is_number_only_after(event, before))
        return OrderTask(step, replace(event, location=""), before, late)
    return OrderTask(step, event, before, _with_event(base, event, before, step, source))


def _starts_anew(before: Order, step: OrderStep, source: SourceMessage) -> bool:
    """True if a cancelled order is ordered again: its earlier values no longer apply."""
    revived = before.state == OrderState.CANCELLED and step is OrderStep.REGISTER
    return revived and not is_earlier(source.sent_at, before.tags_sent_at)


def _with_event(
    base: Order,
    event: OrderEvent,
    before: Order | None,
    step: OrderStep,
    source: SourceMessage,
) -> Order:
    closing = step is OrderStep.WITHDRAW
    echo, tags = updated_values(base, event.echo, event.clinical_info, event.lists)
    keeps_time = source.sent_at is None or not names_procedure(event)
    return replace(
        with_links(base, event, closing=closing),
        placer=event.placer or base.placer,
        filler=event.filler or base.filler,
        tags=tags,
        echo=base.echo if closing and base.echo else echo,
        tags_sent_at=base.tags_sent_at if keeps_time else source.sent_at,
        number_only=is_number_only_after(event, before),
    )


def _unchanged_with_numbers(before: Order, event: OrderEvent, source: SourceMessage) -> Order:
    """
    Keep an order's state and add its numbers.

    A change of a cancelled order also updates its values: a new order may arrive later.
    """
    known = replace(
        before,
        placer=before.placer or event.placer,
        filler=before.filler or event.filler,
        number_only=is_number_only_after(event, before),
    )
    changed = before.state == OrderState.CANCELLED and event.action is OrderAction.CHANGE
    later = is_earlier(before.state_changed_at, source.sent_at)
    if not (changed and later and names_procedure(event)) or before.moved_away:
        return known
    if is_earlier(source.sent_at, before.tags_sent_at):
        return known
    echo, tags = updated_values(before, event.echo, event.clinical_info, event.lists)
    return replace(known, tags=tags, echo=echo, tags_sent_at=source.sent_at)


def _transition(
    event: OrderEvent,
    before: Order | None,
    known: Mapping[OrderKey, Order],
    source: SourceMessage,
) -> Transition:
    """Decide the transition by the order's state; an unknown child takes its parent's state."""
    deciding = before or parent_of(event, known.values())
    if deciding is None:
        return decide(event.action, OrderState.UNKNOWN, source.sent_at, None)
    state = deciding.state if before else OrderState.UNKNOWN
    overtaken = before is None and is_earlier(source.sent_at, deciding.state_changed_at)
    return decide(
        event.action,
        deciding.state if overtaken else state,
        source.sent_at,
        deciding.state_changed_at,
        opened_at=deciding.opened_at if before else None,
        examined=event.examined,
        came_first=source.is_behind(before),
    )
