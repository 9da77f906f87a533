"""
The state table of a report (interface document, States and transitions).

For each status and event, the first transition whose facts all hold is taken. If there is none, the
event is refused by the rules of `REFUSALS`. The services collect the facts and apply the effects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import Status

ORDERED, DRAFT, PRELIMINARY, FINAL, ADDENDUM = Status


class LifecycleEvent(StrEnum):
    """An event of the lifecycle of a report."""

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


class ReportFact(StrEnum):
    """A condition of a transition."""

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


class ClearedPart(StrEnum):
    """A part of a report that a transition clears."""

    OWNER = "owner"
    CONTENT = "content"
    SIGNATURE = "signature"
    LATER_ADDENDA = "addenda, billing codes and shares made after signing"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next status if all facts hold; `to` is None if the report is removed."""

    to: Status | None
    when: frozenset[ReportFact] = frozenset()
    clears: frozenset[ClearedPart] = frozenset()


def _to(to: Status | None, *when: ReportFact, clears: tuple[ClearedPart, ...] = ()) -> Transition:
    return Transition(to, frozenset(when), frozenset(clears))


_EMPTIED = (ClearedPart.OWNER, ClearedPart.CONTENT)
_UNSIGNED = (ClearedPart.SIGNATURE, ClearedPart.LATER_ADDENDA)
_UNSIGN = (
    _to(PRELIMINARY, ReportFact.COOLING, ReportFact.PRELIM_READ, clears=_UNSIGNED),
    _to(DRAFT, ReportFact.COOLING, clears=_UNSIGNED),
)

TRANSITIONS: Mapping[tuple[Status, LifecycleEvent], tuple[Transition, ...]] = {
    (ORDERED, LifecycleEvent.OPEN): (_to(DRAFT),),
    (DRAFT, LifecycleEvent.OPEN): (_to(DRAFT),),
    (PRELIMINARY, LifecycleEvent.OPEN): (_to(PRELIMINARY),),
    (FINAL, LifecycleEvent.OPEN): (_to(FINAL),),
    (ADDENDUM, LifecycleEvent.OPEN): (_to(ADDENDUM),),
    (DRAFT, LifecycleEvent.SAVE): (_to(DRAFT),),
    (PRELIMINARY, LifecycleEvent.SAVE): (_to(PRELIMINARY),),
    (DRAFT, LifecycleEvent.SIGN): (_to(FINAL),),
    (PRELIMINARY, LifecycleEvent.SIGN): (_to(FINAL),),
    # ends the sign delay; signer, time and text are unchanged
    (FINAL, LifecycleEvent.SIGN): (_to(FINAL, ReportFact.COOLING, ReportFact.IGNORES_DELAY),),
    (ADDENDUM, LifecycleEvent.SIGN): (_to(ADDENDUM, ReportFact.COOLING, ReportFact.IGNORES_DELAY),),
    (FINAL, LifecycleEvent.UNSIGN): _UNSIGN,
    (ADDENDUM, LifecycleEvent.UNSIGN): _UNSIGN,
    (DRAFT, LifecycleEvent.PRELIM): (_to(PRELIMINARY),),
    (PRELIMINARY, LifecycleEvent.PRELIM): (_to(PRELIMINARY),),
    (PRELIMINARY, LifecycleEvent.PRELIM_WITHDRAW): (
        _to(PRELIMINARY, ReportFact.OTHER_PRELIM_READ),
        _to(DRAFT),
    ),
    (DRAFT, LifecycleEvent.RESET): (_to(ORDERED, ReportFact.FROM_ORDER, clears=_EMPTIED),),
    # the order becomes unassigned, so that it can be linked again
    (ORDERED, LifecycleEvent.RESET): (_to(ORDERED, ReportFact.CONTENT, clears=_EMPTIED),),
    (DRAFT, LifecycleEvent.UNASSIGN): (_to(ORDERED, clears=(ClearedPart.OWNER,)),),
    (DRAFT, LifecycleEvent.DISCARD): (
        _to(ORDERED, ReportFact.FROM_ORDER, clears=_EMPTIED),
        _to(None),
    ),
    (ORDERED, LifecycleEvent.DELETE): (_to(None),),
    (DRAFT, LifecycleEvent.DELETE): (_to(None),),
    (PRELIMINARY, LifecycleEvent.DELETE): (_to(None),),
    (ORDERED, LifecycleEvent.UPDATE_FILES): (_to(ORDERED),),
    (DRAFT, LifecycleEvent.UPDATE_FILES): (_to(DRAFT),),
    (PRELIMINARY, LifecycleEvent.UPDATE_FILES): (_to(PRELIMINARY),),
    (FINAL, LifecycleEvent.ADDENDUM_CREATE): (_to(FINAL),),
    (ADDENDUM, LifecycleEvent.ADDENDUM_CREATE): (_to(ADDENDUM),),
    (FINAL, LifecycleEvent.ADDENDUM_SAVE): (_to(FINAL, ReportFact.OPEN_ADDENDUM),),
    (ADDENDUM, LifecycleEvent.ADDENDUM_SAVE): (_to(ADDENDUM, ReportFact.OPEN_ADDENDUM),),
    (FINAL, LifecycleEvent.ADDENDUM_CANCEL): (_to(FINAL, ReportFact.OPEN_ADDENDUM),),
    (ADDENDUM, LifecycleEvent.ADDENDUM_CANCEL): (_to(ADDENDUM, ReportFact.OPEN_ADDENDUM),),
    (FINAL, LifecycleEvent.ADDENDUM_SIGN): (_to(ADDENDUM, ReportFact.OPEN_ADDENDUM),),
    (ADDENDUM, LifecycleEvent.ADDENDUM_SIGN): (_to(ADDENDUM, ReportFact.OPEN_ADDENDUM),),
    (ADDENDUM, LifecycleEvent.ADDENDUM_RELEASE): (
        _to(ADDENDUM, ReportFact.SITE_COOLS, ReportFact.ADDENDUM_COOLING),
    ),
    (ADDENDUM, LifecycleEvent.ADDENDUM_UNSIGN): (
        _to(ADDENDUM, ReportFact.ADDENDUM_COOLING, ReportFact.OTHER_SIGNED_ADDENDUM),
        _to(FINAL, ReportFact.ADDENDUM_COOLING),
    ),
}


class FailureCode(StrEnum):
    """Refusals that the interface document answers with status 500 (Errors)."""

    ALREADY_SIGNED = "already_signed"
    NOT_SIGNED = "not_signed"
    COOLING_ELAPSED = "cooling_elapsed"
    NO_SIGNED_ADDENDUM = "no_signed_addendum"
    SIGN_DELAY_DISABLED = "sign_delay_disabled"


RefusalReason = Reason | FailureCode


@dataclass(frozen=True, slots=True)
class RefusalRule:
    """A refusal that applies to these statuses if the fact `lacks` does not hold."""

    refusal: RefusalReason
    status: frozenset[Status] = frozenset(Status)
    lacks: ReportFact | None = None


_BOTH_SIGNED = frozenset({FINAL, ADDENDUM})
_READING = frozenset({ORDERED, DRAFT, PRELIMINARY})
_NO_ADDENDUM = (
    RefusalRule(Reason.NOT_SIGNED, _READING),
    RefusalRule(Reason.NO_OPEN_ADDENDUM, lacks=ReportFact.OPEN_ADDENDUM),
)

REFUSALS: Mapping[LifecycleEvent, tuple[RefusalRule, ...]] = {
    LifecycleEvent.OPEN: (),
    LifecycleEvent.SAVE: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOT_EDITABLE),
    ),
    LifecycleEvent.SIGN: (
        RefusalRule(Reason.NOT_OWNED, frozenset({ORDERED})),
        RefusalRule(FailureCode.ALREADY_SIGNED),
    ),
    LifecycleEvent.UNSIGN: (
        RefusalRule(FailureCode.NOT_SIGNED, _READING),
        RefusalRule(FailureCode.COOLING_ELAPSED),
    ),
    LifecycleEvent.PRELIM: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOT_OWNED),
    ),
    LifecycleEvent.PRELIM_WITHDRAW: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOT_PRELIMINARY),
    ),
    LifecycleEvent.RESET: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOTHING_TO_RESET, frozenset({ORDERED})),
        RefusalRule(Reason.NOT_FROM_ORDER, frozenset({DRAFT})),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.UNASSIGN: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.DISCARD: (
        RefusalRule(Reason.SIGNED, _BOTH_SIGNED),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.DELETE: (RefusalRule(Reason.SIGNED),),
    LifecycleEvent.UPDATE_FILES: (RefusalRule(Reason.SIGNED),),
    LifecycleEvent.ADDENDUM_CREATE: (RefusalRule(Reason.NOT_SIGNED),),
    LifecycleEvent.ADDENDUM_SAVE: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_CANCEL: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_SIGN: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_RELEASE: (
        RefusalRule(FailureCode.SIGN_DELAY_DISABLED, lacks=ReportFact.SITE_COOLS),
        RefusalRule(FailureCode.NO_SIGNED_ADDENDUM, lacks=ReportFact.SIGNED_ADDENDUM),
        RefusalRule(FailureCode.COOLING_ELAPSED),
    ),
    LifecycleEvent.ADDENDUM_UNSIGN: (
        RefusalRule(FailureCode.NO_SIGNED_ADDENDUM, lacks=ReportFact.SIGNED_ADDENDUM),
        RefusalRule(FailureCode.COOLING_ELAPSED),
    ),
}
"""The refusal rules of each event; the first that applies gives the reason."""


def decide(
    status: Status, event: LifecycleEvent, facts: frozenset[ReportFact]
) -> Transition | RefusalReason:
    """Return the transition of an event, or the reason of its refusal."""
    for transition in TRANSITIONS.get((status, event), ()):
        if transition.when <= facts:
            return transition
    return next(
        row.refusal
        for row in REFUSALS[event]
        if status in row.status and (row.lacks is None or row.lacks not in facts)
    )
