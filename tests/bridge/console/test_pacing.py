"""The index of numbers gives way to a rush, and catches up when it is quiet."""

import pytest

from bridge.console import dashboard as module
from bridge.console.dashboard import HOUR, STEPS, figures
from bridge.console.message_index import (
    FEW,
    LONGEST,
    MANY,
    PACE_SECONDS,
    RUSH,
    SHARE_IN_A_RUSH,
    SOON,
    Look,
    batch,
    pause,
    rate,
)
from tests.bridge.console.conftest import START, Shelf


def test_the_rate_is_what_came_between_two_looks() -> None:
    """By ids, whoever took them in; a database that was emptied is no rush."""
    assert rate(Look(10.0, 100), Look(12.0, 300)) == pytest.approx(100.0)
    assert rate(Look(10.0, 100), Look(12.0, 1)) == 0


@pytest.mark.parametrize("took", [0.001, 0.05, 0.5, 10.0])
@pytest.mark.parametrize("full", [True, False])
def test_in_a_rush_the_share_is_small_and_never_none(took: float, *, full: bool) -> None:
    """At most a fortieth of the time, and a batch at least every half minute."""
    wait = pause(RUSH, took, full=full)
    assert SOON <= wait <= LONGEST
    assert wait >= min(LONGEST, took * SHARE_IN_A_RUSH)


def test_in_a_rush_little_is_read_at_a_time() -> None:
    """Who is to be acknowledged waits for a batch, and for the next only after a pause."""
    assert batch(RUSH) == FEW
    assert batch(RUSH - 1) == MANY
    assert pause(RUSH, 0.0, full=False) == SOON < PACE_SECONDS


def test_when_it_is_quiet_it_catches_up_at_half_speed() -> None:
    """And looks once a second when there is nothing more."""
    assert pause(0.0, 0.2, full=True) == pytest.approx(0.2)
    assert pause(RUSH - 1, 0.2, full=False) == PACE_SECONDS


def test_an_hour_is_counted_in_parts(shelf: Shelf) -> None:
    """Each message in the part in which it came; who is limited to listeners sees no hour."""
    shelf.fill(1, 600)
    now = START + 601_000
    hour = figures(shelf.database, now)["hour"]["received"]
    part = HOUR // STEPS // 1000
    assert hour == [0] * (STEPS - 2) + [part, part]
    own = figures(shelf.database, now, listeners={"odd"}, destinations=set())
    assert own["hour"] is None
    assert set(own["received"]) == {"odd"}


def test_a_great_queue_is_counted_as_a_whole(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its index alone; to look at each for its listener would take too long."""
    shelf.fill(1, 5, state="parked")
    assert figures(shelf.database, START)["inbox"].keys() == {"odd", "even"}
    monkeypatch.setattr(module, "_MOST", 4)
    assert figures(shelf.database, START)["inbox"][""]["parked"] == 5
    assert figures(shelf.database, START, listeners={"odd"}, destinations=set())["inbox"] == {}
