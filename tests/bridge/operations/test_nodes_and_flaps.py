"""Every node's own files and disk are watched; what comes and goes is held down."""

from dataclasses import replace

from bridge.monitoring import certificates
from bridge.monitoring.alerts import News, alerts, take_note
from bridge.monitoring.certificates import Place
from bridge.monitoring.conditions import (
    DAY,
    Condition,
    Files,
    Life,
    Severity,
    Sight,
    Thresholds,
    conditions,
)
from bridge.store.database import Database

NOW = 100 * DAY
SOON, FINE, PAST = Life(0, NOW + 3 * DAY), Life(0, NOW + 90 * DAY), Life(0, NOW - 1)
CERTIFICATE = "certificate of listener a"
SIGHT = Sight(NOW, NOW, {}, {}, {}, {CERTIFICATE: FINE}, disk_free=99, host="one")
FLAP = Condition("depth:x", Severity.CRITICAL, "1000 wait in x")


def texts(*elsewhere: Files) -> list[str]:
    """What stands, as it is told."""
    sight = replace(SIGHT, elsewhere=elsewhere)
    return [each.text for each in conditions(sight, Thresholds(disk_free=50))]


def test_whose_files(database: Database) -> None:
    """What another node has is told with its name; what is old or our own is not heard of."""
    for number, (node, lives, free) in enumerate(
        [("b", {CERTIFICATE: SOON}, 10), ("c", {CERTIFICATE: PAST}, None), ("me", {}, 1)]
    ):
        certificates.note(database, Place(node, f"host-{node}"), lives, free, NOW + number)
    assert certificates.of_others(database, "me", NOW + 1) == []
    near, *further = certificates.of_others(database, "me", NOW - 1)
    assert texts(near) == [
        f"the {CERTIFICATE} expires in 3 d on host-b",
        "less than 0 MiB are left on the disk of HOME on host-b",
    ]
    assert texts(near, *further)[0] == f"the {CERTIFICATE} has expired on host-c"
    assert texts() == []
    assert texts(Files("one", {CERTIFICATE: SOON}, 99)) == [f"the {CERTIFICATE} expires in 3 d"]
    certificates.note(database, Place("b", "host-b"), {}, 99, NOW + 2 * DAY)
    assert certificates.of_others(database, "me", 0) == [Files("host-b", {}, 99)]


def test_what_comes_and_goes(database: Database) -> None:
    """Told thrice as new, then as what comes and goes, then no more until it stays away."""
    told = []
    for now in range(40):
        standing = [FLAP] if now % 2 == 0 else []
        told += take_note(database, standing, now, 0, hold=10)
    assert [each.news for each in told] == [News.RAISED, News.CLEARED] * 3 + [News.RAISED]
    assert told[-1].condition.text == f"{FLAP.text}; it comes and goes"
    assert alerts(database)[0]["cleared_at"] is None
    assert take_note(database, [], 47, 0, hold=10) == []
    (over,) = take_note(database, [], 48, 0, hold=10)
    assert over.news is News.CLEARED
    (anew,) = take_note(database, [FLAP], 58, 0, hold=10)
    assert anew.condition.text == FLAP.text
