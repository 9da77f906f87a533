"""
The states of a report, the table of its transitions, and the codes of refusals.

For each status and event, the first transition whose facts all hold is taken. If there is none, the
event is refused by the rules of `REFUSALS`. The services collect the facts and apply the effects
(interface reference, States and transitions). Messages name rules and places, never a submitted
value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.contract import SIGNED, ReportStatus
from bridge.contract.errors import ErrorCode


class ReportOrigin(StrEnum):
    """
    The origin of a report; a report that began as an order can be reset to one.

    A launched report becomes one that began as an order when an order of it is registered.
    """

    LAUNCH = "launch"
    ORDER = "order"
    UNLINK = "unlink"


class AddendumState(StrEnum):
    """The state of an addendum; a signed one may still be within its sign delay."""

    DRAFT = "draft"
    SIGNED = "signed"


class ReleaseKind(StrEnum):
    FINAL = "final"
    ADDENDUM = "addendum"
    RETRACTION = "retraction"  # a delivered addendum was unsigned with its report


class FileKind(StrEnum):
    """The kind of a file attached to a report."""

    STRUCTURED_REPORT = "dicomSR"
    KEY_IMAGE = "keyImage"
    SET_ASIDE = "setAside"  # a DICOM SR of another patient, which the report does not show


ORDERED, DRAFT, PRELIMINARY, FINAL, ADDENDUM = ReportStatus


class LifecycleEvent(StrEnum):
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

    SITE_HAS_DELAY = "the site has a sign delay"
    COOLING = "the report's own cooling period runs"
    IGNORES_DELAY = "ignoreSignDelay is true"
    PRELIM_READ = "an active preliminary read exists"
    OTHER_PRELIM_READ = "more than one active preliminary read exists"
    FROM_ORDER = "the report began as an order, or has one that was registered"
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

    to: ReportStatus | None
    when: frozenset[ReportFact] = frozenset()
    clears: frozenset[ClearedPart] = frozenset()


def _to(
    to: ReportStatus | None, *when: ReportFact, clears: tuple[ClearedPart, ...] = ()
) -> Transition:
    return Transition(to, frozenset(when), frozenset(clears))


_CLEARED_BY_RESET = (ClearedPart.OWNER, ClearedPart.CONTENT)
_CLEARED_BY_UNSIGN = (ClearedPart.SIGNATURE, ClearedPart.LATER_ADDENDA)
_UNSIGN = (
    _to(PRELIMINARY, ReportFact.COOLING, ReportFact.PRELIM_READ, clears=_CLEARED_BY_UNSIGN),
    _to(DRAFT, ReportFact.COOLING, clears=_CLEARED_BY_UNSIGN),
)

TRANSITIONS: Mapping[tuple[ReportStatus, LifecycleEvent], tuple[Transition, ...]] = {
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
    (DRAFT, LifecycleEvent.RESET): (_to(ORDERED, ReportFact.FROM_ORDER, clears=_CLEARED_BY_RESET),),
    # the order becomes unassigned, so that it can be linked again
    (ORDERED, LifecycleEvent.RESET): (_to(ORDERED, ReportFact.CONTENT, clears=_CLEARED_BY_RESET),),
    (DRAFT, LifecycleEvent.UNASSIGN): (_to(ORDERED, clears=(ClearedPart.OWNER,)),),
    (DRAFT, LifecycleEvent.DISCARD): (
        _to(ORDERED, ReportFact.FROM_ORDER, clears=_CLEARED_BY_RESET),
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
        _to(ADDENDUM, ReportFact.SITE_HAS_DELAY, ReportFact.ADDENDUM_COOLING),
    ),
    (ADDENDUM, LifecycleEvent.ADDENDUM_UNSIGN): (
        _to(ADDENDUM, ReportFact.ADDENDUM_COOLING, ReportFact.OTHER_SIGNED_ADDENDUM),
        _to(FINAL, ReportFact.ADDENDUM_COOLING),
    ),
}


@dataclass(frozen=True, slots=True)
class RefusalRule:
    """A refusal that applies to these statuses if the fact `lacks` does not hold."""

    refusal: ErrorCode
    status: frozenset[ReportStatus] = frozenset(ReportStatus)
    lacks: ReportFact | None = None


_NOT_SIGNED = frozenset({ORDERED, DRAFT, PRELIMINARY})
_NO_ADDENDUM = (
    RefusalRule(ErrorCode.REPORT_NOT_SIGNED, _NOT_SIGNED),
    RefusalRule(ErrorCode.NO_OPEN_ADDENDUM, lacks=ReportFact.OPEN_ADDENDUM),
)

REFUSALS: Mapping[LifecycleEvent, tuple[RefusalRule, ...]] = {
    LifecycleEvent.OPEN: (),
    LifecycleEvent.SAVE: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.REPORT_NOT_EDITABLE),
    ),
    LifecycleEvent.SIGN: (
        RefusalRule(ErrorCode.REPORT_NOT_ASSIGNED, frozenset({ORDERED})),
        RefusalRule(ErrorCode.ALREADY_SIGNED),
    ),
    LifecycleEvent.UNSIGN: (
        RefusalRule(ErrorCode.NOT_SIGNED, _NOT_SIGNED),
        RefusalRule(ErrorCode.COOLING_ELAPSED),
    ),
    LifecycleEvent.PRELIM: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.REPORT_NOT_ASSIGNED),
    ),
    LifecycleEvent.PRELIM_WITHDRAW: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.REPORT_NOT_PRELIMINARY),
    ),
    LifecycleEvent.RESET: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.NOTHING_TO_RESET, frozenset({ORDERED})),
        RefusalRule(ErrorCode.REPORT_NOT_FROM_ORDER, frozenset({DRAFT})),
        RefusalRule(ErrorCode.REPORT_NOT_DRAFT),
    ),
    LifecycleEvent.UNASSIGN: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.REPORT_NOT_DRAFT),
    ),
    LifecycleEvent.DISCARD: (
        RefusalRule(ErrorCode.REPORT_SIGNED, SIGNED),
        RefusalRule(ErrorCode.REPORT_NOT_DRAFT),
    ),
    LifecycleEvent.DELETE: (RefusalRule(ErrorCode.REPORT_SIGNED),),
    LifecycleEvent.UPDATE_FILES: (RefusalRule(ErrorCode.REPORT_SIGNED),),
    LifecycleEvent.ADDENDUM_CREATE: (RefusalRule(ErrorCode.REPORT_NOT_SIGNED),),
    LifecycleEvent.ADDENDUM_SAVE: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_CANCEL: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_SIGN: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_RELEASE: (
        RefusalRule(ErrorCode.SIGN_DELAY_DISABLED, lacks=ReportFact.SITE_HAS_DELAY),
        RefusalRule(ErrorCode.NO_SIGNED_ADDENDUM, lacks=ReportFact.SIGNED_ADDENDUM),
        RefusalRule(ErrorCode.COOLING_ELAPSED),
    ),
    LifecycleEvent.ADDENDUM_UNSIGN: (
        RefusalRule(ErrorCode.NO_SIGNED_ADDENDUM, lacks=ReportFact.SIGNED_ADDENDUM),
        RefusalRule(ErrorCode.COOLING_ELAPSED),
    ),
}
"""The refusal rules of each event; the first that applies gives the reason."""


def decide(
    status: ReportStatus, event: LifecycleEvent, facts: frozenset[ReportFact]
) -> Transition | ErrorCode:
    for transition in TRANSITIONS.get((status, event), ()):
        if transition.when <= facts:
            return transition
    return next(
        rule.refusal
        for rule in REFUSALS[event]
        if status in rule.status and (rule.lacks is None or rule.lacks not in facts)
    )
