"""
Statistics of listeners and destinations over time, in the table `channel_statistics`. Blocking.

Each process counts for Prometheus. `StatisticsRecorder` stores the differences of these counters
for each minute, in rows of its own (`source`), and replaces those of the minute in progress. So no
process waits for another, nothing is counted twice, and the ACK path does no further work. The
leader adds the lengths of the queues, and sums minutes up to quarter hours and hours.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import Counter as PrometheusCounter
from sqlalchemy import ColumnElement, Connection, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.metrics import FAST, Metrics
from bridge.monitoring.baseline import (
    MIN_WEEKS,
    MINUTE,
    QUARTER,
    WEEKS,
    expected_messages,
    longest_usual_pause,
    week_shift,
)
from bridge.monitoring.conditions import DAY, QueueBacklog
from bridge.queue import queries
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.listing_rows import Depth
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.tables import CHANNEL_STATISTICS, upsert
from config.sections import ChannelKind

HOUR: Final = 60 * MINUTE
LISTENER, DESTINATION = ChannelKind.LISTENER.value, ChannelKind.DESTINATION.value

ChannelKey = tuple[str, str]
"""Kind and name of a channel."""
PRESENCE: Final[ChannelKey] = ("service", "")
_CHECKED: Final[ChannelKey] = ("service", "alerts")
"""Has a row for each span in which a leader ran; without one, nothing was recorded."""
ALL_LISTENERS: Final[ChannelKey] = (LISTENER, "")
"""The queue of all listeners together, while it is too long to be counted by listener."""

OUTCOMES: Final[Mapping[str, Sequence[str]]] = {
    LISTENER: ("accepted", "refused", "retransmit", "done", "ignored", "parked"),
    DESTINATION: ("delivered", "refused", "unanswered", "not_connected", "parked"),
}
"""
A listener counts how it answered (the first three), and what became of accepted messages, at each
attempt that decided it. A destination counts each attempt; `parked`: there was no message to send.
"""
MESSAGES: Final[Mapping[str, frozenset[str]]] = {
    LISTENER: frozenset({"accepted", "refused"}),
    DESTINATION: frozenset({"delivered", "refused", "unanswered"}),
}
"""The outcomes that are messages received or sent. A retransmit is no new message."""
ATTEMPTS: Final[Mapping[str, frozenset[str]]] = {
    LISTENER: MESSAGES[LISTENER],
    DESTINATION: frozenset(OUTCOMES[DESTINATION]),
}
"""The outcomes of which `ERRORS` are a share."""
ERRORS: Final[Mapping[str, frozenset[str]]] = {
    LISTENER: frozenset({"refused", "parked"}),
    DESTINATION: frozenset({"refused", "unanswered", "not_connected", "parked"}),
}

SPANS: Final[Mapping[int, int]] = {1: 26 * HOUR, 15: 35 * DAY, 60: 400 * DAY}
"""How long rows are kept (ms), by the minutes of their span."""
_QUARTER_SPAN: Final = 15
_FINER: Final[Mapping[int, int]] = {60: 15, 15: 1}
_APPLIED: Final[Mapping[str, str]] = {
    QueueEvent.ACCEPTED.value: "done",
    QueueEvent.IGNORED.value: "ignored",
    QueueEvent.GIVEN_UP.value: "parked",
}
_NO_USABLE_REPLY: Final = frozenset({"mismatch", "silence", "garbage"})
"""Values of `ReplyKind` in `bridge.delivery.reply_policy`; a test compares."""
_LEADER: Final = "leader"
_MAX_COUNTED: Final = 20_000
"""Above this number of open messages they are not counted by listener."""
_ROW: Final = CHANNEL_STATISTICS.c


def outcome_of_attempt(reply: str, event: str) -> str:
    """Return the outcome of an attempt to deliver, from the labels of its counter."""
    if event == QueueEvent.ACCEPTED.value:
        return "delivered"
    if event == NOT_CONNECTED:
        return "not_connected"
    if not reply:
        return "parked"
    return "unanswered" if reply in _NO_USABLE_REPLY else "refused"


@dataclass(slots=True)
class Figures:
    """What a channel did within a span."""

    counts: Counter[str] = field(default_factory=Counter)
    latency: list[int] = field(default_factory=list)
    """Numbers of acknowledgments or replies, by the bounds of `FAST`; empty without any."""
    waiting: int | None = None
    """The largest number of items that waited."""
    oldest: int | None = None
    """The longest time (ms) that one of them had waited."""

    def add(self, other: "Figures") -> None:
        self.counts.update(other.counts)
        if not self.latency:
            self.latency = list(other.latency)
        elif other.latency:
            pairs = zip(self.latency, other.latency, strict=True)
            self.latency = [own + more for own, more in pairs]
        self.waiting = _largest(self.waiting, other.waiting)
        self.oldest = _largest(self.oldest, other.oldest)

    def total(self, outcomes: Iterable[str]) -> int:
        return sum(self.counts[outcome] for outcome in outcomes)


def _largest(first: int | None, second: int | None) -> int | None:
    return max((value for value in (first, second) if value is not None), default=None)


def percentile(latency: Sequence[int], share: float) -> float | None:
    """
    Return the latency (ms) below which a share of the observations is; None without any.

    Within a bucket, observations are taken as evenly distributed.
    """
    total, below, bound = sum(latency), 0, 0.0
    wanted = share * total
    for count, upper in zip(latency, FAST, strict=False):
        if count and below + count >= wanted:
            return round(1000 * (bound + (upper - bound) * (wanted - below) / count), 1)
        below, bound = below + count, upper
    return 1000 * FAST[-1] if total else None


class StatisticsRecorder:
    """Stores what the counters of one process have counted since it began."""

    def __init__(self, metrics: Metrics, database: Database, source: str) -> None:
        """`source` names this run of the process: no other run may have the same."""
        self._metrics = metrics
        self._database = database
        self._source = source
        self._setbacks = 0
        self._minute = 0
        self._base: Mapping[ChannelKey, Figures] = {}  # the counters before `_minute`
        self._stored: Mapping[ChannelKey, Figures] = {}  # the counters that are in the database
        self._confirmed = True

    def store(self, now: int) -> None:
        """Store the counts of the minute in progress. Raises StoreError; call it again then."""
        self._begin_minute(now - now % MINUTE)
        current = _read_counters(self._metrics)
        rows = [
            _record(1, self._minute, key, self._name, figures)
            for key, now_counted in current.items()
            if (figures := _difference(now_counted, self._base.get(key)))
        ]
        if rows and current != self._stored:
            self._confirmed = False
            with self._database.write_without_sync() as connection:
                connection.execute(upsert(CHANNEL_STATISTICS, "counts", "latency"), rows)
        self._stored, self._confirmed = current, True

    @property
    def _name(self) -> str:
        return f"{self._source}/{self._setbacks}" if self._setbacks else self._source

    def _begin_minute(self, minute: int) -> None:
        """
        Begin a minute, unless the rows of the previous one may not be stored.

        They are then replaced by this call, because a failed commit may have succeeded.
        """
        if minute == self._minute or (
            not self._confirmed and self._minute < minute < self._minute + QUARTER
        ):
            return
        if minute < self._minute:
            self._setbacks += 1  # the clock was set back: rows of the same minute exist already
        self._minute, self._base = minute, self._stored


def _read_counters(metrics: Metrics) -> dict[ChannelKey, Figures]:
    found: dict[ChannelKey, Figures] = {}

    def of(kind: str, name: str) -> Figures:
        return found.setdefault((kind, name), Figures())

    for (listener, outcome), count in metrics.received.values().items():
        of(LISTENER, listener).counts[outcome] += count
    for labels, count in _samples(metrics.applied):
        if (applied := _APPLIED.get(labels["outcome"])) is not None:
            of(LISTENER, labels["listener"]).counts[applied] += count
    for labels, count in _samples(metrics.deliveries):
        outcome = outcome_of_attempt(labels["reply"], labels["outcome"])
        of(DESTINATION, labels["destination"]).counts[outcome] += count
    for (listener,), buckets in metrics.ack_seconds.values().items():
        of(LISTENER, listener).latency = buckets
    for (destination,), buckets in metrics.reply_seconds.values().items():
        of(DESTINATION, destination).latency = buckets
    return found


def _samples(counter: PrometheusCounter) -> Iterator[tuple[Mapping[str, str], int]]:
    for family in counter.collect():
        for sample in family.samples:
            if sample.name.endswith("_total"):
                yield sample.labels, int(sample.value)


def _difference(current: Figures, before: Figures | None) -> Figures | None:
    """Return what was counted since `before`; None if nothing."""
    if before is None:
        found = current
    else:
        old = before.latency or [0] * len(current.latency)
        latency = [now - then for now, then in zip(current.latency, old, strict=True)]
        found = Figures(Counter(current.counts), latency)
        found.counts.subtract(before.counts)
    return found if any(found.counts.values()) or any(found.latency) else None


def _record(span: int, at: int, key: ChannelKey, source: str, figures: Figures) -> dict[str, Any]:
    counts = {outcome: count for outcome, count in sorted(figures.counts.items()) if count}
    return {
        "span": span,
        "at": at,
        "kind": key[0],
        "name": key[1],
        "source": source,
        "counts": json.dumps(counts, separators=(",", ":")),
        "latency": json.dumps(figures.latency, separators=(",", ":"))
        if any(figures.latency)
        else "",
        "waiting": figures.waiting,
        "oldest": figures.oldest,
    }


def read_backlogs(database: Database) -> dict[ChannelKey, QueueBacklog]:
    """
    Return what waits and what is parked, by channel.

    If the inbox is long, all its messages are under `ALL_LISTENERS`.
    """
    total = queries.open_messages(database)
    if sum(depth.count for depth in total.values()) > _MAX_COUNTED:
        inbox = {"": total}
    else:
        inbox = queries.open_by_listener(database)
    outbox = queries.open_deliveries(database)
    return {
        **{(LISTENER, name): _backlog(depths) for name, depths in inbox.items()},
        **{(DESTINATION, name): _backlog(depths) for name, depths in outbox.items()},
    }


def _backlog(depths: Mapping[QueueState, Depth]) -> QueueBacklog:
    waiting = [
        depths[state] for state in (QueueState.QUEUED, QueueState.CLAIMED) if state in depths
    ]
    parked = depths.get(QueueState.PARKED)
    return QueueBacklog(
        waiting=sum(depth.count for depth in waiting),
        parked=0 if parked is None else parked.count,
        oldest=min((depth.oldest for depth in waiting if depth.count), default=None),
    )


def store_backlogs(
    database: Database, backlogs: Mapping[ChannelKey, QueueBacklog], now: int
) -> None:
    """Store the largest backlogs of the minute in progress; the leader calls it several times."""
    figures = {PRESENCE: Figures()}
    for key, backlog in backlogs.items():
        if backlog.waiting:
            age = max(0, now - (now if backlog.oldest is None else backlog.oldest))
            figures[key] = Figures(waiting=backlog.waiting, oldest=age)
    _store_of_leader(database, figures, now)


def store_check(database: Database, now: int) -> None:
    """Store that the alert conditions were checked in the minute in progress."""
    _store_of_leader(database, {_CHECKED: Figures()}, now)


def was_checked(connection: Connection, since: int) -> bool:
    """True if the alert conditions were checked in the minute of a time (ms), or later."""
    kind, name = _CHECKED
    own = (_ROW.span == 1, _ROW.at >= since - since % MINUTE, _ROW.kind == kind, _ROW.name == name)
    return connection.execute(select(_ROW.at).where(*own).limit(1)).first() is not None


def _store_of_leader(database: Database, figures: Mapping[ChannelKey, Figures], now: int) -> None:
    minute = now - now % MINUTE
    rows = [_record(1, minute, key, _LEADER, found) for key, found in figures.items()]
    statement = insert(CHANNEL_STATISTICS)
    larger = {
        column.name: case(
            (statement.excluded[column.name] > column, statement.excluded[column.name]),
            else_=column,
        )
        for column in (_ROW.waiting, _ROW.oldest)
    }
    with database.write_without_sync() as connection:
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[*CHANNEL_STATISTICS.primary_key], set_=larger
            ),
            rows,
        )


def roll_up(database: Database, now: int) -> None:
    """
    Sum minutes up to quarter hours, and those to hours, and delete old rows.

    Only complete spans; the last two that are stored are summed again, for rows that came late.
    """
    for span in sorted(_FINER):
        step = span * MINUTE
        with database.read() as connection:
            newest = _newest(connection, span)
            begin = now - SPANS[_FINER[span]] if newest is None else newest - step
            begin = max(begin, now - SPANS[_FINER[span]])
            oldest = _oldest(connection, _FINER[span], begin)
        if oldest is not None:
            for at in range(oldest - oldest % step, now - now % step, step):
                _sum_up(database, span, at)
    for span, kept in SPANS.items():
        with database.delete_without_sync() as connection:
            old = delete(CHANNEL_STATISTICS).where(_ROW.span == span, _ROW.at < now - kept)
            connection.execute(old)


def _newest(connection: Connection, span: int) -> int | None:
    found: int | None = connection.scalar(select(func.max(_ROW.at)).where(_ROW.span == span))
    return found


def _oldest(connection: Connection, span: int, since: int) -> int | None:
    first = select(func.min(_ROW.at)).where(_ROW.span == span, _ROW.at >= since)
    found: int | None = connection.scalar(first)
    return found


def _sum_up(database: Database, span: int, at: int) -> None:
    """Store the sums of one span that differ from what is stored."""
    with database.read() as connection:
        finer = _read(connection, _FINER[span], at, at + span * MINUTE)
        stored = _read(connection, span, at, at + 1)
    sums: dict[ChannelKey, Figures] = {}
    for key, _, figures in finer:
        sums.setdefault(key, Figures()).add(figures)
    before = {key: figures for key, _, figures in stored}
    rows = [
        _record(span, at, key, "", found) for key, found in sums.items() if before.get(key) != found
    ]
    if rows:
        values = ("counts", "latency", "waiting", "oldest")
        with database.write_without_sync() as connection:
            connection.execute(upsert(CHANNEL_STATISTICS, *values), rows)


_Row = tuple[ChannelKey, int, Figures]


def _read(
    connection: Connection, span: int, begin: int, end: int, *conditions: ColumnElement[bool]
) -> list[_Row]:
    columns = (_ROW.kind, _ROW.name, _ROW.at, _ROW.counts, _ROW.latency, _ROW.waiting, _ROW.oldest)
    within = (_ROW.span == span, _ROW.at >= begin, _ROW.at < end)
    rows = connection.execute(select(*columns).where(*within, *conditions))
    return [
        (
            (row.kind, row.name),
            row.at,
            Figures(
                Counter(json.loads(row.counts)), _buckets(row.latency), row.waiting, row.oldest
            ),
        )
        for row in rows
    ]


def _buckets(text: str) -> list[int]:
    """Return stored numbers; none if an earlier release had other bounds."""
    found = json.loads(text) if text else []
    return found if len(found) == len(FAST) + 1 else []


History = Mapping[ChannelKey, Mapping[int, Figures]]
"""Figures by channel and start of the span."""


def read_history(
    database: Database, span: int, begin: int, end: int, channels: Sequence[ChannelKey] = ()
) -> History:
    """
    Return the figures of all or of some channels from `begin` to `end`, by span of some minutes.

    What is not summed up yet is read from the finer spans. All `channels` have the same kind.
    """
    conditions = []
    if channels:
        names = sorted({name for _, name in channels})
        conditions = [_ROW.kind == channels[0][0], _ROW.name.in_(names)]
    found: dict[ChannelKey, dict[int, Figures]] = {}
    with database.read() as connection:
        level: int | None = span
        while level is not None:
            for key, at, figures in _read(connection, level, begin, end, *conditions):
                start = at - at % (span * MINUTE)
                found.setdefault(key, {}).setdefault(start, Figures()).add(figures)
            newest = _newest(connection, level) if level in _FINER else None
            begin = begin if newest is None else max(begin, newest + level * MINUTE)
            level = _FINER.get(level)
    return found


def waiting_before(
    database: Database, channels: Iterable[ChannelKey], now: int
) -> dict[ChannelKey, int]:
    """Return the most that waited at these channels in the minute before; 0 is left out."""
    minute = now - now % MINUTE
    with database.read() as connection:
        rows = _read(connection, 1, minute - MINUTE, minute, _ROW.source == _LEADER)
    wanted = frozenset(channels)
    return {key: found.waiting for key, _, found in rows if found.waiting and key in wanted}


def refusing_since(database: Database, destinations: Iterable[str], now: int) -> dict[str, int]:
    """
    Return since when (ms) destinations refuse, after the last accepted message.

    Only the last hour is read: an earlier beginning is its start.
    """
    keys = [(DESTINATION, name) for name in destinations]
    if not keys:
        return {}
    history = read_history(database, 1, now - HOUR, now + 1, keys)
    found = {}
    for (_, name), minutes in history.items():
        accepted = max((at for at, done in minutes.items() if done.counts["delivered"]), default=-1)
        refused = [at for at, done in minutes.items() if done.counts["refused"] and at >= accepted]
        if refused:
            found[name] = min(refused)
    return found


def read_expected(
    database: Database, silent: Mapping[str, int], zones: Mapping[str, str], now: int
) -> dict[str, float]:
    """
    Return how many messages silent listeners usually have received since their last one.

    `silent`: when (ms) the silence of each began; `zones`: their time zones, UTC by default. A
    listener without statistics of two weeks is left out.
    """
    found = {}
    with database.read() as connection:
        for name, since in silent.items():
            own = (_ROW.kind == LISTENER, _ROW.name == name)
            begin = max(since, now - DAY)
            first = connection.scalar(
                select(func.min(_ROW.at)).where(*own, _ROW.span == _QUARTER_SPAN)
            )
            weeks = []
            for number in range(1, WEEKS + 1):
                shift = week_shift(number, now, zones.get(name, "UTC"))
                if first is None or first > begin - shift:
                    break
                start = begin - begin % QUARTER - shift
                rows = _read(connection, _QUARTER_SPAN, start, now - shift, *own)
                counted = {at + shift: figures.total(MESSAGES[LISTENER]) for _, at, figures in rows}
                weeks.append(counted)
            if len(weeks) >= MIN_WEEKS:
                minutes = {
                    at
                    for _, at, figures in _read(connection, 1, now - DAY, now, *own)
                    if figures.total(MESSAGES[LISTENER])
                }
                pause = longest_usual_pause(sorted(minutes))
                found[name] = expected_messages(weeks, max(begin, since + pause), now)
    return found
