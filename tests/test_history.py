"""The history checker finds each kind of violation, and none in a good history."""

import pytest

from tests.history import Event, Kind, violations


def delivered(step: int, control_id: str, content: bytes = b"text", order: str = "A1") -> Event:
    return Event(Kind.DELIVERED, order, step, control_id, content)


SENT, TAKEN, LISTED = (Event(kind, "A1", 1) for kind in (Kind.SENT, Kind.ACKNOWLEDGED, Kind.LISTED))
RELEASED = Event(Kind.RELEASED, "A1", 1)
GONE = Event(Kind.ACKNOWLEDGED, "A1", 2, removes=True)


@pytest.mark.parametrize(
    "events",
    [
        [SENT, TAKEN, LISTED],
        [SENT],
        [SENT, LISTED],
        [SENT, TAKEN, Event(Kind.SENT, "A1", 2), Event(Kind.LISTED, "A1", 2)],
        [RELEASED, delivered(1, "X"), delivered(1, "X")],
        [SENT, TAKEN, GONE],
        [SENT, TAKEN, LISTED, Event(Kind.SENT, "A1", 2, removes=True)],
        [SENT, TAKEN, GONE, Event(Kind.SENT, "A1", 3), Event(Kind.LISTED, "A1", 3)],
    ],
    ids=[
        "applied", "not answered", "not answered and applied", "a later step", "repeated",
        "removed", "not answered and not removed", "registered again, not answered",
    ],
)  # fmt: skip
def test_a_good_history(events: list[Event]) -> None:
    """A retransmission, or an order whose acknowledgment was lost, is no violation."""
    assert violations(events) == []


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([SENT, TAKEN], "acknowledged and not listed"),
        ([SENT, TAKEN, LISTED, LISTED], "listed 2 times"),
        ([LISTED], "listed and never sent"),
        (
            [SENT, Event(Kind.ACKNOWLEDGED, "A1", 2), LISTED],
            "step 2 was acknowledged and step 1 is listed",
        ),
        ([RELEASED], "version 1 was released and not delivered"),
        ([delivered(1, "X"), delivered(1, "Y")], "version 1 was delivered under 2 control ids"),
        ([delivered(1, "X"), delivered(1, "X", b"other")], "control id X has two contents"),
        ([delivered(2, "X"), delivered(1, "Y")], "version 1 was delivered first after version 2"),
        (
            [delivered(1, "X"), delivered(2, "Y"), delivered(1, "X")],
            "version 1 was delivered again after version 2",
        ),
        ([SENT, TAKEN, GONE, LISTED], "step 2 removed it and it is listed"),
        (
            [delivered(1, "X", order="A0"), delivered(1, "X")],
            "control id X belongs to A0",
        ),
    ],
)
def test_a_violation(events: list[Event], problem: str) -> None:
    assert violations(events) == [f"A1: {problem}"]
