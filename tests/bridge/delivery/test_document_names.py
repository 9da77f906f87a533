"""TXA-12 and TXA-13 by what a receiver was told before: each message follows the right document."""

import pytest

from bridge.delivery.delivery_history import DeliveredEvent, document_names
from mappings.outbound.results import ResultEvent

PRELIMINARY, FINAL = DeliveredEvent(ResultEvent.PRELIMINARY), DeliveredEvent(ResultEvent.FINAL)
CORRECTION, CANCELLATION = (
    DeliveredEvent(ResultEvent.CORRECTION),
    DeliveredEvent(ResultEvent.CANCELLATION),
)


def early(number: int) -> DeliveredEvent:
    """Give an addendum that is out before its report."""
    return DeliveredEvent(ResultEvent.ADDENDUM, number)


def withdrawn(number: int) -> DeliveredEvent:
    """Give the withdrawal of that addendum."""
    return DeliveredEvent(ResultEvent.RETRACTION, number)


@pytest.mark.parametrize(
    ("told", "number", "parent"),
    [
        ([FINAL], "", None),
        ([PRELIMINARY, FINAL], "", None),
        ([FINAL, early(2)], ".A2", ""),
        ([early(1), withdrawn(1)], ".R1", ".A1"),
        ([PRELIMINARY, early(1), withdrawn(1)], ".R1", ".A1"),
        ([early(1), early(2), withdrawn(1), withdrawn(2)], ".R2", ".A2"),
        ([early(1), withdrawn(1), CORRECTION], ".R2", ".R1"),
        ([PRELIMINARY, early(1), withdrawn(1), CORRECTION], ".R2", ""),
        ([FINAL, CORRECTION, CORRECTION], ".R2", ".R1"),
        ([FINAL, CORRECTION, early(1)], ".A1", ".R1"),
        ([PRELIMINARY, CANCELLATION], "", None),
        ([PRELIMINARY, CANCELLATION, PRELIMINARY], ".N1", None),
    ],
)
def test_what_a_message_follows(
    told: list[DeliveredEvent], number: str, parent: str | None
) -> None:
    """A withdrawal follows its addendum, a correction the report, an addendum what stands."""
    base = document_names("r", "r:final:1:x", [FINAL]).number
    names = document_names("r", "r:final:1:x", told)
    assert names.number == base + number
    assert names.parent == ("" if parent is None else base + parent)
