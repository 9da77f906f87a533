"""
What a message asks for, as tasks: the step for each order, and what will be known of it after.

Pure. Events about one order within a message are one task: several groups may share an
accession, and that is one report.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.intake.family import descend, parent_of
from bridge.intake.order_rules import (
    CLOSING,
    OPEN,
    ORDERING,
    OrderState,
    Rule,
    Step,
    decide,
    is_earlier,
)
from bridge.intake.signals import lasting, signals_of
from bridge.store.order_index import IndexedOrder, Key
from mappings.events import Action, OrderEvent
from mappings.procedures import Procedure, joined, procedures_of, remaining, updated

DESCRIPTION = "StudyDescription"

PATIENTS = frozenset({Action.PATIENT_UPDATE, Action.PATIENT_MERGE, Action.VISIT_MOVE})
"""Actions on a patient, whatever orders there are."""

ORDERS = frozenset(Action) - PATIENTS - {Action.IGNORE}


@dataclass(frozen=True, slots=True)
class Occasion:
    """The message: its row id, and when its sender says it was sent (ms; None: unsaid)."""

    message_id: int
    sent_at: int | None

    def is_behind(self, order: IndexedOrder | None) -> bool:
        """Tell whether it came before what was last applied to an order: it is tried again."""
        return order is not None and self.message_id < order.last_message


@dataclass(frozen=True, slots=True)
class Task:
    """One order, one step. `before` is None for an order we had not heard of."""

    step: Step
    event: OrderEvent
    before: IndexedOrder | None
    after: IndexedOrder

    @property
    def regroups(self) -> bool:
        """Whether to look at its signals: it is new to the worklist, or they have changed."""
        if self.step is not Step.REGISTER:
            return False
        return (
            self.before is None
            or self.before.state != OrderState.ORDERED
            or self.before.signals != self.after.signals
            or self.event.action is Action.LINK
        )


def key_of(event: OrderEvent) -> Key:
    """Give the triple that an event is about."""
    return Key(event.site, event.mrn, event.accession)


def fold(events: Iterable[OrderEvent]) -> list[OrderEvent]:
    """Make one event of several about the same order; the first group's values win."""
    folded: dict[tuple[Action, Key], OrderEvent] = {}
    for event in events:
        which = (event.action, key_of(event))
        first = folded.get(which)
        folded[which] = event if first is None else _together(first, event)
    return list(folded.values())


def _together(first: OrderEvent, second: OrderEvent) -> OrderEvent:
    head, parts = _procedures(first)
    more = [each for each in _procedures(second)[1] if each not in parts]
    echo, description = joined(head, [*parts, *more])
    info = _merged(second.clinical_info, first.clinical_info)
    return replace(
        first,
        clinical_info=info | ({DESCRIPTION: description} if description else {}),
        echo=echo,
        link_signals=tuple(dict.fromkeys([*first.link_signals, *second.link_signals])),
        placer=first.placer or second.placer,
        filler=first.filler or second.filler,
    )


def _procedures(event: OrderEvent) -> tuple[tuple[str, ...], list[Procedure]]:
    return procedures_of(event.echo, str(event.clinical_info.get(DESCRIPTION, "")))


def _merged(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Lay newer tags over older ones; Metadata key by key."""
    merged = {**older, **newer}
    if "Metadata" in older and "Metadata" in newer:
        merged["Metadata"] = {**older["Metadata"], **newer["Metadata"]}
    return merged


def plan(
    events: Sequence[OrderEvent], index: Mapping[Key, IndexedOrder], occasion: Occasion
) -> list[Task]:
    """Decide each order event of a message, in order, each on what the one before left."""
    known = dict(index)
    tasks = []
    asked = _in_turn(fold(each for each in events if each.action in ORDERS))
    for place, event in enumerate(descend(asked, index.values())):
        task = _task(event, known, place, occasion)
        known[task.after.key] = task.after
        tasks.append(task)
    return tasks


def is_over(task: Task, events: Iterable[OrderEvent]) -> bool:
    """Tell whether an order is cancelled, and the message has nothing else under its accession."""
    own = [each for each in events if key_of(each) == task.after.key]
    return task.after.state == OrderState.CANCELLED and all(e.action in CLOSING for e in own)


def overtook(task: Task, occasion: Occasion) -> bool:
    """Tell whether an order was released or examined after it had been cancelled."""
    before = task.before
    if before is None or task.after.state != OrderState.CANCELLED:
        return False
    return OrderState(before.state) in OPEN and is_earlier(occasion.sent_at, before.turned_at)


def _in_turn(events: Sequence[OrderEvent]) -> list[OrderEvent]:
    """Take what is replaced off first: what takes its place may have the same accession."""
    return sorted(events, key=lambda each: each.action is not Action.REPLACE)


def _task(
    event: OrderEvent, known: Mapping[Key, IndexedOrder], place: int, occasion: Occasion
) -> Task:
    before = known.get(key_of(event))
    state = OrderState(before.state) if before else OrderState.UNKNOWN
    step, after = _decided(event, before, known, occasion)
    if before is not None and step is Step.WITHDRAW and (left := _left(before, event)):
        return _without_some(event, before, left, occasion)
    if before is not None and step in {Step.NOTHING, Step.DETACH}:
        return Task(step, event, before, before)
    base = before or IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    revived = state is OrderState.CANCELLED and step is Step.REGISTER
    if revived:  # an order anew: nothing of the cancelled one counts
        base = IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    closing, opened = step is Step.WITHDRAW, event.action in ORDERING
    base = replace(
        base,
        state=after,
        last_message=occasion.message_id,
        turned_at=_turned_at(state, after, base, event, occasion),
        opened_at=_newest(base.opened_at, occasion.sent_at) if opened else base.opened_at,
    )
    if is_earlier(occasion.sent_at, base.said_at, came_first=occasion.is_behind(before)):
        return _straggling(step, event, before, base)
    echo, tags = _said(base, event)
    return Task(
        step,
        event,
        before,
        replace(
            base,
            placer=event.placer or base.placer,
            filler=event.filler or base.filler,
            tags=tags,
            echo=base.echo if closing and base.echo else echo,
            said_at=base.said_at if occasion.sent_at is None else occasion.sent_at,
            signals=signals_of(base, event, closing=closing),
        ),
    )


def _decided(
    event: OrderEvent,
    before: IndexedOrder | None,
    known: Mapping[Key, IndexedOrder],
    occasion: Occasion,
) -> Rule:
    """Decide on what is known of the order; a child that comes late, on what is of its parent."""
    stands = before or parent_of(event, known.values())
    if stands is None:
        return decide(event.action, OrderState.UNKNOWN, occasion.sent_at, None)
    state = OrderState(stands.state) if before else OrderState.UNKNOWN
    overtaken = before is None and is_earlier(occasion.sent_at, stands.turned_at)
    return decide(
        event.action,
        OrderState(stands.state) if overtaken else state,
        occasion.sent_at,
        stands.turned_at,
        opened_at=stands.opened_at if before else None,
        examined=event.examined,
        came_first=occasion.is_behind(before),
    )


def _straggling(
    step: Step, event: OrderEvent, before: IndexedOrder | None, base: IndexedOrder
) -> Task:
    """
    Take of a message that was overtaken by a newer one only what that one was silent about.

    What the newer one said of the order stands; the step is what the state demands.
    """
    tags = _merged(event.clinical_info, base.tags)
    head, known = procedures_of(base.echo, str(base.tags.get(DESCRIPTION, "")))
    more = remaining(_procedures(event)[1], known)
    echo, description = joined(head, [*known, *more])
    after = replace(
        base,
        placer=base.placer or event.placer,
        filler=base.filler or event.filler,
        tags={**tags, DESCRIPTION: description} if known and more and description else tags,
        echo=echo if known else base.echo or event.echo,
        signals=base.signals | lasting(base.signals, event),
    )
    return Task(step, replace(event, location=""), before, after)


def _said(base: IndexedOrder, event: OrderEvent) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Give the echo and the tags of an order after a message about it, or about a part of it."""
    tags = _merged(base.tags, event.clinical_info)
    if not base.echo:
        return event.echo, tags
    _, known = procedures_of(base.echo, str(base.tags.get(DESCRIPTION, "")))
    head, said = _procedures(event)
    parts = updated(known, said) if said else known
    echo, description = joined(head, parts)
    if len(parts) <= len(said):
        return echo or base.echo, tags
    return echo, {**tags, DESCRIPTION: description} if description else tags


def _left(before: IndexedOrder, event: OrderEvent) -> list[Procedure]:
    """Give the procedures of an order that a cancellation or hold does not name."""
    _, known = procedures_of(before.echo, str(before.tags.get(DESCRIPTION, "")))
    return remaining(known, _procedures(event)[1]) if len(known) > 1 else []


def _without_some(
    event: OrderEvent, before: IndexedOrder, left: Sequence[Procedure], occasion: Occasion
) -> Task:
    """Keep an order for the procedures that are left of it."""
    head, _ = procedures_of(before.echo, "")
    echo, description = joined(head, left)
    after = replace(
        before,
        last_message=occasion.message_id,
        tags={**before.tags, DESCRIPTION: description},
        echo=echo,
    )
    return Task(Step.REGISTER, event, before, after)


def _newest(known: int | None, sent_at: int | None) -> int | None:
    """Give the later of a known time and a message's."""
    if sent_at is None or known is None:
        return known if sent_at is None else sent_at
    return max(known, sent_at)


def _turned_at(
    state: OrderState, after: OrderState, base: IndexedOrder, event: OrderEvent, occasion: Occasion
) -> int | None:
    """Give the time of the word by which an order is closed, or was put back."""
    stays = state is after or (state in OPEN and after in OPEN)
    known = base.turned_at if stays else None
    turns = event.examined or event.action is Action.RELEASE or event.action in CLOSING
    return _newest(known, occasion.sent_at) if turns else known
