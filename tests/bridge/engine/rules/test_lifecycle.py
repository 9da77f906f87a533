"""The state table: every status with every event and every set of facts."""

from itertools import chain, combinations, product
from pathlib import Path

import pytest

from bridge.contract import SIGNED, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.rules.lifecycle import (
    REFUSALS,
    TRANSITIONS,
    ClearedPart,
    LifecycleEvent,
    ReportFact,
    Transition,
    decide,
)

EVERY_SET = [
    frozenset(facts)
    for facts in chain.from_iterable(
        combinations(ReportFact, size) for size in range(len(ReportFact) + 1)
    )
]


@pytest.mark.parametrize(("status", "event"), list(product(ReportStatus, LifecycleEvent)))
def test_every_pair_is_decided(status: ReportStatus, event: LifecycleEvent) -> None:
    """All 1,024 sets of facts lead to a branch of the table or to a refusal."""
    for facts in EVERY_SET:
        outcome = decide(status, event, facts)
        if isinstance(outcome, Transition):
            assert outcome in TRANSITIONS[status, event]
            assert outcome.when <= facts
        else:
            assert outcome in {row.refusal for row in REFUSALS[event]}
            assert not any(row.when <= facts for row in TRANSITIONS.get((status, event), ()))


# The rows of the interface reference: status, event, facts, new status (None: removed) or reason.
C, P, I_, S = (
    ReportFact.COOLING,
    ReportFact.PRELIM_READ,
    ReportFact.IGNORES_DELAY,
    ReportFact.SITE_HAS_DELAY,
)
A, A2, AC = (
    ReportFact.SIGNED_ADDENDUM,
    ReportFact.OTHER_SIGNED_ADDENDUM,
    ReportFact.ADDENDUM_COOLING,
)
ROWS = [
    ("Draft", LifecycleEvent.SIGN, {S}, "Final"),
    ("Draft", LifecycleEvent.SIGN, {S, I_}, "Final"),
    ("Draft", LifecycleEvent.SIGN, set(), "Final"),
    ("Preliminary", LifecycleEvent.SIGN, {P}, "Final"),
    ("Final", LifecycleEvent.SIGN, {S, C, I_}, "Final"),
    ("Addendum", LifecycleEvent.SIGN, {S, C, I_, A}, "Addendum"),
    ("Final", LifecycleEvent.SIGN, {S, C}, ErrorCode.ALREADY_SIGNED),
    ("Final", LifecycleEvent.SIGN, {S}, ErrorCode.ALREADY_SIGNED),
    ("Final", LifecycleEvent.SIGN, {S, I_}, ErrorCode.ALREADY_SIGNED),
    ("Ordered", LifecycleEvent.SIGN, set(), ErrorCode.REPORT_NOT_ASSIGNED),
    ("Final", LifecycleEvent.UNSIGN, {C, P}, "Preliminary"),
    ("Final", LifecycleEvent.UNSIGN, {C}, "Draft"),
    ("Addendum", LifecycleEvent.UNSIGN, {C, A, AC}, "Draft"),
    ("Addendum", LifecycleEvent.UNSIGN, {A, AC}, ErrorCode.COOLING_ELAPSED),
    ("Final", LifecycleEvent.UNSIGN, {P}, ErrorCode.COOLING_ELAPSED),
    ("Draft", LifecycleEvent.UNSIGN, {P}, ErrorCode.NOT_SIGNED),
    ("Preliminary", LifecycleEvent.UNSIGN, {P}, ErrorCode.NOT_SIGNED),
    ("Ordered", LifecycleEvent.UNSIGN, set(), ErrorCode.NOT_SIGNED),
    ("Addendum", LifecycleEvent.ADDENDUM_UNSIGN, {A, A2, AC}, "Addendum"),
    ("Addendum", LifecycleEvent.ADDENDUM_UNSIGN, {A, AC}, "Final"),
    ("Addendum", LifecycleEvent.ADDENDUM_UNSIGN, {A}, ErrorCode.COOLING_ELAPSED),
    ("Final", LifecycleEvent.ADDENDUM_UNSIGN, {C}, ErrorCode.NO_SIGNED_ADDENDUM),
    ("Draft", LifecycleEvent.ADDENDUM_UNSIGN, set(), ErrorCode.NO_SIGNED_ADDENDUM),
    ("Addendum", LifecycleEvent.ADDENDUM_RELEASE, {S, A, AC}, "Addendum"),
    ("Addendum", LifecycleEvent.ADDENDUM_RELEASE, {A, AC}, ErrorCode.SIGN_DELAY_DISABLED),
    ("Addendum", LifecycleEvent.ADDENDUM_RELEASE, {S, A}, ErrorCode.COOLING_ELAPSED),
    ("Final", LifecycleEvent.ADDENDUM_RELEASE, {S, C}, ErrorCode.NO_SIGNED_ADDENDUM),
    ("Draft", LifecycleEvent.RESET, {ReportFact.FROM_ORDER, ReportFact.CONTENT}, "Ordered"),
    ("Draft", LifecycleEvent.RESET, {ReportFact.CONTENT}, ErrorCode.REPORT_NOT_FROM_ORDER),
    ("Ordered", LifecycleEvent.RESET, {ReportFact.CONTENT}, "Ordered"),
    ("Ordered", LifecycleEvent.RESET, {ReportFact.FROM_ORDER}, ErrorCode.NOTHING_TO_RESET),
    ("Preliminary", LifecycleEvent.RESET, {ReportFact.FROM_ORDER}, ErrorCode.REPORT_NOT_DRAFT),
    ("Final", LifecycleEvent.RESET, {ReportFact.FROM_ORDER}, ErrorCode.REPORT_SIGNED),
    ("Draft", LifecycleEvent.UNASSIGN, set(), "Ordered"),
    ("Ordered", LifecycleEvent.UNASSIGN, set(), ErrorCode.REPORT_NOT_DRAFT),
    ("Preliminary", LifecycleEvent.UNASSIGN, set(), ErrorCode.REPORT_NOT_DRAFT),
    ("Final", LifecycleEvent.UNASSIGN, set(), ErrorCode.REPORT_SIGNED),
    ("Addendum", LifecycleEvent.UNASSIGN, set(), ErrorCode.REPORT_SIGNED),
    ("Draft", LifecycleEvent.PRELIM, set(), "Preliminary"),
    ("Preliminary", LifecycleEvent.PRELIM, {P}, "Preliminary"),
    ("Ordered", LifecycleEvent.PRELIM, set(), ErrorCode.REPORT_NOT_ASSIGNED),
    ("Final", LifecycleEvent.PRELIM, set(), ErrorCode.REPORT_SIGNED),
    ("Ordered", LifecycleEvent.DELETE, set(), None),
    ("Draft", LifecycleEvent.DELETE, set(), None),
    ("Preliminary", LifecycleEvent.DELETE, set(), None),
    ("Final", LifecycleEvent.DELETE, {C}, ErrorCode.REPORT_SIGNED),
    ("Addendum", LifecycleEvent.DELETE, set(), ErrorCode.REPORT_SIGNED),
    ("Draft", LifecycleEvent.DISCARD, set(), None),
    ("Draft", LifecycleEvent.DISCARD, {ReportFact.FROM_ORDER}, "Ordered"),
    ("Ordered", LifecycleEvent.OPEN, set(), "Draft"),
    ("Final", LifecycleEvent.UPDATE_FILES, {C}, ErrorCode.REPORT_SIGNED),
]


@pytest.mark.parametrize(("status", "event", "facts", "expected"), ROWS)
def test_rows_of_the_document(
    status: str,
    event: LifecycleEvent,
    facts: set[ReportFact],
    expected: str | ErrorCode | None,
) -> None:
    """Chapters "States and transitions" and "Errors": each row has the documented result."""
    outcome = decide(ReportStatus(status), event, frozenset(facts))

    assert (outcome.to if isinstance(outcome, Transition) else outcome) == expected


def test_the_parts_that_an_event_clears() -> None:
    """Reset clears owner and content, unassign the owner, unsign signature and later addenda."""
    reset = decide(ReportStatus.DRAFT, LifecycleEvent.RESET, frozenset({ReportFact.FROM_ORDER}))
    unassign = decide(ReportStatus.DRAFT, LifecycleEvent.UNASSIGN, frozenset())
    unsign = decide(ReportStatus.FINAL, LifecycleEvent.UNSIGN, frozenset({ReportFact.COOLING}))

    assert isinstance(reset, Transition)
    assert isinstance(unassign, Transition)
    assert isinstance(unsign, Transition)
    assert reset.clears == {ClearedPart.OWNER, ClearedPart.CONTENT}
    assert unassign.clears == {ClearedPart.OWNER}
    assert unsign.clears == {ClearedPart.SIGNATURE, ClearedPart.LATER_ADDENDA}


def test_signed_text_is_never_lost() -> None:
    """No event removes a signed report or clears its content."""
    for (status, _), branches in TRANSITIONS.items():
        for branch in branches:
            if status in SIGNED:
                assert branch.to is not None
                assert ClearedPart.CONTENT not in branch.clears


PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "http-api.md"


def row(status: ReportStatus, event: LifecycleEvent, branch: Transition) -> str:
    facts = "; ".join(sorted(fact.value for fact in branch.when)) or "always"
    clears = "; ".join(sorted(part.value for part in branch.clears))
    return f"| {status} | {event} | {facts} | {branch.to or '(removed)'} | {clears} |"


def table() -> str:
    lines = [
        row(status, event, branch)
        for status, event in product(ReportStatus, LifecycleEvent)
        for branch in TRANSITIONS.get((status, event), ())
    ]
    return "\n".join(["| From | Event | When | To | Clears |", "|---|---|---|---|---|", *lines])


def test_the_page_shows_the_table() -> None:
    """`docs/reference/http-api.md` contains the table of `rules/lifecycle.py`."""
    assert table() in PAGE.read_text("utf-8")
