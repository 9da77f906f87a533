"""
Undone merges: which orders return to the freed number, and as what.

An order returns if the merge moved it, or if it was sent with the freed number while this led to
the survivor. It gets the demographics back that it had before. Everything else stays as it is now:
the merge changed whose the order is, not what is to be examined.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.orders.order import Order, OrderState, merged_hash
from bridge.orders.patients import DEMOGRAPHICS, contradicts
from mappings.hl7.path import Path
from mappings.inbound.procedures import replace_identifiers
from mappings.outbound.echo import Echo

_ON_WORKLIST = frozenset({OrderState.ORDERED, OrderState.REPORTED})
_NUMBERS = Path.parse("PID-3")
_SENT = {
    "PatientBirthDate": Path.parse("PID-7"),
    "PatientAge": Path.parse("PID-7"),
    "PatientSex": Path.parse("PID-8"),
    "Race": Path.parse("PID-10"),
    "Ethnicity": Path.parse("PID-22"),
}


@dataclass(frozen=True, slots=True)
class FormerOrder:
    """What a merge replaced in an order: its demographics, and the segments with the number."""

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
    those that the engine left with the survivor. It does not know all orders.
    """

    site: str
    prior_mrn: str
    moved: Mapping[str, str] = field(default_factory=dict)
    kept: Collection[str] = ()

    def result(self, order: ReturningOrder) -> Order | None:
        """Return what an order becomes; None if it stays with the survivor."""
        accession = order.before.key.accession
        if accession in self.moved:
            has_report = bool(order.after.report_id and self.moved[accession])
            report_id = self.moved[accession] if has_report else order.after.report_id
            return replace(order.after, report_id=report_id)
        if accession in self.kept or order.before.state in _ON_WORKLIST:
            return None
        return order.after


def returning_order(
    order: Order,
    prior_mrn: str,
    numbers: Collection[str],
    former: FormerOrder | None,
    demographics: Mapping[str, Any],
) -> ReturningOrder | None:
    """
    Return what an order of the survivor becomes; None if its former state is not known.

    `numbers` are the freed number and those that lead to it. `former` is what the merge replaced.
    An order that arrived later has none: it gets the `demographics` that were known of the freed
    number, if it was sent with one of the numbers and does not name another person.
    """
    if former is None:
        was_sent_with_it = not Echo(order.echo).texts(_NUMBERS).isdisjoint(numbers)
        if not was_sent_with_it or not demographics or contradicts(order.tags, [demographics]):
            return None
        former = FormerOrder({**_sent_demographics(order), **demographics})
    others = {tag: value for tag, value in order.tags.items() if tag not in DEMOGRAPHICS}
    own = frozenset(map(merged_hash, set(numbers) - {prior_mrn}))
    after = replace(
        order,
        key=replace(order.key, mrn=prior_mrn),
        tags={**others, **former.demographics},
        echo=replace_identifiers(order.echo, former.echo),
        merged_from=order.merged_from & own,
    )
    return ReturningOrder(order, after)


def _sent_demographics(order: Order) -> dict[str, Any]:
    """
    Return the demographics that an order was sent with, except for the name.

    The survivor's values complete those of an order. What was sent does not differ from them, or
    the message would wait.
    """
    echo = Echo(order.echo)
    return {
        tag: order.tags[tag]
        for tag, path in _SENT.items()
        if tag in order.tags and any(echo.texts(path))
    }
