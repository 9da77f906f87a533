"""Pause, resume and list the listeners and destinations of a home, for commands."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited, operator
from bridge.errors import BridgeError
from bridge.monitoring import channels, start_failures
from bridge.monitoring.channels import Channel, Kind
from bridge.queue import queries
from bridge.store.database import Database
from bridge.wiring.active_settings import current
from bridge.wiring.stores import bridge_database
from config import Settings, load

_TROUBLES = {
    "not running": "no running node has loaded it: start or restart the service",
    "refusing": "it refused the last message: see `bridge deliveries list`",
}


class NoSuchChannel(BridgeError):  # noqa: N818  # named for what happened
    """The settings have no listener or destination of a name."""

    def __init__(self, kind: Kind, name: str) -> None:
        super().__init__(f"there is no {kind} {name} in the settings")


def pause(home: Path, kind: Kind, name: str) -> None:
    """Pause; the service, when it runs, knows within a second. Raises NoSuchChannel."""
    with (
        bridge_database(home) as database,
        audited(home, database, "pause", (kind.value, name)),
    ):
        _known(current(load(home), database), kind, name)
        channels.pause(database, kind, name, time.time_ns() // 1_000_000, operator())


def resume(home: Path, kind: Kind, name: str) -> bool:
    """Resume; tell whether it was paused. Raises NoSuchChannel."""
    with (
        bridge_database(home) as database,
        audited(home, database, "resume", (kind.value, name)),
    ):
        _known(current(load(home), database), kind, name)
        return channels.resume(database, kind, name)


def listed(home: Path, kind: Kind) -> list[dict[str, Any]]:
    """List what the settings have, with what is known of each."""
    with bridge_database(home) as database:
        settings = current(load(home), database)
        known = channels.channels(database, kind)
        now = time.time_ns() // 1_000_000
        failing = start_failures.standing(database, kind, now)
    rows = []
    for each in described_channels(settings, kind):
        found, trouble = known.get(each["name"], Channel(each["name"])), failing.get(each["name"])
        state = _state(found, trouble, now) if each["enabled"] else "off"
        row = {"name": each["name"], "address": each["address"], "state": state, **asdict(found)}
        rows.append({**row, "trouble": trouble or _TROUBLES.get(state, "")})
    return rows


def charset_of(settings: Settings, database: Database, listener: str) -> str:
    """Return the charset of a listener's messages that declare none; UTF-8 where it is gone."""
    known = current(settings, database).listener
    return next((each.charset for each in known if each.name == listener), "utf-8")


def must_be_known(home: Path, kind: Kind, name: str | None) -> None:
    """Refuse a name that the settings do not have, where nothing was found of it."""
    if name is not None:
        with bridge_database(home) as database:
            _known(current(load(home), database), kind, name)


def waits(home: Path, database: Database, deliveries: Sequence[int]) -> list[str]:
    """List destinations of these deliveries that are gone, disabled or paused, so send nothing."""
    settings = current(load(home), database)
    wanted = queries.destinations_of(database, deliveries)
    known = channels.channels(database, Kind.DESTINATION)
    enabled = {each.name: each.enabled for each in settings.destination}
    said = []
    for name in sorted(wanted):
        if name not in enabled:
            said.append(f"destination {name} is not in the settings: its deliveries wait")
        elif not enabled[name]:
            said.append(f"destination {name} is disabled: its deliveries wait")
        elif known.get(name, Channel(name)).paused:
            said.append(f"destination {name} is paused: its deliveries wait")
    return said


def _state(found: Channel, trouble: str | None, now: int) -> str:
    """Say in a word what an operator must know first."""
    if found.paused:
        return "paused"
    if trouble is not None:
        return "could not begin"
    if not found.is_loaded(now):
        return "not running"
    if found.open_until is not None:
        return "not answering"
    return "refusing" if found.refused else "running"


def names(settings: Settings, kind: Kind) -> Sequence[tuple[str, str]]:
    """Name what the settings have, with addresses."""
    if kind is Kind.LISTENER:
        return [(each.name, str(each.bind)) for each in settings.listener]
    return [(each.name, str(each.address)) for each in settings.destination]


def described_channels(settings: Settings, kind: Kind) -> list[dict[str, Any]]:
    """
    Describe what the settings have: address, the sites it serves, when its silence is told.

    `enabled`: it is not switched off.
    """
    if kind is Kind.LISTENER:
        return [
            {
                "name": each.name,
                "address": str(each.bind),
                "enabled": each.enabled,
                "sites": [each.site] if each.site else [],
                "silence": round(each.alert_after * 1000),
            }
            for each in settings.listener
        ]
    return [
        {
            "name": each.name,
            "address": str(each.address),
            "enabled": each.enabled,
            "sites": list(each.sites),
            "silence": 0,
        }
        for each in settings.destination
    ]


def _known(settings: Settings, kind: Kind, name: str) -> None:
    if name not in dict(names(settings, kind)):
        raise NoSuchChannel(kind, name)
