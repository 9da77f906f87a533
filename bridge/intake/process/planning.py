"""What a message asks for, as tasks: the step for each order, and what will be known of it after.

Pure. Events about one order within a message are one task: several groups may share an
accession, and that is one report.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.intake.process.cancellations import later_word, with_later_word
from bridge.intake.process.early_events import forerunners_of, heard_of, numbers
from bridge.intake.process.link_signals import (
    HELD_LATER,
    has_moved_away,
    is_unordered,
    marked,
    signals_of,
)
from bridge.intake.process.order_hierarchy import (
    OF_PARENT,
    descend,
    leaves_children,
    lost_parent,
    may_be_orphaned,
    parent_of,
)
from bridge.intake.process.order_rules import (
    CLOSING,
    OPEN,
    ORDERS,
    OrderState,
    Rule,
    Step,
    decide,
    turned,
)
from bridge.intake.process.order_values import (
    is_overruled,
    kept,
    left,
    said,
    says_what,
    straggled,
    together,
)
from bridge.store.records.message_time import MessageTime, is_earlier
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.events import OrderAction, OrderEvent

SUPERSEDED = "superseded"
"""The code of a message that a later one made void before it arrived."""

ORDER_UNKNOWN = "order_unknown"
"""The code of a message that ends or holds an order of which no other message is known."""

ORDER_CANCELLED = "order_cancelled"
"""The code of a message that changes, holds or releases a cancelled order."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The message: its row id, and when it was sent (None: missing or not to be trusted)."""

    message_id: int
    sent_at: MessageTime | None

    def is_behind(self, order: IndexedOrder | None) -> bool:
        """Tell whether it came before what was last applied to an order: it is tried again."""
        return order is not None and self.message_id < order.last_message


@dataclass(frozen=True, slots=True)
class Task:
    """
    One order, one step. `before` is None for an order we had not heard of.

    `absorbed` is what we had heard of it under a number, or where its visit was: it is one with it.
    """

    step: Step
    event: OrderEvent
    before: IndexedOrder | None
    after: IndexedOrder
    absorbed: Sequence[IndexedOrder] = ()

    @property
    def regroups(self) -> bool:
        """Whether to look at its signals: it is new to the worklist, or they have changed."""
        if self.step is not Step.REGISTER:
            return False
        return (
            self.before is None
            or bool(self.absorbed)
            or self.before.state != OrderState.ORDERED
            or self.before.signals != self.after.signals
            or self.event.action is OrderAction.LINK
        )


def key_of(event: OrderEvent) -> OrderIndexKey:
    """Give the triple that an event is about."""
    return OrderIndexKey(event.site, event.mrn, event.accession)


def fold(events: Iterable[OrderEvent]) -> list[OrderEvent]:
    """Make one event of several about the same order; the first group's values win."""
    folded: dict[tuple[OrderAction, OrderIndexKey], OrderEvent] = {}
    for event in events:
        which = (event.action, key_of(event))
        first = folded.get(which)
        folded[which] = event if first is None else together(first, event)
    return list(folded.values())


def plan(
    events: Sequence[OrderEvent],
    index: Mapping[OrderIndexKey, IndexedOrder],
    occasion: Occasion,
    *,
    heard: bool = False,
) -> list[Task]:
    """
    Decide each order event of a message, in order, each on what the one before left.

    `heard`: there may be something in the index that was said of its orders by a number alone.
    """
    known = dict(index)
    tasks = []
    asked = _in_turn(fold(each for each in events if each.action in ORDERS))
    for place, event in enumerate(descend(asked, index.values(), occasion.sent_at)):
        if heard or event.prior_mrn:
            task = _task(event, known, place, occasion)
        else:  # nearly always: who looks for it goes through all orders of a batch
            task = _step(event, known.get(key_of(event)), known, place, occasion)
        heard = heard or is_unordered(task.after)
        for each in task.absorbed:
            del known[each.key]
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


def without_effect(task: Task, occasion: Occasion) -> str:
    """Give the code of an event that leaves its order as it is; '' where it does what it asks."""
    event, before, sent_at = task.event, task.before, occasion.sent_at
    closes = event.action in CLOSING
    if event.note == OF_PARENT:
        return ""
    if closes and (before is None or is_unordered(before)):
        return ORDER_UNKNOWN
    if before is None:
        return (
            ""
            if task.step is not Step.NOTHING or event.action is OrderAction.UNLINK
            else SUPERSEDED
        )
    late = is_earlier(sent_at, before.opened_at if closes else before.turned_at)
    late |= event.action is OrderAction.HOLD and is_earlier(sent_at, before.turned_at)
    if task.step is Step.NOTHING and task.after.state == OrderState.CANCELLED and not late:
        return "" if event.examined else ORDER_CANCELLED  # that has a code of its own
    reopens = event.examined or event.action is OrderAction.RELEASE
    if task.step is Step.NOTHING or (task.step is Step.REMEMBER and reopens):
        return SUPERSEDED if late else ""
    overtaken = task.step is Step.REGISTER and is_earlier(sent_at, before.said_at)
    return SUPERSEDED if overtaken and is_overruled(event, task.after) else ""


def leaves_orphans(tasks: Iterable[Task], index: Mapping[OrderIndexKey, IndexedOrder]) -> bool:
    """Tell whether orders stand after a message whose parent was replaced, before it or by it."""
    asked = [task for task in tasks if may_be_orphaned(task.event)]
    if not asked:  # hardly ever anything else
        return False
    known = {**index, **{task.after.key: task.after for task in asked}}.values()
    return any(
        leaves_children(task.event, known) or (task.regroups and lost_parent(task.event, known))
        for task in asked
    )


def _in_turn(events: Sequence[OrderEvent]) -> list[OrderEvent]:
    """Take what is replaced off first: what takes its place may have the same accession."""
    return sorted(events, key=lambda each: each.action is not OrderAction.REPLACE)


def _task(
    event: OrderEvent, known: Mapping[OrderIndexKey, IndexedOrder], place: int, occasion: Occasion
) -> Task:
    key = key_of(event)
    own = known.get(key)
    rows = list(known.values())
    absorbed = forerunners_of(key, numbers(event, own), rows, event.prior_mrn) if rows else []
    before = heard_of(event, own, absorbed) if absorbed else own
    task = _step(event, before, known, place, occasion)
    return _with_all(task, own, absorbed) if absorbed else task


def _with_all(task: Task, own: IndexedOrder | None, absorbed: Sequence[IndexedOrder]) -> Task:
    """Let what was said before be done to the order as it stands under its own accession."""
    listed = own is not None and own.state == OrderState.ORDERED
    if task.after.state == OrderState.ORDERED:
        return replace(task, step=Step.REGISTER, absorbed=absorbed)
    return replace(task, step=Step.WITHDRAW if listed else task.step, absorbed=absorbed)


def _step(
    event: OrderEvent,
    before: IndexedOrder | None,
    known: Mapping[OrderIndexKey, IndexedOrder],
    place: int,
    occasion: Occasion,
) -> Task:
    task = _said(event, before, known, place, occasion)
    if before is None:
        return task
    after = with_later_word(before, task.after, event, occasion.sent_at)
    return task if after is task.after else replace(task, after=after)


def _said(
    event: OrderEvent,
    before: IndexedOrder | None,
    known: Mapping[OrderIndexKey, IndexedOrder],
    place: int,
    occasion: Occasion,
) -> Task:
    step, after = _decided(event, before, known, occasion)
    word = later_word(before, event, occasion.sent_at) if before is not None else None
    if before is not None and step is Step.WITHDRAW and (parts := left(before, event)):
        return Task(Step.REGISTER, event, before, kept(before, parts, occasion.message_id))
    if before is not None and step in {Step.NOTHING, Step.DETACH}:
        return Task(step, event, before, _unseen(before, event, occasion))
    base = before or IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    if before is not None and _is_anew(before, step, occasion):
        base = IndexedOrder(key_of(event), after, occasion.message_id, 0, place)
    if step is Step.REGISTER and word is not None and word.kind == HELD_LATER:
        step, after = Step.REMEMBER, OrderState.HELD
    base = turned(base, event, before, after, occasion)
    if word is not None and occasion.sent_at is not None and after is not OrderState.CANCELLED:
        base = replace(base, turned_at=occasion.sent_at._replace(at=word.signal))
    if is_earlier(occasion.sent_at, base.said_at, came_first=occasion.is_behind(before)):
        late = straggled(base, event)
        late = replace(late, signals=marked(late.signals, event, before))
        return Task(step, replace(event, location=""), before, late)
    return Task(step, event, before, _newer(base, event, before, step, occasion))


def _is_anew(before: IndexedOrder, step: Step, occasion: Occasion) -> bool:
    """Tell whether an order begins again: nothing counts that was said of the cancelled one."""
    revived = before.state == OrderState.CANCELLED and step is Step.REGISTER
    return revived and not is_earlier(occasion.sent_at, before.said_at)


def _newer(
    base: IndexedOrder,
    event: OrderEvent,
    before: IndexedOrder | None,
    step: Step,
    occasion: Occasion,
) -> IndexedOrder:
    """Lay what an event says over what is known of its order."""
    closing = step is Step.WITHDRAW
    echo, tags = said(base, event.echo, event.clinical_info)
    unsaid = occasion.sent_at is None or not says_what(event)
    return replace(
        base,
        placer=event.placer or base.placer,
        filler=event.filler or base.filler,
        tags=tags,
        echo=base.echo if closing and base.echo else echo,
        said_at=base.said_at if unsaid else occasion.sent_at,
        signals=marked(signals_of(base, event, closing=closing), event, before),
    )


def _unseen(before: IndexedOrder, event: OrderEvent, occasion: Occasion) -> IndexedOrder:
    """
    Keep what is said of an order that stays as it is: its numbers, and that it was ordered.

    A cancelled one may have been ordered again before it was changed: the change counts then.
    """
    known = replace(
        before,
        placer=before.placer or event.placer,
        filler=before.filler or event.filler,
        signals=marked(before.signals, event, before),
    )
    changed = before.state == OrderState.CANCELLED and event.action is OrderAction.CHANGE
    later = is_earlier(before.turned_at, occasion.sent_at)
    if not (changed and later and says_what(event)) or has_moved_away(before):
        return known
    if is_earlier(occasion.sent_at, before.said_at):
        return known
    echo, tags = said(before, event.echo, event.clinical_info)
    return replace(known, tags=tags, echo=echo, said_at=occasion.sent_at)


def _decided(
    event: OrderEvent,
    before: IndexedOrder | None,
    known: Mapping[OrderIndexKey, IndexedOrder],
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
