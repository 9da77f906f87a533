"""Operations on channels (listeners and destinations): list, pause, resume; and on alerts."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from bridge.active_settings import active_sources, current, origin_of
from bridge.admin.audit_events import audited
from bridge.admin.definitions.drafts import check_cached
from bridge.audit.events import operator
from bridge.errors import BridgeError
from bridge.monitoring import alerts, channels
from bridge.monitoring.alert_settings import certificate_files, notifiers
from bridge.monitoring.alerts import AlertEvent, AlertNotice
from bridge.monitoring.channels import Channel
from bridge.monitoring.conditions import DAY, AlertCondition, AlertSeverity
from bridge.monitoring.node_files import expiry_times
from bridge.queue import queries
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from config import Settings, load
from config.sections import ChannelKind
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Sources

ALL_SITES = "*"
VisibleChannels = Mapping[tuple[str, str], bool]
"""Channels by kind and name; the value is true if one also serves sites that the user lacks."""
_PROBLEMS = {
    "not running": "no running node has loaded it: changes made in the console take 2 seconds, "
    "changes of bridge.toml need a restart, and the service must run",
    "refusing": "it refused the last message: see `bridge deliveries list`",
}


class NoSuchChannel(BridgeError):
    """The settings have no listener or destination with this name."""

    def __init__(self, kind: ChannelKind, name: str) -> None:
        super().__init__(f"there is no {kind} {name} in the settings")


def pause(home: Path, kind: str, name: str) -> None:
    """Pause a channel; a running service follows within a second. Raises NoSuchChannel."""
    with bridge_database(home) as database, audited(home, database, "pause", (kind, name)):
        _require(current(load(home), database), ChannelKind(kind), name)
        channels.pause(database, ChannelKind(kind), name, time.time_ns() // 1_000_000, operator())


def resume(home: Path, kind: str, name: str) -> bool:
    """Resume a channel; return whether it was paused. Raises NoSuchChannel."""
    with bridge_database(home) as database, audited(home, database, "resume", (kind, name)):
        _require(current(load(home), database), ChannelKind(kind), name)
        return channels.resume(database, ChannelKind(kind), name)


def list_channels(home: Path, kind: str) -> list[dict[str, Any]]:
    """List the listeners or destinations of the settings with their present state."""
    with bridge_database(home) as database:
        settings = current(load(home), database)
        known = channels.read_channels(database, ChannelKind(kind))
        now = time.time_ns() // 1_000_000
        start_failures = channels.read_start_failures(database, ChannelKind(kind), now)
        handshake_rows = channels.newest_handshakes(database, kind)
    rows = []
    for channel in described_channels(settings, ChannelKind(kind)):
        found, problem = (
            known.get(channel["name"], Channel(channel["name"])),
            start_failures.get(channel["name"]),
        )
        state = _state(found, problem, now) if channel["enabled"] else "off"
        row = {
            "name": channel["name"],
            "address": channel["address"],
            "state": state,
            **asdict(found),
        }
        row["handshake_failures"] = failures = handshake_rows.get(channel["name"], [])
        row["tls"] = _handshake_line(failures, now)
        rows.append({**row, "trouble": problem or found.problem or _PROBLEMS.get(state, "")})
    return rows


def channel_states(
    settings: Settings, database: Database, kind: ChannelKind, now: int
) -> list[dict[str, Any]]:
    """
    List the listeners or destinations as the console shows them; times in ms.

    A listener whose messages can name their site serves all sites: `["*"]`.
    """
    active = current(settings, database)  # not cached, so that a change is visible at once
    known = channels.read_channels(database, kind)
    start_failures = channels.read_start_failures(database, kind, now)
    handshake_rows = channels.newest_handshakes(database, kind)
    expires = expiry_times(certificate_files(active))
    served = _served_sites(active, database, kind)
    return [
        {
            **asdict(channel),
            **described_channel,
            "sites": served[described_channel["name"]],
            "loaded": channel.is_loaded(now),
            "trouble": start_failures.get(described_channel["name"], ""),
            "handshake_failures": handshake_rows.get(described_channel["name"], []),
            "source": origin_of(settings, active, kind, described_channel["name"]),
            "certificate": expires.get(f"{kind} {described_channel['name']}"),
        }
        for described_channel in described_channels(active, kind)
        for channel in [known.get(described_channel["name"], Channel(described_channel["name"]))]
    ]


def visible_channels(
    settings: Settings, database: Database, sites: frozenset[str] | None
) -> VisibleChannels:
    """Return the channels that a user of some sites sees; None: all sites."""
    active = current(settings, database)
    return {
        (kind.value, name): is_shared(served, sites)
        for kind in ChannelKind
        for name, served in _served_sites(active, database, kind).items()
        if visible_sites(served, sites) is not None
    }


def visible_sites(served: Sequence[str], sites: frozenset[str] | None) -> list[str] | None:
    """Return those sites of a channel that a user of some sites may see; None hides it."""
    if sites is None:
        return list(served)
    return [site for site in served if sites and site in {ALL_SITES, *sites}] or None


def is_shared(served: Sequence[str], sites: frozenset[str] | None) -> bool:
    """True if a channel also serves other sites than those of a user."""
    return sites is not None and not (served and sites.issuperset(served))


def _served_sites(active: Settings, database: Database, kind: ChannelKind) -> dict[str, list[str]]:
    for_all = _listeners_for_all_sites(active, database) if kind is ChannelKind.LISTENER else ()
    return {
        channel["name"]: [ALL_SITES] if channel["name"] in for_all else channel["sites"]
        for channel in described_channels(active, kind)
    }


def _handshake_line(failures: Sequence[Mapping[str, Any]], now: int) -> str:
    """Return the last failed handshake of a connection within a day, in one line."""
    recent = [failure for failure in failures if failure["last_at"] > now - DAY]
    if not recent:
        return ""
    last, count = recent[0], sum(row["count"] for row in recent)
    return f"{count} failed, the last with {last['peer']}: {last['reason']}"


def _listeners_for_all_sites(active: Settings, database: Database) -> set[str]:
    """Return the listeners with a `site` whose definitions can take another from the message."""
    listeners = [listener for listener in active.listener if listener.site]
    find = active_sources(active, database)
    names = {name for listener in listeners for name in listener.mappings}
    fixed = {name for name in names if _takes_site_of_listener(find(name), name)}
    return {listener.name for listener in listeners if not fixed.issuperset(listener.mappings)}


def _takes_site_of_listener(sources: Sources, name: str) -> bool:
    compiled = check_cached(sources, name).compiled
    return isinstance(compiled, InboundMapping) and compiled.plan.tags["SiteID"].of_listener


def charset_of(settings: Settings, database: Database, listener: str) -> str:
    """Return the charset of a listener's messages without MSH-18; UTF-8 for a removed listener."""
    known = current(settings, database).listener
    return next((candidate.charset for candidate in known if candidate.name == listener), "utf-8")


def require_channel(home: Path, kind: ChannelKind, name: str | None) -> None:
    """Raise NoSuchChannel if a name is given and the settings do not have it."""
    if name is not None:
        with bridge_database(home) as database:
            _require(current(load(home), database), kind, name)


def stopped_destinations(home: Path, database: Database, deliveries: Sequence[int]) -> list[str]:
    """Describe the destinations of these deliveries that are removed, disabled or paused."""
    settings = current(load(home), database)
    wanted = queries.destinations_of(database, deliveries)
    known = channels.read_channels(database, ChannelKind.DESTINATION)
    enabled = {destination.name: destination.enabled for destination in settings.destination}
    notes = []
    for name in sorted(wanted):
        if name not in enabled:
            notes.append(f"destination {name} is not in the settings: its deliveries wait")
        elif not enabled[name]:
            notes.append(f"destination {name} is disabled: its deliveries wait")
        elif known.get(name, Channel(name)).paused:
            notes.append(f"destination {name} is paused: its deliveries wait")
    return notes


def _state(found: Channel, problem: str | None, now: int) -> str:
    """Return the state that is most important for an operator."""
    if found.paused:
        return "paused"
    if problem is not None:
        return "could not begin"
    if not found.is_loaded(now):
        return "not running"
    if found.open_until is not None:
        return "not answering"
    return "refusing" if found.refused else "running"


def _names_and_addresses(settings: Settings, kind: ChannelKind) -> Sequence[tuple[str, str]]:
    """Return the names and addresses of the listeners or destinations."""
    if kind is ChannelKind.LISTENER:
        return [(listener.name, str(listener.bind)) for listener in settings.listener]
    return [(destination.name, str(destination.address)) for destination in settings.destination]


def described_channels(settings: Settings, kind: ChannelKind) -> list[dict[str, Any]]:
    """
    Describe the listeners or destinations of the settings.

    `silence` is the time in ms without messages after which an alert is raised; 0: never.
    """
    if kind is ChannelKind.LISTENER:
        return [
            {
                "name": listener.name,
                "address": str(listener.bind),
                "enabled": listener.enabled,
                "sites": [listener.site] if listener.site else [],
                "silence": round(listener.alert_after * 1000),
            }
            for listener in settings.listener
        ]
    return [
        {
            "name": destination.name,
            "address": str(destination.address),
            "enabled": destination.enabled,
            "sites": list(destination.sites),
            "silence": 0,
        }
        for destination in settings.destination
    ]


def _require(settings: Settings, kind: ChannelKind, name: str) -> None:
    if name not in dict(_names_and_addresses(settings, kind)):
        raise NoSuchChannel(kind, name)


def list_alerts(home: Path) -> list[dict[str, Any]]:
    """List alerts: the active ones, then those that have ended."""
    with bridge_database(home) as database:
        return [dict(alert) for alert in alerts.list_alerts(database)]


def send_test_notification(home: Path) -> Iterator[tuple[str, str]]:
    """Send a test notification by each configured way; yield the way and its error ('' if sent)."""
    notice = AlertNotice(
        AlertEvent.RAISED,
        AlertCondition("test", AlertSeverity.WARNING, "a test: nothing is wrong"),
        time.time_ns() // 1_000_000,
    )
    for way, notify in notifiers(load(home)).items():
        try:
            notify([notice])
        except (OSError, httpx.HTTPError) as error:
            yield way, str(error)
        else:
            yield way, ""
