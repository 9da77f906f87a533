"""The figures of the dashboard: counts of the last hour and of long queues."""

import pytest

from bridge.console import dashboard
from bridge.console.dashboard import HOUR, STEPS, read_figures
from tests.bridge.message_store import START, MessageStore


def test_the_last_hour_is_counted_in_parts(store: MessageStore) -> None:
    """Figures limited to listeners contain no hour, because its counts cover all connections."""
    store.fill(1, 600)
    now = START + 601_000
    hour = read_figures(store.database, now)["hour"]["received"]
    part = HOUR // STEPS // 1000
    assert hour == [0] * (STEPS - 2) + [part, part]
    own = read_figures(store.database, now, listeners={"odd"}, destinations=set())
    assert own["hour"] is None
    assert set(own["received"]) == {"odd"}


def test_a_long_queue_is_one_total(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count by listener would read too many rows."""
    store.fill(1, 5, state="parked")
    assert read_figures(store.database, START)["inbox"].keys() == {"odd", "even"}
    monkeypatch.setattr(dashboard, "_MAX_COUNTED", 4)
    assert read_figures(store.database, START)["inbox"][""]["parked"] == 5
    assert read_figures(store.database, START, listeners={"odd"}, destinations=set())["inbox"] == {}
