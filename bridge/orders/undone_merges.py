"""
Undone merges: which orders return to the freed number, and as what.

An order returns if the merge moved it, or if it was sent with the freed number while this led to
the survivor. It gets the demographics back that it had before. Everything else stays as it is now:
the merge changed whose the order is, not what is to be examined.

What an order had before is stored for each number that it left (`FormerOrder`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.orders.order import Order, OrderState, Patient, merged_hash
from bridge.orders.patients import DEMOGRAPHICS, MergePointer, Separation, contradicts
from bridge.orders.times import MessageTime, is_earlier
from mappings.hl7.path import Path
from mappings.inbound.events import OrderEvent
from mappings.inbound.procedures import replace_identifiers
from mappings.outbound.echo import Echo

_ON_WORKLIST = frozenset({OrderState.ORDERED, OrderState.REPORTED})
_SENT = {
    "PatientName": Path.parse("PID-5"),
    "PatientBirthDate": Path.parse("PID-7"),
    "PatientAge": Path.parse("PID-7"),
    "PatientSex": Path.parse("PID-8"),
    "Race": Path.parse("PID-10"),
    "Ethnicity": Path.parse("PID-22"),
}


@dataclass(frozen=True, slots=True)
class FormerOrder:
    """
    An order under a merged number: its demographics, and the segments with the number.

    `was_moved` is true if the order was known under this number, and a merge moved it. Otherwise
    the order was sent with the number after the merge, and `demographics` are those in the message.
    """

    was_moved: bool
    demographics: Mapping[str, Any] = field(repr=False)
    echo: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ReturningOrder:
    """An order of a survivor, and what it becomes when the merge is undone."""

    before: Order
    after: Order


@dataclass(frozen=True, slots=True)
class UndoneMerge:
    """
    A merge that the report engine has undone.

    `moved` has the report of each order that returned, by accession, and `kept` the accessions of
    those that the engine left with the survivor. It does not know all orders. `chosen` are those
    that stay because an operator chose so.
    """

    site: str
    prior_mrn: str
    moved: Mapping[str, str] = field(default_factory=dict)
    kept: Collection[str] = ()
    chosen: Collection[str] = ()

    def result(self, order: ReturningOrder) -> Order | None:
        """Return what an order becomes; None if it stays with the survivor."""
        accession = order.before.key.accession
        if accession in self.moved:
            has_report = bool(order.after.report_id and self.moved[accession])
            report_id = self.moved[accession] if has_report else order.after.report_id
            return replace(order.after, report_id=report_id)
        stays = accession in self.kept or accession in self.chosen
        if stays or order.before.state in _ON_WORKLIST:
            return None
        return order.after


def merge_to_undo(
    event: OrderEvent, pointers: Mapping[Patient, MergePointer]
) -> MergePointer | None:
    """
    Return the merge that an event undoes; None if the two patients are not merged.

    The patient of the event gets its identifier back from the prior patient. In a mutual event it
    may be either of the two. A number that was merged into another one in PID-3 follows this one.
    """
    if event.mrn == event.prior_mrn:
        return None
    own, other = (pointers.get((event.site, mrn)) for mrn in (event.mrn, event.prior_mrn))
    survivor = {own.mrn if own else event.mrn, other.mrn if other else event.prior_mrn}
    if len(survivor) != 1:
        return None
    if own and own.merged_into in event.other_mrns and (event.site, own.merged_into) in pointers:
        return None
    if own and not (event.is_mutual and other and other.merged_into == event.mrn):
        return own
    return other if event.is_mutual else None


def frees_other_number(event: OrderEvent, pointers: Mapping[Patient, MergePointer]) -> bool:
    """True if an event undoes the merge of another number of the patient in PID-3."""
    return any(
        merge_to_undo(replace(event, mrn=number, other_mrns=()), pointers) is not None
        for number in event.other_mrns
    )


def is_undone_by_later(
    event: OrderEvent, sent_at: MessageTime | None, separations: Iterable[Separation]
) -> bool:
    """True if a merge was undone by a message that was sent after it and arrived before it."""
    named = {event.mrn, event.merged_into}
    return any(
        (found.site, found.prior_mrn) == (event.site, event.prior_mrn)
        and found.mrn in named
        and is_earlier(sent_at, found.sent)
        for found in separations
    )


def separations_of(
    event: OrderEvent, sent_at: MessageTime | None, pointer: MergePointer | None
) -> list[Separation]:
    """Return the pairs of numbers that an undo separates; none if its time is not reliable."""
    if sent_at is None:
        return []
    pairs = {(event.mrn, event.prior_mrn)}
    if event.is_mutual:
        pairs.add((event.prior_mrn, event.mrn))
    if pointer is not None:
        pairs |= {(pointer.prior_mrn, number) for number in (pointer.mrn, pointer.merged_into)}
    return [Separation(event.site, *pair, sent_at) for pair in sorted(pairs)]


def returning_order(
    order: Order,
    prior_mrn: str,
    through: Collection[str],
    former: Mapping[str, FormerOrder],
    known: Mapping[str, Any],
) -> ReturningOrder | None:
    """
    Return what an order of the survivor becomes; None if its former state is not known.

    `through` are the numbers that lead to the freed one again, `former` is what the order was under
    the numbers that it left, and `known` are the demographics of the freed number. An order that
    was never known under this number gets them, completed by those in its message, unless this
    names another person.
    """
    left = [number for number in (prior_mrn, *sorted(through)) if number in former]
    if not left:
        return None
    before = former[left[0]]
    if left[0] != prior_mrn or not before.was_moved:
        if not known or (not before.was_moved and contradicts(before.demographics, [known])):
            return None
        own = {} if before.was_moved else _unnamed(before.demographics)
        before = replace(before, demographics={**own, **known})
    others = {tag: value for tag, value in order.tags.items() if tag not in DEMOGRAPHICS}
    after = replace(
        order,
        key=replace(order.key, mrn=prior_mrn),
        tags={**others, **before.demographics},
        echo=replace_identifiers(order.echo, before.echo),
        merged_from=order.merged_from & frozenset(map(merged_hash, through)),
    )
    return ReturningOrder(order, after)


def _unnamed(demographics: Mapping[str, Any]) -> dict[str, Any]:
    return {tag: value for tag, value in demographics.items() if tag != "PatientName"}


def sent_demographics(order: Order) -> dict[str, Any]:
    """
    Return the demographics that a new order was sent with.

    The survivor's values complete those of an order. What was sent does not differ from them, or
    the message would wait.
    """
    echo = Echo(order.echo)
    return {
        tag: order.tags[tag]
        for tag, path in _SENT.items()
        if tag in order.tags and any(echo.texts(path))
    }
