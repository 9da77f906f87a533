"""TXA-12 and TXA-13 follow from the earlier messages of the receiver."""

import pytest

from bridge.delivery.delivery_history import DeliveredEvent, document_names
from mappings.outbound.results import ResultEvent

PRELIMINARY, FINAL = DeliveredEvent(ResultEvent.PRELIMINARY), DeliveredEvent(ResultEvent.FINAL)
CORRECTION, CANCELLATION = (
    DeliveredEvent(ResultEvent.CORRECTION),
    DeliveredEvent(ResultEvent.CANCELLATION),
)


def early(number: int) -> DeliveredEvent:
    """Return an addendum that is released before its report."""
    return DeliveredEvent(ResultEvent.ADDENDUM, number)


def withdrawn(number: int) -> DeliveredEvent:
    return DeliveredEvent(ResultEvent.RETRACTION, number)


@pytest.mark.parametrize(
    ("delivered", "number", "parent"),
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
        ([PRELIMINARY, FINAL, CANCELLATION, CORRECTION], ".R1", ".N1"),
        ([PRELIMINARY, CANCELLATION, PRELIMINARY], ".N1", None),
    ],
)
def test_parent_documents(delivered: list[DeliveredEvent], number: str, parent: str | None) -> None:
    """The parent of a retraction is its addendum, that of a correction is the report."""
    base = document_names("r", "r:final:1:x", [FINAL]).number
    names = document_names("r", "r:final:1:x", delivered)
    assert names.number == base + number
    assert names.parent == ("" if parent is None else base + parent)
