"""
The state table of a report (interface document, States and transitions), as a table.

For each status and event the branches are tried in order: the first whose facts all hold wins.
None, and the event is refused as `REFUSALS` says. Facts are gathered, and effects carried out,
by the services.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import Status

ORDERED, DRAFT, PRELIMINARY, FINAL, ADDENDUM = Status


class Event(StrEnum):
    """What may be wanted of a report."""

    OPEN = "open"  # a launch, or a launch link opened
    SAVE = "save"
    SIGN = "sign"
    UNSIGN = "unsign"
    PRELIM = "prelim"
    PRELIM_WITHDRAW = "withdraw prelim"
    RESET = "reset"
    UNASSIGN = "unassign"
    DISCARD = "discard"  # in the app
    DELETE = "delete"
    UPDATE_FILES = "update files"
    ADDENDUM_CREATE = "create addendum"
    ADDENDUM_SAVE = "save addendum"
    ADDENDUM_CANCEL = "cancel addendum"
    ADDENDUM_SIGN = "sign addendum"  # in the app
    ADDENDUM_RELEASE = "release addendum"  # POST /api/report/addendum/sign
    ADDENDUM_UNSIGN = "unsign addendum"


class Fact(StrEnum):
    """What the branches ask about."""

    SITE_COOLS = "the site has a sign delay"
    COOLING = "the report's own cooling period runs"
    IGNORES_DELAY = "ignoreSignDelay is true"
    PRELIM_READ = "an active preliminary read exists"
    OTHER_PRELIM_READ = "more than one active preliminary read exists"
    FROM_ORDER = "the report began as an order"
    CONTENT = "the report has content"
    OPEN_ADDENDUM = "an addendum is being written"
    SIGNED_ADDENDUM = "a signed addendum exists"
    OTHER_SIGNED_ADDENDUM = "more than one signed addendum exists"
    ADDENDUM_COOLING = "the newest signed addendum's cooling period runs"


class Part(StrEnum):
    """What an event clears."""

    OWNER = "owner"
    CONTENT = "content"
    SIGNATURE = "signature"
    LATER_ADDENDA = "addenda, billing codes and shares made after signing"


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a report goes when all these facts hold; `to` None means that it is removed."""

    to: Status | None
    when: frozenset[Fact] = frozenset()
    clears: frozenset[Part] = frozenset()


def _to(to: Status | None, *when: Fact, clears: tuple[Part, ...] = ()) -> Branch:
    return Branch(to, frozenset(when), frozenset(clears))


_EMPTIED = (Part.OWNER, Part.CONTENT)
_UNSIGNED = (Part.SIGNATURE, Part.LATER_ADDENDA)
_UNSIGN = (
    _to(PRELIMINARY, Fact.COOLING, Fact.PRELIM_READ, clears=_UNSIGNED),
    _to(DRAFT, Fact.COOLING, clears=_UNSIGNED),
)

TRANSITIONS: Mapping[tuple[Status, Event], tuple[Branch, ...]] = {
    (ORDERED, Event.OPEN): (_to(DRAFT),),
    (DRAFT, Event.OPEN): (_to(DRAFT),),
    (PRELIMINARY, Event.OPEN): (_to(PRELIMINARY),),
    (FINAL, Event.OPEN): (_to(FINAL),),
    (ADDENDUM, Event.OPEN): (_to(ADDENDUM),),
    (DRAFT, Event.SAVE): (_to(DRAFT),),
    (PRELIMINARY, Event.SAVE): (_to(PRELIMINARY),),
    (DRAFT, Event.SIGN): (_to(FINAL),),
    (PRELIMINARY, Event.SIGN): (_to(FINAL),),
    # ends the cooling period; signer, moment and text stay as they are
    (FINAL, Event.SIGN): (_to(FINAL, Fact.COOLING, Fact.IGNORES_DELAY),),
    (ADDENDUM, Event.SIGN): (_to(ADDENDUM, Fact.COOLING, Fact.IGNORES_DELAY),),
    (FINAL, Event.UNSIGN): _UNSIGN,
    (ADDENDUM, Event.UNSIGN): _UNSIGN,
    (DRAFT, Event.PRELIM): (_to(PRELIMINARY),),
    (PRELIMINARY, Event.PRELIM): (_to(PRELIMINARY),),
    (PRELIMINARY, Event.PRELIM_WITHDRAW): (_to(PRELIMINARY, Fact.OTHER_PRELIM_READ), _to(DRAFT)),
    (DRAFT, Event.RESET): (_to(ORDERED, Fact.FROM_ORDER, clears=_EMPTIED),),
    # unassigned, so that it can be linked again
    (ORDERED, Event.RESET): (_to(ORDERED, Fact.CONTENT, clears=_EMPTIED),),
    (DRAFT, Event.UNASSIGN): (_to(ORDERED, clears=(Part.OWNER,)),),
    (DRAFT, Event.DISCARD): (_to(ORDERED, Fact.FROM_ORDER, clears=_EMPTIED), _to(None)),
    (ORDERED, Event.DELETE): (_to(None),),
    (DRAFT, Event.DELETE): (_to(None),),
    (PRELIMINARY, Event.DELETE): (_to(None),),
    (ORDERED, Event.UPDATE_FILES): (_to(ORDERED),),
    (DRAFT, Event.UPDATE_FILES): (_to(DRAFT),),
    (PRELIMINARY, Event.UPDATE_FILES): (_to(PRELIMINARY),),
    (FINAL, Event.ADDENDUM_CREATE): (_to(FINAL),),
    (ADDENDUM, Event.ADDENDUM_CREATE): (_to(ADDENDUM),),
    (FINAL, Event.ADDENDUM_SAVE): (_to(FINAL, Fact.OPEN_ADDENDUM),),
    (ADDENDUM, Event.ADDENDUM_SAVE): (_to(ADDENDUM, Fact.OPEN_ADDENDUM),),
    (FINAL, Event.ADDENDUM_CANCEL): (_to(FINAL, Fact.OPEN_ADDENDUM),),
    (ADDENDUM, Event.ADDENDUM_CANCEL): (_to(ADDENDUM, Fact.OPEN_ADDENDUM),),
    (FINAL, Event.ADDENDUM_SIGN): (_to(ADDENDUM, Fact.OPEN_ADDENDUM),),
    (ADDENDUM, Event.ADDENDUM_SIGN): (_to(ADDENDUM, Fact.OPEN_ADDENDUM),),
    (ADDENDUM, Event.ADDENDUM_RELEASE): (_to(ADDENDUM, Fact.SITE_COOLS, Fact.ADDENDUM_COOLING),),
    (ADDENDUM, Event.ADDENDUM_UNSIGN): (
        _to(ADDENDUM, Fact.ADDENDUM_COOLING, Fact.OTHER_SIGNED_ADDENDUM),
        _to(FINAL, Fact.ADDENDUM_COOLING),
    ),
}


class Failure(StrEnum):
    """The refusals that the interface document answers with a literal 500 (Errors)."""

    ALREADY_SIGNED = "already_signed"
    NOT_SIGNED = "not_signed"
    COOLING_ELAPSED = "cooling_elapsed"
    NO_SIGNED_ADDENDUM = "no_signed_addendum"
    SIGN_DELAY_DISABLED = "sign_delay_disabled"


Refusal = Reason | Failure


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal, for the case that the status is among these and the fact is missing."""

    refusal: Refusal
    status: frozenset[Status] = frozenset(Status)
    lacks: Fact | None = None


_BOTH_SIGNED = frozenset({FINAL, ADDENDUM})
_READING = frozenset({ORDERED, DRAFT, PRELIMINARY})
_NO_ADDENDUM = (
    Refused(Reason.NOT_SIGNED, _READING),
    Refused(Reason.NO_OPEN_ADDENDUM, lacks=Fact.OPEN_ADDENDUM),
)

REFUSALS: Mapping[Event, tuple[Refused, ...]] = {
    Event.OPEN: (),
    Event.SAVE: (Refused(Reason.SIGNED, _BOTH_SIGNED), Refused(Reason.NOT_EDITABLE)),
    Event.SIGN: (
        Refused(Reason.NOT_OWNED, frozenset({ORDERED})),
        Refused(Failure.ALREADY_SIGNED),
    ),
    Event.UNSIGN: (Refused(Failure.NOT_SIGNED, _READING), Refused(Failure.COOLING_ELAPSED)),
    Event.PRELIM: (Refused(Reason.SIGNED, _BOTH_SIGNED), Refused(Reason.NOT_OWNED)),
    Event.PRELIM_WITHDRAW: (
        Refused(Reason.SIGNED, _BOTH_SIGNED),
        Refused(Reason.NOT_PRELIMINARY),
    ),
    Event.RESET: (
        Refused(Reason.SIGNED, _BOTH_SIGNED),
        Refused(Reason.NOTHING_TO_RESET, frozenset({ORDERED})),
        Refused(Reason.NOT_FROM_ORDER, frozenset({DRAFT})),
        Refused(Reason.NOT_DRAFT),
    ),
    Event.UNASSIGN: (Refused(Reason.SIGNED, _BOTH_SIGNED), Refused(Reason.NOT_DRAFT)),
    Event.DISCARD: (Refused(Reason.SIGNED, _BOTH_SIGNED), Refused(Reason.NOT_DRAFT)),
    Event.DELETE: (Refused(Reason.SIGNED),),
    Event.UPDATE_FILES: (Refused(Reason.SIGNED),),
    Event.ADDENDUM_CREATE: (Refused(Reason.NOT_SIGNED),),
    Event.ADDENDUM_SAVE: _NO_ADDENDUM,
    Event.ADDENDUM_CANCEL: _NO_ADDENDUM,
    Event.ADDENDUM_SIGN: _NO_ADDENDUM,
    Event.ADDENDUM_RELEASE: (
        Refused(Failure.SIGN_DELAY_DISABLED, lacks=Fact.SITE_COOLS),
        Refused(Failure.NO_SIGNED_ADDENDUM, lacks=Fact.SIGNED_ADDENDUM),
        Refused(Failure.COOLING_ELAPSED),
    ),
    Event.ADDENDUM_UNSIGN: (
        Refused(Failure.NO_SIGNED_ADDENDUM, lacks=Fact.SIGNED_ADDENDUM),
        Refused(Failure.COOLING_ELAPSED),
    ),
}
"""For each event, why it is refused where no branch holds: the first row that applies."""


def decide(status: Status, event: Event, facts: frozenset[Fact]) -> Branch | Refusal:
    """Return the branch that an event takes, or why it takes none."""
    for branch in TRANSITIONS.get((status, event), ()):
        if branch.when <= facts:
            return branch
    return next(
        row.refusal
        for row in REFUSALS[event]
        if status in row.status and (row.lacks is None or row.lacks not in facts)
    )
