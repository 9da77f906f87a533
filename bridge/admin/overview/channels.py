"""
The overview of all listeners and destinations, the page of one, and its graphs. Blocking.

A channel is judged by its worst active alert condition, so a page never says what a notice does
not. Times are in ms; an age is a time since when.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

from bridge.active_settings import current, find_connection
from bridge.admin.channel_operations import channel_states
from bridge.admin.lists.listing import UNLIMITED
from bridge.admin.overview.attention import SEVERITIES, Attention, groups, visible_alerts
from bridge.admin.overview.row_counts import RowCounts, count_rows
from bridge.monitoring.alerts import ActiveAlert, active_alerts
from bridge.monitoring.baseline import MINUTE, QUARTER, WEEK
from bridge.monitoring.conditions import AlertSeverity, QueueBacklog
from bridge.monitoring.statistics import (
    ALL_LISTENERS,
    ATTEMPTS,
    ERRORS,
    HOUR,
    LISTENER,
    MESSAGES,
    OUTCOMES,
    PRESENCE,
    ChannelKey,
    Figures,
    percentile,
    read_backlogs,
    read_history,
)
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from config import Settings, load
from config.example import with_unit
from config.forms import to_table
from config.listeners import ListenerSettings
from config.sections import ChannelKind, DestinationSettings

ChannelState = Mapping[str, Any]
"""A channel as `channel_states` lists it; `shared`: the user does not see all of its sites."""
_STATES: Final[Mapping[str, str]] = {
    "start": "start_failed",
    "circuit": "not_responding",
    "unframed": "not_responding",
    "rejecting": "refusing",
    "silence": "silent",
    "quiet": "silent",
    "depth": "growing",
    "age": "growing",
    "growing": "growing",
    "certificate": "certificate",
    "refused": "refuses_sometimes",
}
"""The state that a condition gives its channel."""
_POINTS: Final = 96
"""Quarter hours of a day."""


@dataclass(frozen=True, slots=True)
class _Present:
    """What all channels have in common at one time."""

    now: int
    alerts: Sequence[ActiveAlert]
    backlogs: Mapping[ChannelKey, QueueBacklog]
    minutes: Mapping[ChannelKey, Mapping[int, Figures]]
    """Of the last hour."""
    quarters: Mapping[ChannelKey, Mapping[int, Figures]]
    """Of the last day."""
    rows: Mapping[ChannelKey, RowCounts]


def _read_present(database: Database, now: int) -> _Present:
    begin = _first_point(now, QUARTER, _POINTS)
    with database.read() as connection:
        rows = count_rows(connection, now)
    return _Present(
        now,
        active_alerts(database),
        read_backlogs(database),
        read_history(database, 1, now - now % MINUTE - HOUR, now + 1),
        read_history(database, 15, begin, now + 1),
        rows,
    )


def _first_point(now: int, step: int, points: int) -> int:
    return now - now % step - (points - 1) * step


def overview(
    database: Database,
    channels: Mapping[ChannelKind, Sequence[ChannelState]],
    needs: Attention,
    now: int,
    *,
    limited: bool = False,
) -> dict[str, Any]:
    """
    Return a row for each channel, problems first, and what needs a person.

    `limited`: for a user who sees some sites only: no totals.
    """
    present = _read_present(database, now)
    rows = [
        _summary(kind, channel, present) for kind, found in channels.items() for channel in found
    ]
    return {
        "now": now,
        "channels": sorted(rows, key=_urgency),
        "needs": asdict(needs),
        "totals": None if limited else _totals(present.quarters),
    }


def _urgency(row: Mapping[str, Any]) -> tuple[int, bool, float, str, str]:
    """Red before amber, those that are switched off last; what waits longest first; by name."""
    condition = row["condition"]
    rank = 2 if condition is None else ("red", "amber").index(condition["severity"])
    oldest = inf if row["oldest"] is None else row["oldest"]
    return rank, not row["enabled"], oldest, row["name"], row["kind"]


def _totals(quarters: Mapping[ChannelKey, Mapping[int, Figures]]) -> dict[str, int]:
    received = sent = 0
    for (kind, _), found in quarters.items():
        for figures in found.values():
            if kind == LISTENER:
                received += figures.total(MESSAGES[kind])
            else:
                sent += figures.counts["delivered"]
    return {"received": received, "sent": sent}


def _summary(kind: ChannelKind, channel: ChannelState, present: _Present) -> dict[str, Any]:
    """Return the row of a channel; counts are None if it also serves other sites."""
    key, shared = (kind.value, str(channel["name"])), bool(channel.get("shared"))
    alerts = _alerts_of(key, present.alerts, shared=shared)
    worst = alerts[0] if alerts else None
    return {
        "kind": kind.value,
        "name": channel["name"],
        "sites": list(channel["sites"]),
        "shared": shared,
        "enabled": channel["enabled"],
        "state": _state(channel, alerts),
        "condition": worst and {"severity": SEVERITIES[worst.severity], "text": worst.text},
        **(_NO_COUNTS if shared else _counts(key, present)),
        "active_at": channel["active_at"],
        "certificate": channel["certificate"],
    }


def _alerts_of(
    key: ChannelKey, alerts: Iterable[ActiveAlert], *, shared: bool
) -> list[ActiveAlert]:
    """Return the active alerts of a channel, the worst first."""
    return visible_alerts(alerts, {key: shared})


def _state(channel: ChannelState, alerts: Sequence[ActiveAlert]) -> str:
    """Return the state in one word: what a person did, else what the channel does."""
    own = {
        "off": not channel["enabled"],
        "start_failed": bool(channel["trouble"]),
        "paused": channel["paused_at"] is not None,
        "not_loaded": not channel["loaded"],
        "not_responding": channel["open_until"] is not None,
    }
    for state, holds in own.items():
        if holds:
            return state
    for alert in alerts:
        if alert.subject == "certificate" and alert.severity is AlertSeverity.CRITICAL:
            return "expired"
        if alert.subject in _STATES:
            return _STATES[alert.subject]
    return "running"


_NO_COUNTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("rate", "errors", "share", "waiting", "oldest", "p50", "p99")),
    "spark": [],
    "spark_bad": [],
}


def _counts(key: ChannelKey, present: _Present) -> dict[str, Any]:
    kind, now = key[0], present.now
    hour = Figures()
    for figures in present.minutes.get(key, {}).values():
        hour.add(figures)
    quarters = present.quarters.get(key, {})
    begin = _first_point(now, QUARTER, _POINTS)
    day = [quarters.get(begin + number * QUARTER, Figures()) for number in range(_POINTS)]
    rows, attempts = present.rows.get(key, RowCounts()), hour.total(ATTEMPTS[kind])
    return {
        "rate": rows.rate,
        "errors": rows.failed,
        "share": round(min(1.0, rows.failed / attempts), 4) if attempts else None,
        **_queue(key, present.backlogs),
        "p50": percentile(hour.latency, 0.5),
        "p99": percentile(hour.latency, 0.99),
        "spark": [figures.total(ATTEMPTS[kind]) for figures in day],
        "spark_bad": [figures.total(ERRORS[kind]) for figures in day],
    }


def _queue(key: ChannelKey, backlogs: Mapping[ChannelKey, QueueBacklog]) -> dict[str, int | None]:
    if key[0] == LISTENER and ALL_LISTENERS in backlogs:  # too long to be counted by listener
        return {"waiting": None, "oldest": None}
    backlog = backlogs.get(key)
    waiting = 0 if backlog is None else backlog.waiting
    return {"waiting": waiting, "oldest": None if backlog is None else backlog.oldest}


def channel_page(
    settings: Settings,
    database: Database,
    kind: ChannelKind,
    channel: ChannelState,
    now: int,
    *,
    with_settings: bool,
) -> dict[str, Any]:
    """
    Return the state of one channel, its settings, its definitions, and what is wrong with it.

    `settings` are those of bridge.toml. Without `with_settings` its table is left out.
    """
    active = current(settings, database)
    section = find_connection(active, kind, str(channel["name"]))
    key, shared = (kind.value, str(channel["name"])), bool(channel.get("shared"))
    present = _read_present(database, now)
    return {
        "summary": _summary(kind, channel, present),
        "address": channel["address"],
        "source": channel["source"],
        "paused_at": channel["paused_at"],
        "paused_by": channel["paused_by"],
        "open_until": channel["open_until"],
        "problem": channel["problem"],
        "settings": _settings(section) if with_settings and section is not None else {},
        "definitions": _definitions(database, section),
        "conditions": [
            {
                "key": alert.key,
                "severity": SEVERITIES[alert.severity],
                "text": alert.text,
                "action": alert.action,
                "raised_at": alert.raised_at,
            }
            for alert in _alerts_of(key, present.alerts, shared=shared)
        ],
        "handshakes": [
            {name: failure[name] for name in _HANDSHAKE}
            for failure in channel["handshake_failures"]
        ],
        "start_failures": [channel["trouble"]] if channel["trouble"] else [],
    }


_HANDSHAKE: Final = ("peer", "reason", "subject", "is_trouble", "count", "last_at")


def _settings(section: ListenerSettings | DestinationSettings) -> dict[str, Any]:
    """Return the settings that are not defaults, with units as in the file, such as `60s`."""
    return {name: _shown(name, value) for name, value in to_table(section).items()}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shown(key, inner) for key, inner in value.items()}
    return with_unit(name, value)


def _definitions(
    database: Database, section: ListenerSettings | DestinationSettings | None
) -> list[dict[str, Any]]:
    """Return the active versions of a channel's definitions, with their last activation."""
    if section is None:
        return []
    names = section.mappings if isinstance(section, ListenerSettings) else [section.mapping]
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
    return [
        {
            "name": name,
            "version": found.version,
            "at": found.at,
            "actor": found.actor,
            "reason": found.reason,
        }
        for name in names
        if (found := active.get(name)) is not None
    ]


@dataclass(frozen=True, slots=True)
class _Span:
    """The points of a graph: their distance (ms) and number, and the minutes of the rows."""

    step: int
    points: int
    minutes: int
    minutes_before: int
    """Of the rows a week before, which are kept longer."""


SPANS: Final[Mapping[str, _Span]] = {
    "1h": _Span(MINUTE, 60, 1, 15),
    "24h": _Span(QUARTER, _POINTS, 15, 15),
    "7d": _Span(HOUR, 168, 60, 60),
    "30d": _Span(4 * HOUR, 180, 60, 60),
}


def channel_series(
    database: Database, kind: ChannelKind, name: str, span_name: str, now: int
) -> dict[str, Any]:
    """
    Return the graphs of a channel: outcomes, latency and queue, and the same a week before.

    A gap is a time in which no node recorded anything.
    """
    span = SPANS[span_name]
    begin = _first_point(now, span.step, span.points)
    starts = [begin + number * span.step for number in range(span.points)]
    key = (kind.value, name)
    keys = [key, (kind.value, "")] if kind is ChannelKind.LISTENER else [key]
    history = read_history(database, span.minutes, begin, now + 1, keys)
    recorded = read_history(database, span.minutes, begin, now + 1, [PRESENCE])
    own = _points(history.get(key, {}), span.step)
    unknown = _points(history.get(ALL_LISTENERS, {}), span.step)
    present = _points(recorded.get(PRESENCE, {}), span.step)
    missing = [start for start in starts[:-1] if start not in present and start not in own]
    absent = frozenset(missing)
    return {
        "step": span.step,
        "from": begin,
        **_graphs(kind, [own.get(start, Figures()) for start in starts]),
        "waiting": [
            None if start in absent or start in unknown else own.get(start, Figures()).waiting or 0
            for start in starts
        ],
        "oldest": [own.get(start, Figures()).oldest for start in starts],
        "week_before": _week_before(database, key, span, starts),
        "gaps": _joined(missing, span.step),
    }


def _points(found: Mapping[int, Figures], step: int) -> dict[int, Figures]:
    points: dict[int, Figures] = {}
    for at, figures in found.items():
        points.setdefault(at - at % step, Figures()).add(figures)
    return points


def _graphs(kind: ChannelKind, points: Sequence[Figures]) -> dict[str, Any]:
    return {
        "outcomes": {
            outcome: [figures.counts[outcome] for figures in points]
            for outcome in OUTCOMES[kind.value]
        },
        "p50": [percentile(figures.latency, 0.5) for figures in points],
        "p99": [percentile(figures.latency, 0.99) for figures in points],
    }


def _week_before(
    database: Database, key: ChannelKey, span: _Span, starts: Sequence[int]
) -> dict[str, Any] | None:
    """
    Return outcomes and median latency of the same times a week before; None without records.

    Minutes are kept for a day only: each gets an equal part of its quarter hour.
    """
    begin, end = starts[0] - WEEK, starts[-1] + span.step - WEEK
    length = max(span.step, span.minutes_before * MINUTE)
    read = (database, span.minutes_before, begin - begin % length, end)
    found = _points(read_history(*read, [key]).get(key, {}), length)
    if not found and not read_history(*read, [PRESENCE]):
        return None
    times = [start - WEEK - (start - WEEK) % length for start in starts]
    graphs = _graphs(ChannelKind(key[0]), [found.get(at, Figures()) for at in times])
    parts = length // span.step
    if parts > 1:
        graphs["outcomes"] = {
            outcome: [round(count / parts, 2) for count in counts]
            for outcome, counts in graphs["outcomes"].items()
        }
    return {"outcomes": graphs["outcomes"], "p50": graphs["p50"]}


def _joined(starts: Iterable[int], step: int) -> list[tuple[int, int]]:
    """Join neighbours to ranges from the first start to the last end."""
    ranges: list[tuple[int, int]] = []
    for start in starts:
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], start + step)
        else:
            ranges.append((start, start + step))
    return ranges


def read_overview(home: Path, now: int) -> dict[str, Any]:
    """Return the overview of all channels, for commands."""
    with bridge_database(home) as database:
        settings = load(home)
        states = {kind: channel_states(settings, database, kind, now) for kind in ChannelKind}
        needs = groups(settings, database, UNLIMITED, now)
        return overview(database, states, needs, now)
