"""
What a message asks for, as tasks: the step for each order, and what will be known of it after.

Pure. Events about one order within a message are one task: several groups may share an
accession, and that is one report.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.intake.identity import signal
from bridge.intake.order_rules import OrderState, Step, decide
from bridge.store.order_index import IndexedOrder, Key, Signal
from mappings.events import Action, OrderEvent
from mappings.procedures import Procedure, joined, procedures_of, remaining, updated

KEPT = frozenset({"study-uid", "accession"})
"""Signals that are values of the order: a message that is silent about them changes nothing."""

DESCRIPTION = "StudyDescription"

JOINED = "message-group"
"""Orders that once came in one message stay together when one of them changes alone."""

ORDERS = frozenset(Action) - {Action.PATIENT_UPDATE, Action.PATIENT_MERGE, Action.IGNORE}


@dataclass(frozen=True, slots=True)
class Occasion:
    """The message: its row id, and when its sender says it was sent (ms; None: unsaid)."""

    message_id: int
    sent_at: int | None


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
    for place, event in enumerate(fold(each for each in events if each.action in ORDERS)):
        task = _task(event, known.get(key_of(event)), place, occasion)
        known[task.after.key] = task.after
        tasks.append(task)
    return tasks


def _task(event: OrderEvent, before: IndexedOrder | None, place: int, occasion: Occasion) -> Task:
    state = OrderState(before.state) if before else OrderState.UNKNOWN
    closed_at = before.closed_at if before else None
    step, after = decide(event.action, state, occasion.sent_at, closed_at)
    if before is not None and step is Step.WITHDRAW and (left := _left(before, event)):
        return _without_some(event, before, left, occasion)
    if before is not None and step in {Step.NOTHING, Step.DETACH}:
        return Task(step, event, before, before)
    base = before or IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    revived = state is OrderState.CANCELLED and step is Step.REGISTER
    if revived:  # an order anew: nothing of the cancelled one counts
        base = IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    closing = step is Step.WITHDRAW
    echo, tags = _said(base, event)
    return Task(
        step,
        event,
        before,
        replace(
            base,
            state=after,
            last_message=occasion.message_id,
            placer=event.placer or base.placer,
            filler=event.filler or base.filler,
            tags=tags,
            echo=base.echo if closing and base.echo else echo,
            closed_at=occasion.sent_at if closing else _closed_at(after, base),
            signals=signals_after(base.signals, event),
        ),
    )


def _said(base: IndexedOrder, event: OrderEvent) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Give the echo and the tags of an order after a message about it, or about a part of it."""
    tags = _merged(base.tags, event.clinical_info)
    if not base.echo:
        return event.echo, tags
    _, known = procedures_of(base.echo, str(base.tags.get(DESCRIPTION, "")))
    head, said = _procedures(event)
    parts = updated(known, said) if said else known
    if len(parts) <= len(said):
        return event.echo or base.echo, tags
    echo, description = joined(head, parts)
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


def _closed_at(after: OrderState, base: IndexedOrder) -> int | None:
    return base.closed_at if after is OrderState.HELD else None


def signals_after(before: frozenset[Signal], event: OrderEvent) -> frozenset[Signal]:
    """
    Give the signals of an order after an event about it.

    A value that the message does not repeat stays (`KEPT`), a group that it was sent in
    stays, any other signal that is gone is gone.
    """
    shown = frozenset(
        Signal(each.kind, signal(each.kind, each.value)) for each in event.link_signals
    )
    kinds = {each.kind for each in shown}
    kept = {
        each
        for each in before
        if each.kind == JOINED or (each.kind in KEPT and each.kind not in kinds)
    }
    return shown | kept
