"""
DICOM peers: what they did last, whom the port refused, and the settings of peers.

The settings are changed as those of listeners and destinations (`admin.connection_settings`). Times
are in ms.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bridge.active_settings import current, find_connection, origin_of
from bridge.admin.audit_events import audited
from bridge.admin.channel_operations import is_shared, visible_sites
from bridge.admin.connection_settings import ConnectionChange, Connections
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.audit.events import operator
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import dicom_peers
from bridge.store.records.dicom_peers import HOUR, PeerActivity
from config import Settings, load
from config.dicom import DicomPeer, DicomSettings
from config.example import with_unit
from config.forms import FieldKind, form_fields, to_plain_value, to_table
from config.sections import PeerKind

_FIELDS: Final = {field["name"]: field for field in form_fields(DicomPeer)}


def read_port(
    settings: Settings, database: Database, now: int, sites: frozenset[str] | None = None
) -> dict[str, Any]:
    """
    Return the settings of the DICOM port, its peers, and whom it refused within an hour.

    `sites` are those of the user; None: all. A user of some sites sees their peers, and no refusals
    of others.
    """
    active = current(settings, database)
    with database.read() as connection:
        known = dicom_peers.read_peers(connection)
        refusals = dicom_peers.read_refusals(connection, now - HOUR)
    peers = [
        {
            "ae_title": peer.ae_title,
            "enabled": peer.enabled,
            "addresses": peer.addresses,
            "may": peer.may,
            "sites": visible,
            "shared": is_shared(peer.sites, sites),
            "source": origin_of(settings, active, PeerKind.DICOM, peer.ae_title),
            **asdict(known.get(peer.ae_title, PeerActivity())),
            "refused": sum(one.count for one in refusals if one.title == peer.ae_title),
        }
        for peer in active.dicom.peer
        if (visible := visible_sites(peer.sites, sites)) is not None
    ]
    titles = {peer["ae_title"] for peer in peers}
    return {
        "now": now,
        "bind": None if active.dicom.bind is None else str(active.dicom.bind),
        "settings": _settings(active.dicom),
        "peers": sorted(peers, key=lambda peer: str(peer["ae_title"])),
        "refusals": [
            {**asdict(refusal), "is_peer": refusal.title in titles}
            for refusal in refusals
            if sites is None or refusal.title in titles
        ],
    }


def _settings(dicom: DicomSettings) -> list[dict[str, Any]]:
    """Return the settings of `[dicom]` with their values and descriptions."""
    found = []
    for name, field in DicomSettings.model_fields.items():
        if name != "peer":
            value = with_unit(name, to_plain_value(getattr(dicom, name)))
            found.append({"name": name, "value": value, "help": field.description or ""})
    return found


def list_peers(home: Path) -> list[dict[str, Any]]:
    """List the peers with what they did last, for commands."""
    with bridge_database(home) as database:
        found: list[dict[str, Any]] = read_port(load(home), database, _now())["peers"]
    return found


def list_refusals(home: Path) -> list[dict[str, Any]]:
    """List whom the port refused within an hour, for commands."""
    with bridge_database(home) as database:
        found: list[dict[str, Any]] = read_port(load(home), database, _now())["refusals"]
    return found


def list_versions(home: Path, title: str) -> Sequence[Mapping[str, Any]]:
    """List the activated settings of a peer, newest first. Raises NoSuchItem."""
    with bridge_database(home) as database:
        found = Connections(load(home), database, _now).connection(PeerKind.DICOM, title)
    history: Sequence[Mapping[str, Any]] = found["history"]
    return history


def set_peer(home: Path, title: str, values: Sequence[str], reason: str) -> str:
    """
    Activate settings of a peer on all nodes; return the version. Audited.

    `values` are texts as `may=worklist,performed`, which change those of an existing peer. An empty
    value is the default. Raises InvalidContent.
    """
    with bridge_database(home) as database:
        settings = load(home)
        found = find_connection(current(settings, database), PeerKind.DICOM, title)
        table = {} if found is None else to_table(found)
        for text in values:
            key, separator, value = text.partition("=")
            if not separator or key not in _FIELDS or key == "ae_title":
                known = ", ".join(name for name in _FIELDS if name != "ae_title")
                raise InvalidContent(f"{key}: write KEY=VALUE; the keys are {known}")
            table.pop(key, None)
            if value:
                table[key] = _value(_FIELDS[key]["kind"], value)
        return _save(home, settings, database, title, table, reason)


def remove_peer(home: Path, title: str, reason: str) -> None:
    """Remove a peer, or return to the settings of bridge.toml. Audited. Raises NoSuchItem."""
    with bridge_database(home) as database:
        settings = load(home)
        found = find_connection(current(settings, database), PeerKind.DICOM, title)
        if found is None:
            raise NoSuchItem(f"there is no DICOM peer {title}")
        if found.enabled and find_connection(settings, PeerKind.DICOM, title) is None:
            disabled = {**to_table(found), "enabled": False}
            _save(home, settings, database, title, disabled, reason)
        _save(home, settings, database, title, None, reason)


def roll_back_peer(home: Path, title: str, reason: str) -> str:
    """Activate the previous settings of a peer; return the version. Audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "roll back", (PeerKind.DICOM, title), reason=reason),
    ):
        connections = Connections(load(home), database, _now)
        begun_on = _active_version(connections, title)
        change = ConnectionChange(PeerKind.DICOM, title, operator(), reason, begun_on)
        return str(connections.rollback(change)["version"])


def _save(
    home: Path,
    settings: Settings,
    database: Database,
    title: str,
    table: Mapping[str, Any] | None,
    reason: str,
) -> str:
    with audited(home, database, "set up", (PeerKind.DICOM, title), reason=reason):
        connections = Connections(settings, database, _now)
        begun_on = _active_version(connections, title)
        change = ConnectionChange(PeerKind.DICOM, title, operator(), reason, begun_on, table)
        return str(connections.save(change)["version"])


def _active_version(connections: Connections, title: str) -> str:
    try:
        active = connections.connection(PeerKind.DICOM, title)["in_force"]
    except NoSuchItem:
        return ""
    return "" if active is None else str(active["version"])


def _value(kind: FieldKind, text: str) -> Any:
    if kind in (FieldKind.WORDS, FieldKind.SEVERAL):
        return [part.strip() for part in text.split(",")]
    if kind is FieldKind.YES:
        return {"true": True, "false": False}.get(text.lower(), text)
    return int(text) if kind is FieldKind.NUMBER and text.isdecimal() else text


def _now() -> int:
    return time.time_ns() // 1_000_000
