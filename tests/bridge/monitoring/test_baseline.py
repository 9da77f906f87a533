"""Silence is noticed against earlier weeks, and a usual month raises no alarm."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random

from bridge.monitoring.baseline import (
    MINUTE,
    QUARTER,
    WEEK,
    expected_messages,
    longest_usual_pause,
    week_shift,
)
from bridge.monitoring.conditions import (
    DAY,
    AlertSeverity,
    AlertThresholds,
    SystemSnapshot,
    find_conditions,
)

HOUR = 60 * MINUTE
MONDAY = round(datetime(2026, 11, 2, tzinfo=UTC).timestamp() * 1000)
"""The first day of five weeks."""
T = MONDAY


def office_hours(at: int, busy: float) -> float:
    """Return the messages a minute of a department: days and nights, weekends, a lunch break."""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    weekend = moment.weekday() > 4
    hour = moment.hour
    share = 1.0 if 8 <= hour < 17 else 0.3 if 6 <= hour < 20 else 0.03
    return busy * (share * (0.2 if weekend else 1.0)) * (0.6 if hour == 12 else 1.0)


@cache
def traffic(busy: float, seed: int) -> list[int]:
    """Return random arrivals of several weeks."""
    random = Random(seed)
    found, at = [], MONDAY
    while at < MONDAY + 5 * WEEK:
        at += round(random.expovariate(busy / MINUTE))
        if random.random() < office_hours(at, busy) / busy:
            found.append(at)
    return found


def batches(size: int) -> list[int]:
    """Return a batch each quarter hour by day, from two minutes after its beginning."""
    starts = range(MONDAY, MONDAY + 5 * WEEK, QUARTER)
    days = [at for at in starts if 7 <= datetime.fromtimestamp(at / 1000, UTC).hour < 19]
    return [at + 2 * MINUTE + number * 500 for at in days for number in range(size)]


def expected_at(heard: Sequence[int], quarters: Counter[int], last: int, now: int) -> float:
    """Return what is expected after the messages of the last day, of which `last` is the last."""
    begin = max(last, now - DAY)
    weeks = []
    for number in range(1, 5):
        shift = week_shift(number, now, "UTC")
        start = begin - begin % QUARTER - shift
        weeks.append({at + shift: quarters[at] for at in range(start, now - shift, QUARTER)})
    minutes = sorted({at - at % MINUTE for at in heard})
    return expected_messages(weeks, max(begin, last + longest_usual_pause(minutes)), now)


def severity_at(
    arrivals: Sequence[int], quarters: Counter[int], now: int, stopped: int | None = None
) -> AlertSeverity | None:
    """Return the severity of the silence at a time, if the sender stopped before."""
    end = bisect_right(arrivals, now if stopped is None else min(now, stopped))
    last = arrivals[end - 1]
    if now - last < MINUTE:
        return None
    heard = arrivals[bisect_left(arrivals, now - DAY) : end]
    expected = {"a": expected_at(heard, quarters, last, now)}
    snapshot = SystemSnapshot(now, MONDAY, {}, {"a": last}, {}, {}, expected=expected)
    found = find_conditions(snapshot, AlertThresholds())
    assert all(condition.key == "quiet:listener a" for condition in found)
    return found[0].severity if found else None


def quarters_of(arrivals: Sequence[int]) -> Counter[int]:
    return Counter(at - at % QUARTER for at in arrivals)


def test_a_usual_week_raises_no_alarm() -> None:
    """Busy, quiet and batch senders, every three minutes of the fifth week."""
    for arrivals in (traffic(20, 1), traffic(2, 2), traffic(0.2, 3), batches(200)):
        quarters = quarters_of(arrivals)
        week = range(MONDAY + 4 * WEEK, MONDAY + 5 * WEEK, 3 * MINUTE)
        alarms = [at for at in week if severity_at(arrivals, quarters, at) is not None]
        assert alarms == []


def noticed_after(arrivals: Sequence[int], stopped: int) -> tuple[int, int]:
    """Return after how many minutes of silence the alarm begins, and when it is critical."""
    quarters = quarters_of([at for at in arrivals if at < MONDAY + 4 * WEEK])
    last = arrivals[bisect_right(arrivals, stopped) - 1]
    first, critical = 0, 0
    for minutes in range(1, 16 * 60):
        found = severity_at(arrivals, quarters, last + minutes * MINUTE, stopped)
        if found is not None:
            first = first or minutes
        if found is AlertSeverity.CRITICAL:
            critical = minutes
            break
    return first, critical


def test_a_silent_sender_is_noticed() -> None:
    """A busy one after three minutes; one with few messages when a dozen is missing."""
    tuesday = MONDAY + 4 * WEEK + DAY + 10 * HOUR
    assert noticed_after(traffic(20, 1), tuesday) == (3, 5)
    first, critical = noticed_after(traffic(2, 2), tuesday)
    assert first < 15 < critical < 60
    first, critical = noticed_after(batches(200), tuesday)
    assert 15 < first < 30


def test_a_holiday_a_week_ago_hides_nothing_but_alarms() -> None:
    """The smallest of the weeks counts: silence is not noticed at the time of a holiday."""
    arrivals = traffic(20, 1)
    holiday = MONDAY + 3 * WEEK + DAY
    with_holiday = [at for at in arrivals if not holiday <= at < holiday + DAY]
    assert noticed_after(with_holiday, MONDAY + 4 * WEEK + DAY + 10 * HOUR)[0] > 120
    assert noticed_after(with_holiday, MONDAY + 4 * WEEK + 2 * DAY + 10 * HOUR) == (3, 5)


def test_the_same_local_time_of_earlier_weeks() -> None:
    """A sender keeps its office hours when summer time ends."""
    after = datetime(2026, 10, 26, 8, tzinfo=UTC)  # in Vienna summer time ended the day before
    now, zone = round(after.timestamp() * 1000), "Europe/Vienna"
    assert week_shift(1, now, zone) == WEEK + HOUR
    assert week_shift(1, now, "UTC") == WEEK
    later = round((after + timedelta(days=7)).timestamp() * 1000)
    assert week_shift(1, later, zone) == WEEK


def test_expected_messages() -> None:
    """The smallest count of the weeks, and of a part of a quarter hour a part of its messages."""
    weeks = [{T: 30, T + QUARTER: 15}, {T: 60, T + QUARTER: 45}]
    assert expected_messages(weeks, T, T + QUARTER) == 30
    assert expected_messages(weeks, T + 10 * MINUTE, T + 20 * MINUTE) == 15
    assert expected_messages([*weeks, {}], T, T + HOUR) == 0


def test_the_longest_usual_pause() -> None:
    """A sender of batches is silent for as long as they are apart."""
    assert longest_usual_pause(range(T, T + HOUR, MINUTE)) == MINUTE
    assert longest_usual_pause(range(T, T + 10 * HOUR, QUARTER)) == 28 * MINUTE
    assert longest_usual_pause([]) == QUARTER
