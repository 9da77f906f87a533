"""The state table: every status with every event and every set of facts."""

from itertools import chain, combinations, product

import pytest

from bridge.engine.rules.lifecycle import (
    REFUSALS,
    TRANSITIONS,
    ClearedPart,
    FailureCode,
    ReportEvent,
    ReportFact,
    Transition,
    decide,
)
from bridge.engine.rules.reasons import TEXTS, Reason
from bridge.engine.rules.status import SIGNED, Status

EVERY_SET = [
    frozenset(facts)
    for facts in chain.from_iterable(
        combinations(ReportFact, size) for size in range(len(ReportFact) + 1)
    )
]


@pytest.mark.parametrize(("status", "event"), list(product(Status, ReportEvent)))
def test_every_pair_is_decided(status: Status, event: ReportEvent) -> None:
    """Under all 1,024 sets of facts: a branch of the table, or a refusal, and never neither."""
    for facts in EVERY_SET:
        outcome = decide(status, event, facts)
        if isinstance(outcome, Transition):
            assert outcome in TRANSITIONS[status, event]
            assert outcome.when <= facts
        else:
            assert outcome in {row.refusal for row in REFUSALS[event]}
            assert not any(row.when <= facts for row in TRANSITIONS.get((status, event), ()))


# The interface document's rows: from, event, facts, where to (None: removed) or why not.
C, P, I_, S = (
    ReportFact.COOLING,
    ReportFact.PRELIM_READ,
    ReportFact.IGNORES_DELAY,
    ReportFact.SITE_COOLS,
)
A, A2, AC = (
    ReportFact.SIGNED_ADDENDUM,
    ReportFact.OTHER_SIGNED_ADDENDUM,
    ReportFact.ADDENDUM_COOLING,
)
ROWS = [
    ("Draft", ReportEvent.SIGN, {S}, "Final"),
    ("Draft", ReportEvent.SIGN, {S, I_}, "Final"),
    ("Draft", ReportEvent.SIGN, set(), "Final"),
    ("Preliminary", ReportEvent.SIGN, {P}, "Final"),
    ("Final", ReportEvent.SIGN, {S, C, I_}, "Final"),
    ("Addendum", ReportEvent.SIGN, {S, C, I_, A}, "Addendum"),
    ("Final", ReportEvent.SIGN, {S, C}, FailureCode.ALREADY_SIGNED),
    ("Final", ReportEvent.SIGN, {S}, FailureCode.ALREADY_SIGNED),
    ("Final", ReportEvent.SIGN, {S, I_}, FailureCode.ALREADY_SIGNED),
    ("Ordered", ReportEvent.SIGN, set(), Reason.NOT_OWNED),
    ("Final", ReportEvent.UNSIGN, {C, P}, "Preliminary"),
    ("Final", ReportEvent.UNSIGN, {C}, "Draft"),
    ("Addendum", ReportEvent.UNSIGN, {C, A, AC}, "Draft"),
    ("Addendum", ReportEvent.UNSIGN, {A, AC}, FailureCode.COOLING_ELAPSED),
    ("Final", ReportEvent.UNSIGN, {P}, FailureCode.COOLING_ELAPSED),
    ("Draft", ReportEvent.UNSIGN, {P}, FailureCode.NOT_SIGNED),
    ("Preliminary", ReportEvent.UNSIGN, {P}, FailureCode.NOT_SIGNED),
    ("Ordered", ReportEvent.UNSIGN, set(), FailureCode.NOT_SIGNED),
    ("Addendum", ReportEvent.ADDENDUM_UNSIGN, {A, A2, AC}, "Addendum"),
    ("Addendum", ReportEvent.ADDENDUM_UNSIGN, {A, AC}, "Final"),
    ("Addendum", ReportEvent.ADDENDUM_UNSIGN, {A}, FailureCode.COOLING_ELAPSED),
    ("Final", ReportEvent.ADDENDUM_UNSIGN, {C}, FailureCode.NO_SIGNED_ADDENDUM),
    ("Draft", ReportEvent.ADDENDUM_UNSIGN, set(), FailureCode.NO_SIGNED_ADDENDUM),
    ("Addendum", ReportEvent.ADDENDUM_RELEASE, {S, A, AC}, "Addendum"),
    ("Addendum", ReportEvent.ADDENDUM_RELEASE, {A, AC}, FailureCode.SIGN_DELAY_DISABLED),
    ("Addendum", ReportEvent.ADDENDUM_RELEASE, {S, A}, FailureCode.COOLING_ELAPSED),
    ("Final", ReportEvent.ADDENDUM_RELEASE, {S, C}, FailureCode.NO_SIGNED_ADDENDUM),
    ("Draft", ReportEvent.RESET, {ReportFact.FROM_ORDER, ReportFact.CONTENT}, "Ordered"),
    ("Draft", ReportEvent.RESET, {ReportFact.CONTENT}, Reason.NOT_FROM_ORDER),
    ("Ordered", ReportEvent.RESET, {ReportFact.CONTENT}, "Ordered"),
    ("Ordered", ReportEvent.RESET, {ReportFact.FROM_ORDER}, Reason.NOTHING_TO_RESET),
    ("Preliminary", ReportEvent.RESET, {ReportFact.FROM_ORDER}, Reason.NOT_DRAFT),
    ("Final", ReportEvent.RESET, {ReportFact.FROM_ORDER}, Reason.SIGNED),
    ("Draft", ReportEvent.UNASSIGN, set(), "Ordered"),
    ("Ordered", ReportEvent.UNASSIGN, set(), Reason.NOT_DRAFT),
    ("Preliminary", ReportEvent.UNASSIGN, set(), Reason.NOT_DRAFT),
    ("Final", ReportEvent.UNASSIGN, set(), Reason.SIGNED),
    ("Addendum", ReportEvent.UNASSIGN, set(), Reason.SIGNED),
    ("Draft", ReportEvent.PRELIM, set(), "Preliminary"),
    ("Preliminary", ReportEvent.PRELIM, {P}, "Preliminary"),
    ("Ordered", ReportEvent.PRELIM, set(), Reason.NOT_OWNED),
    ("Final", ReportEvent.PRELIM, set(), Reason.SIGNED),
    ("Ordered", ReportEvent.DELETE, set(), None),
    ("Draft", ReportEvent.DELETE, set(), None),
    ("Preliminary", ReportEvent.DELETE, set(), None),
    ("Final", ReportEvent.DELETE, {C}, Reason.SIGNED),
    ("Addendum", ReportEvent.DELETE, set(), Reason.SIGNED),
    ("Draft", ReportEvent.DISCARD, set(), None),
    ("Draft", ReportEvent.DISCARD, {ReportFact.FROM_ORDER}, "Ordered"),
    ("Ordered", ReportEvent.OPEN, set(), "Draft"),
    ("Final", ReportEvent.UPDATE_FILES, {C}, Reason.SIGNED),
]


@pytest.mark.parametrize(("status", "event", "facts", "expected"), ROWS)
def test_rows_of_the_document(
    status: str,
    event: ReportEvent,
    facts: set[ReportFact],
    expected: str | Reason | FailureCode | None,
) -> None:
    """States and transitions, and Errors: each row leads where the document says."""
    outcome = decide(Status(status), event, frozenset(facts))

    assert (outcome.to if isinstance(outcome, Transition) else outcome) == expected


def test_what_is_cleared() -> None:
    """Reset clears user and content, unassign only the user, unsign what came after signing."""
    reset = decide(Status.DRAFT, ReportEvent.RESET, frozenset({ReportFact.FROM_ORDER}))
    unassign = decide(Status.DRAFT, ReportEvent.UNASSIGN, frozenset())
    unsign = decide(Status.FINAL, ReportEvent.UNSIGN, frozenset({ReportFact.COOLING}))

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


def test_every_reason_has_its_sentence() -> None:
    """Each reason reads as a sentence in the problem body."""
    assert set(TEXTS) == set(Reason)
