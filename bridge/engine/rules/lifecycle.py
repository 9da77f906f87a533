"""
The states of a report, the table of its transitions, and the reasons of refusals.

For each status and event, the first transition whose facts all hold is taken. If there is none, the
event is refused by the rules of `REFUSALS`. The services collect the facts and apply the effects
(interface reference, States and transitions). Messages name rules and places, never a submitted
value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The status of a report (interface reference, States and transitions)."""

    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


SIGNED = frozenset({Status.FINAL, Status.ADDENDUM})


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
    RETRACTION = "retraction"  # a delivered addendum was recalled with its report


class FileKind(StrEnum):
    """The kind of a file attached to a report."""

    STRUCTURED_REPORT = "dicomSR"
    KEY_IMAGE = "keyImage"
    SET_ASIDE = "setAside"  # a DICOM SR of another patient, which the report does not show


class Reason(StrEnum):
    """A broken rule; the member's value is the `code` of the problem body."""

    SIGNED = "report_signed"
    NOT_OWNED = "report_not_assigned"
    NOT_DRAFT = "report_not_draft"
    NOT_EDITABLE = "report_not_editable"
    BEGUN = "report_begun"
    NOT_SIGNED = "report_not_signed"
    NOT_FROM_ORDER = "report_not_from_order"
    NOTHING_TO_RESET = "nothing_to_reset"
    ADDENDUM_OPEN = "addendum_already_open"
    NO_OPEN_ADDENDUM = "no_open_addendum"
    EMPTY_ADDENDUM = "empty_addendum"
    UNKNOWN_PRELIM_GROUP = "unknown_prelim_group"
    UNKNOWN_PRELIM_TAG = "unknown_prelim_tag"
    NOT_PRELIM_MEMBER = "not_prelim_member"
    NOT_PRELIM_REVIEWER = "not_prelim_reviewer"
    NOT_PRELIMINARY = "report_not_preliminary"
    TOO_FEW_ORDERS = "too_few_orders"
    GROUP_TOO_LARGE = "group_too_large"
    ANCHOR_IS_MEMBER = "anchor_in_another_group"
    ANCHOR_STATUS = "anchor_not_ordered_or_draft"
    ANCHOR_HAS_CONTENT = "anchor_has_content"
    ORDER_NOT_ORDERED = "order_not_ordered"
    ORDER_HAS_CONTENT = "order_has_content"
    PATIENTS_DIFFER = "patients_differ"
    GROUP_NOT_ORDERED = "group_not_ordered"
    GROUP_HAS_CONTENT = "group_has_content"
    NO_FILES = "no_files"
    BAD_DOCUMENT = "bad_document"
    IDENTIFIER_MERGED = "identifier_merged"
    MERGE_CYCLE = "merge_cycle"
    MERGED_ELSEWHERE = "merged_elsewhere"
    SAME_PATIENT = "same_patient"
    PLACEHOLDER = "placeholder_identifier"
    UNKNOWN_LOCATION = "unknown_location"
    BAD_CURSOR = "bad_cursor"
    BAD_SORT = "bad_sort"
    TOO_MANY_MACROS = "too_many_macros"
    TOO_MANY_TOKENS = "too_many_tokens"
    TOO_MANY_WORDS = "too_many_words"
    TOO_MUCH_TEXT = "too_much_text"
    TOO_MANY_PRELIM_TAGS = "too_many_prelim_tags"


REASON_TEXTS: Mapping[Reason, str] = {
    Reason.SIGNED: "the report is signed",
    Reason.NOT_OWNED: "the report is assigned to nobody; launch it for a user first",
    Reason.NOT_DRAFT: "the report is not a Draft",
    Reason.NOT_EDITABLE: "the report cannot be edited in its current status",
    Reason.BEGUN: "the report is not an empty Ordered report any more and is not deleted",
    Reason.NOT_SIGNED: "the report is not signed",
    Reason.NOT_FROM_ORDER: "only a Draft that was initially created as Ordered can be reset",
    Reason.NOTHING_TO_RESET: "the report is Ordered and has no content: there is nothing to reset",
    Reason.ADDENDUM_OPEN: "the report already has an addendum that is being written",
    Reason.NO_OPEN_ADDENDUM: "the report has no addendum that is being written",
    Reason.EMPTY_ADDENDUM: "an addendum without text cannot be signed",
    Reason.UNKNOWN_PRELIM_GROUP: "the site has no such prelim group",
    Reason.UNKNOWN_PRELIM_TAG: "the prelim group has no such tag",
    Reason.NOT_PRELIM_MEMBER: "the report's reader is not a member of the prelim group",
    Reason.NOT_PRELIM_REVIEWER: "the user is neither the reader nor a reviewer of the prelim group",
    Reason.NOT_PRELIMINARY: "the report is not Preliminary",
    Reason.TOO_FEW_ORDERS: "at least two different orders are needed",
    Reason.GROUP_TOO_LARGE: "a report may have at most 100 orders",
    Reason.ANCHOR_IS_MEMBER: "the anchor is a linked order of another report; unlink it first",
    Reason.ANCHOR_STATUS: "the anchor is neither Ordered nor Draft",
    Reason.ANCHOR_HAS_CONTENT: "the anchor was unassigned and keeps content; reset it first",
    Reason.ORDER_NOT_ORDERED: "the order is not Ordered; a Draft must be reset first",
    Reason.ORDER_HAS_CONTENT: "the order's report has content; reset it first",
    Reason.PATIENTS_DIFFER: (
        "PatientMRN differs from the anchor's, and name and birth date do not both match"
    ),
    Reason.GROUP_NOT_ORDERED: (
        "the group's report is not Ordered; unassign and reset it, or reset it, first"
    ),
    Reason.GROUP_HAS_CONTENT: "the group's report has content; reset it first",
    Reason.NO_FILES: "at least one DICOM SR file is needed",
    Reason.BAD_DOCUMENT: "the document does not follow the report's content model",
    Reason.IDENTIFIER_MERGED: "the patient identifier was merged into another one",
    Reason.MERGE_CYCLE: "the surviving identifier was itself merged into the prior one",
    Reason.MERGED_ELSEWHERE: "the prior identifier was already merged into another one",
    Reason.SAME_PATIENT: "the two patient identifiers are the same",
    Reason.PLACEHOLDER: "a patient identifier is an e-mail address or the user's own identity",
    Reason.UNKNOWN_LOCATION: "the site has no such location",
    Reason.BAD_CURSOR: "the cursor is not from a response of this endpoint",
    Reason.BAD_SORT: "the sort order is not one of those documented",
    Reason.TOO_MANY_MACROS: "the maximum number of macros is reached; remove some first",
    Reason.TOO_MANY_TOKENS: "the user has the maximum number of access tokens; revoke some first",
    Reason.TOO_MANY_WORDS: "at most 20 words can be searched",
    Reason.TOO_MUCH_TEXT: "with this text the stored texts would exceed their maximum total size",
    Reason.TOO_MANY_PRELIM_TAGS: "the site's maximum number of prelim groups or tags is reached",
}


ORDERED, DRAFT, PRELIMINARY, FINAL, ADDENDUM = Status


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

    to: Status | None
    when: frozenset[ReportFact] = frozenset()
    clears: frozenset[ClearedPart] = frozenset()


def _to(to: Status | None, *when: ReportFact, clears: tuple[ClearedPart, ...] = ()) -> Transition:
    return Transition(to, frozenset(when), frozenset(clears))


_CLEARED_BY_RESET = (ClearedPart.OWNER, ClearedPart.CONTENT)
_CLEARED_BY_UNSIGN = (ClearedPart.SIGNATURE, ClearedPart.LATER_ADDENDA)
_UNSIGN = (
    _to(PRELIMINARY, ReportFact.COOLING, ReportFact.PRELIM_READ, clears=_CLEARED_BY_UNSIGN),
    _to(DRAFT, ReportFact.COOLING, clears=_CLEARED_BY_UNSIGN),
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


class FailureCode(StrEnum):
    """Refusals for which the interface reference defines status 500 (Errors)."""

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


_NOT_SIGNED = frozenset({ORDERED, DRAFT, PRELIMINARY})
_NO_ADDENDUM = (
    RefusalRule(Reason.NOT_SIGNED, _NOT_SIGNED),
    RefusalRule(Reason.NO_OPEN_ADDENDUM, lacks=ReportFact.OPEN_ADDENDUM),
)

REFUSALS: Mapping[LifecycleEvent, tuple[RefusalRule, ...]] = {
    LifecycleEvent.OPEN: (),
    LifecycleEvent.SAVE: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOT_EDITABLE),
    ),
    LifecycleEvent.SIGN: (
        RefusalRule(Reason.NOT_OWNED, frozenset({ORDERED})),
        RefusalRule(FailureCode.ALREADY_SIGNED),
    ),
    LifecycleEvent.UNSIGN: (
        RefusalRule(FailureCode.NOT_SIGNED, _NOT_SIGNED),
        RefusalRule(FailureCode.COOLING_ELAPSED),
    ),
    LifecycleEvent.PRELIM: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOT_OWNED),
    ),
    LifecycleEvent.PRELIM_WITHDRAW: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOT_PRELIMINARY),
    ),
    LifecycleEvent.RESET: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOTHING_TO_RESET, frozenset({ORDERED})),
        RefusalRule(Reason.NOT_FROM_ORDER, frozenset({DRAFT})),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.UNASSIGN: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.DISCARD: (
        RefusalRule(Reason.SIGNED, SIGNED),
        RefusalRule(Reason.NOT_DRAFT),
    ),
    LifecycleEvent.DELETE: (RefusalRule(Reason.SIGNED),),
    LifecycleEvent.UPDATE_FILES: (RefusalRule(Reason.SIGNED),),
    LifecycleEvent.ADDENDUM_CREATE: (RefusalRule(Reason.NOT_SIGNED),),
    LifecycleEvent.ADDENDUM_SAVE: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_CANCEL: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_SIGN: _NO_ADDENDUM,
    LifecycleEvent.ADDENDUM_RELEASE: (
        RefusalRule(FailureCode.SIGN_DELAY_DISABLED, lacks=ReportFact.SITE_HAS_DELAY),
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
    for transition in TRANSITIONS.get((status, event), ()):
        if transition.when <= facts:
            return transition
    return next(
        rule.refusal
        for rule in REFUSALS[event]
        if status in rule.status and (rule.lacks is None or rule.lacks not in facts)
    )
