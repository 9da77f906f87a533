"""What is told, how often, and when it is over."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.observability.metrics import Metrics
from bridge.operations.alerts import News, Notice, alerts, take_note
from bridge.operations.channels import Kind, channels, note_activity, pause, resume
from bridge.operations.conditions import (
    DAY,
    Condition,
    Queue,
    Severity,
    Sight,
    Thresholds,
    conditions,
    duration,
)
from bridge.operations.watch import Watch
from bridge.store.database import Database

NOW = 100 * DAY
QUIET = Sight(NOW, NOW - DAY, {}, {}, {}, {})
TROUBLE = Condition("parked:x", Severity.WARNING, "1 parked")


@pytest.mark.parametrize(
    ("sight", "limits", "keys"),
    [
        ({"queues": {"q": Queue(9, 0, NOW)}}, {"queue_depth": 10}, []),
        ({"queues": {"q": Queue(10, 0, NOW)}}, {"queue_depth": 10}, ["depth:q"]),
        ({"queues": {"q": Queue(10, 0, NOW)}}, {"queue_depth": 0}, []),
        ({"queues": {"q": Queue(1, 0, NOW - 600_000)}}, {}, ["age:q"]),
        ({"queues": {"q": Queue(0, 1, None)}}, {}, ["parked:q"]),
        ({"queues": {"q": Queue(0, 1, None)}}, {"parked": 2}, []),
        ({"last_message": {"a": NOW - 5000}}, {"silence": {"a": 5000}}, ["silence:a"]),
        ({"last_message": {"a": NOW - 4999}}, {"silence": {"a": 5000}}, []),
        ({"last_message": {}}, {"silence": {"a": DAY}}, ["silence:a"]),
        ({"started_at": NOW - 5}, {"silence": {"a": DAY}}, []),
        (
            {"last_message": {"a": 1}, "paused": {"listener a": 1}},
            {"silence": {"a": 5000}},
            ["paused:listener a"],
        ),
        ({"certificates": {"l": NOW + 14 * DAY}}, {}, []),
        ({"certificates": {"l": NOW + 14 * DAY - 1}}, {}, ["certificate:l"]),
        ({"certificates": {"l": NOW}}, {"certificate": 0}, ["certificate:l"]),
    ],
)
def test_conditions(sight: dict[str, object], limits: dict[str, object], keys: list[str]) -> None:
    """Each stands at its threshold, and not before."""
    found = conditions(replace(QUIET, **sight), Thresholds(**limits))  # type: ignore[arg-type]
    assert [each.key for each in found] == keys


def test_durations() -> None:
    """In the biggest unit."""
    assert [duration(each) for each in (999, 60_000, 7_200_000, 3 * DAY)] == [
        "0 s", "1 min", "2 h", "3 d",
    ]  # fmt: skip


def news(notices: Sequence[Notice]) -> list[str]:
    """What was told, in a word each."""
    return [each.news.value for each in notices]


def test_told_once_reminded_and_cleared(database: Database) -> None:
    """Raised once, however often it is seen; reminded after a while; cleared once; raised anew."""
    seen = [
        news(take_note(database, standing, now, repeat_after=1000))
        for now, standing in [
            (1, [TROUBLE]),
            (2, [TROUBLE]),
            (1000, [TROUBLE]),
            (1001, [TROUBLE]),
            (1500, []),
            (1501, []),
            (1600, [TROUBLE]),
        ]
    ]
    assert seen == [["raised"], [], [], ["reminder"], ["cleared"], [], ["raised"]]
    (row,) = alerts(database)
    assert (row["raised_at"], row["cleared_at"]) == (1600, None)


def watch(database: Database, tell: list[object], clock: list[int]) -> Watch:
    """A watch over one paused listener."""
    return Watch(
        database,
        Thresholds(),
        dict,
        tell,  # type: ignore[arg-type]
        Metrics(),
        lambda: clock[0],
        0,
        0,
        frozenset({"listener a"}),
    )


def test_who_could_not_be_told_is_told_the_next_time(database: Database) -> None:
    """While nobody can be reached it stays news; one way that works is enough."""
    heard: list[Notice] = []

    def broken(notices: Sequence[Notice]) -> None:
        raise OSError

    clock = [1]
    pause(database, Kind.LISTENER, "a", 1, "ada")
    pause(database, Kind.LISTENER, "gone", 1, "ada")
    watch(database, [broken], clock).look()
    clock[0] = 2
    watch(database, [broken, heard.extend], clock).look()
    clock[0] = 3
    watch(database, [heard.extend], clock).look()
    assert [(each.news, each.condition.key) for each in heard] == [
        (News.RAISED, "paused:listener a")
    ]


def test_channels(database: Database) -> None:
    """The first pause keeps its name; resume tells; activity only grows."""
    pause(database, Kind.DESTINATION, "d", 5, "ada")
    pause(database, Kind.DESTINATION, "d", 6, "bob")
    found = channels(database, Kind.DESTINATION)["d"]
    assert (found.paused, found.paused_at, found.paused_by) == (True, 5, "ada")
    assert channels(database, Kind.LISTENER) == {}
    assert resume(database, Kind.DESTINATION, "d")
    assert not resume(database, Kind.DESTINATION, "d")
    note_activity(database, {(Kind.DESTINATION, "d"): 9, (Kind.LISTENER, "l"): 8})
    note_activity(database, {(Kind.DESTINATION, "d"): 7})
    assert channels(database, Kind.DESTINATION)["d"].active_at == 9
    assert not channels(database, Kind.LISTENER)["l"].paused
