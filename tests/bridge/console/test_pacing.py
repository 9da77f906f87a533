"""The index of numbers gives way to a rush, and catches up when it is quiet."""

import pytest

from bridge.console import dashboard as module
from bridge.console.dashboard import HOUR, STEPS, figures
from bridge.console.message_index import (
    BUSY_BATCH,
    BUSY_PAUSE_FACTOR,
    BUSY_RATE,
    FULL_BATCH,
    IDLE_PAUSE,
    MAX_PAUSE,
    MIN_PAUSE,
    ArrivalSample,
    arrival_rate,
    batch_size,
    pause_seconds,
)
from tests.bridge.console.conftest import START, Shelf


def test_the_rate_is_what_came_between_two_looks() -> None:
    """By ids, whoever took them in; a database that was emptied is no rush."""
    assert arrival_rate(ArrivalSample(10.0, 100), ArrivalSample(12.0, 300)) == pytest.approx(100.0)
    assert arrival_rate(ArrivalSample(10.0, 100), ArrivalSample(12.0, 1)) == 0


@pytest.mark.parametrize("took", [0.001, 0.05, 0.5, 10.0])
@pytest.mark.parametrize("full", [True, False])
def test_in_a_rush_the_share_is_small_and_never_none(took: float, *, full: bool) -> None:
    """At most a fortieth of the time, and a batch at least every half minute."""
    wait = pause_seconds(BUSY_RATE, took, full=full)
    assert MIN_PAUSE <= wait <= MAX_PAUSE
    assert wait >= min(MAX_PAUSE, took * BUSY_PAUSE_FACTOR)


def test_in_a_rush_little_is_read_at_a_time() -> None:
    """Who is to be acknowledged waits for a batch, and for the next only after a pause."""
    assert batch_size(BUSY_RATE) == BUSY_BATCH
    assert batch_size(BUSY_RATE - 1) == FULL_BATCH
    assert pause_seconds(BUSY_RATE, 0.0, full=False) == MIN_PAUSE < IDLE_PAUSE


def test_when_it_is_quiet_it_catches_up_at_half_speed() -> None:
    """And looks once a second when there is nothing more."""
    assert pause_seconds(0.0, 0.2, full=True) == pytest.approx(0.2)
    assert pause_seconds(BUSY_RATE - 1, 0.2, full=False) == IDLE_PAUSE


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
    monkeypatch.setattr(module, "_MAX_COUNTED", 4)
    assert figures(shelf.database, START)["inbox"][""]["parked"] == 5
    assert figures(shelf.database, START, listeners={"odd"}, destinations=set())["inbox"] == {}
