"""The state table, walked as data: every status with every event, under every set of facts."""

from itertools import chain, combinations, product

import pytest

from bridge.engine.rules.lifecycle import (
    REFUSALS,
    TRANSITIONS,
    Branch,
    Event,
    Fact,
    Failure,
    Part,
    decide,
)
from bridge.engine.rules.reasons import TEXTS, Reason
from bridge.engine.rules.status import SIGNED, Status

EVERY_SET = [
    frozenset(facts)
    for facts in chain.from_iterable(combinations(Fact, size) for size in range(len(Fact) + 1))
]


@pytest.mark.parametrize(("status", "event"), list(product(Status, Event)))
def test_every_pair_is_decided(status: Status, event: Event) -> None:
    """Under all 1,024 sets of facts: a branch of the table, or a refusal, and never neither."""
    for facts in EVERY_SET:
        outcome = decide(status, event, facts)
        if isinstance(outcome, Branch):
            assert outcome in TRANSITIONS[status, event]
            assert outcome.when <= facts
        else:
            assert outcome in {row.refusal for row in REFUSALS[event]}
            assert not any(row.when <= facts for row in TRANSITIONS.get((status, event), ()))


# The interface document's rows: from, event, facts, where to (None: removed) or why not.
C, P, I_, S = Fact.COOLING, Fact.PRELIM_READ, Fact.IGNORES_DELAY, Fact.SITE_COOLS
A, A2, AC = Fact.SIGNED_ADDENDUM, Fact.OTHER_SIGNED_ADDENDUM, Fact.ADDENDUM_COOLING
ROWS = [
    ("Draft", Event.SIGN, {S}, "Final"),
    ("Draft", Event.SIGN, {S, I_}, "Final"),
    ("Draft", Event.SIGN, set(), "Final"),
    ("Preliminary", Event.SIGN, {P}, "Final"),
    ("Final", Event.SIGN, {S, C, I_}, "Final"),
    ("Addendum", Event.SIGN, {S, C, I_, A}, "Addendum"),
    ("Final", Event.SIGN, {S, C}, Failure.ALREADY_SIGNED),
    ("Final", Event.SIGN, {S}, Failure.ALREADY_SIGNED),
    ("Final", Event.SIGN, {S, I_}, Failure.ALREADY_SIGNED),
    ("Ordered", Event.SIGN, set(), Reason.NOT_OWNED),
    ("Final", Event.UNSIGN, {C, P}, "Preliminary"),
    ("Final", Event.UNSIGN, {C}, "Draft"),
    ("Addendum", Event.UNSIGN, {C, A, AC}, "Draft"),
    ("Addendum", Event.UNSIGN, {A, AC}, Failure.COOLING_ELAPSED),
    ("Final", Event.UNSIGN, {P}, Failure.COOLING_ELAPSED),
    ("Draft", Event.UNSIGN, {P}, Failure.NOT_SIGNED),
    ("Preliminary", Event.UNSIGN, {P}, Failure.NOT_SIGNED),
    ("Ordered", Event.UNSIGN, set(), Failure.NOT_SIGNED),
    ("Addendum", Event.ADDENDUM_UNSIGN, {A, A2, AC}, "Addendum"),
    ("Addendum", Event.ADDENDUM_UNSIGN, {A, AC}, "Final"),
    ("Addendum", Event.ADDENDUM_UNSIGN, {A}, Failure.COOLING_ELAPSED),
    ("Final", Event.ADDENDUM_UNSIGN, {C}, Failure.NO_SIGNED_ADDENDUM),
    ("Draft", Event.ADDENDUM_UNSIGN, set(), Failure.NO_SIGNED_ADDENDUM),
    ("Addendum", Event.ADDENDUM_RELEASE, {S, A, AC}, "Addendum"),
    ("Addendum", Event.ADDENDUM_RELEASE, {A, AC}, Failure.SIGN_DELAY_DISABLED),
    ("Addendum", Event.ADDENDUM_RELEASE, {S, A}, Failure.COOLING_ELAPSED),
    ("Final", Event.ADDENDUM_RELEASE, {S, C}, Failure.NO_SIGNED_ADDENDUM),
    ("Draft", Event.RESET, {Fact.FROM_ORDER, Fact.CONTENT}, "Ordered"),
    ("Draft", Event.RESET, {Fact.CONTENT}, Reason.NOT_FROM_ORDER),
    ("Ordered", Event.RESET, {Fact.CONTENT}, "Ordered"),
    ("Ordered", Event.RESET, {Fact.FROM_ORDER}, Reason.NOTHING_TO_RESET),
    ("Preliminary", Event.RESET, {Fact.FROM_ORDER}, Reason.NOT_DRAFT),
    ("Final", Event.RESET, {Fact.FROM_ORDER}, Reason.SIGNED),
    ("Draft", Event.UNASSIGN, set(), "Ordered"),
    ("Ordered", Event.UNASSIGN, set(), Reason.NOT_DRAFT),
    ("Preliminary", Event.UNASSIGN, set(), Reason.NOT_DRAFT),
    ("Final", Event.UNASSIGN, set(), Reason.SIGNED),
    ("Addendum", Event.UNASSIGN, set(), Reason.SIGNED),
    ("Draft", Event.PRELIM, set(), "Preliminary"),
    ("Preliminary", Event.PRELIM, {P}, "Preliminary"),
    ("Ordered", Event.PRELIM, set(), Reason.NOT_OWNED),
    ("Final", Event.PRELIM, set(), Reason.SIGNED),
    ("Ordered", Event.DELETE, set(), None),
    ("Draft", Event.DELETE, set(), None),
    ("Preliminary", Event.DELETE, set(), None),
    ("Final", Event.DELETE, {C}, Reason.SIGNED),
    ("Addendum", Event.DELETE, set(), Reason.SIGNED),
    ("Draft", Event.DISCARD, set(), None),
    ("Draft", Event.DISCARD, {Fact.FROM_ORDER}, "Ordered"),
    ("Ordered", Event.OPEN, set(), "Draft"),
    ("Final", Event.UPDATE_FILES, {C}, Reason.SIGNED),
]


@pytest.mark.parametrize(("status", "event", "facts", "expected"), ROWS)
def test_rows_of_the_document(
    status: str, event: Event, facts: set[Fact], expected: str | Reason | Failure | None
) -> None:
    """States and transitions, and Errors: each row leads where the document says."""
    outcome = decide(Status(status), event, frozenset(facts))

    assert (outcome.to if isinstance(outcome, Branch) else outcome) == expected


def test_what_is_cleared() -> None:
    """Reset clears user and content, unassign only the user, unsign what came after signing."""
    reset = decide(Status.DRAFT, Event.RESET, frozenset({Fact.FROM_ORDER}))
    unassign = decide(Status.DRAFT, Event.UNASSIGN, frozenset())
    unsign = decide(Status.FINAL, Event.UNSIGN, frozenset({Fact.COOLING}))

    assert isinstance(reset, Branch)
    assert isinstance(unassign, Branch)
    assert isinstance(unsign, Branch)
    assert reset.clears == {Part.OWNER, Part.CONTENT}
    assert unassign.clears == {Part.OWNER}
    assert unsign.clears == {Part.SIGNATURE, Part.LATER_ADDENDA}


def test_signed_text_is_never_lost() -> None:
    """No event removes a signed report or clears its content."""
    for (status, _), branches in TRANSITIONS.items():
        for branch in branches:
            if status in SIGNED:
                assert branch.to is not None
                assert Part.CONTENT not in branch.clears


def test_every_reason_has_its_sentence() -> None:
    """Each reason reads as a sentence in the problem body."""
    assert set(TEXTS) == set(Reason)
