"""
Test copies: a restored installation that cannot be taken for, or act as, the original.

Its ports are others and reachable from its machine only, its destinations and folder listeners are
disabled, and it notifies nobody, deletes nothing and calls no external service. All pages show that
it is a test copy.
"""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridge.admin.packages.folder import as_toml
from bridge.audit.events import operator
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin
from bridge.wiring import active_settings
from bridge.wiring.stores import migrate_bridge, open_bridge_database
from config import load
from config.addresses import FolderAddress, WebAddress, parse_connection_address
from config.private_files import replace_all
from config.settings import FILE_NAME
from config.toml_text import parse_toml

_HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 20_000
_REASON: Final = "test copy"
Changes = Mapping[str, Mapping[str, Any]]


def changes_of(home: Path, changes: Changes, made_at: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a test copy by section; a value of None removes a setting."""
    port = free_ports(1)[0]
    found = {name: dict(values) for name, values in changes.items()}
    found["http"] = {
        "bind": f"{_HOST}:{port}",
        "public_url": f"http://{_HOST}:{port}",
        "regional_urls": None,
        "probe_bind": None,
        "banner": f"TEST COPY of {made_at[:16].replace('T', ' ')} UTC",
    }
    found["alerts"] = {"mail": None, "webhook": None}
    found["retention"] = {"keep": None, "max_size": None}
    found["tracing"] = {"endpoint": None}
    found["assistance"] = {"transcription_url": None, "placing_url": None, "placing_model": None}
    values = parse_toml((home / FILE_NAME).read_text("utf-8"), home / FILE_NAME)
    for key, url in values.get("database", {}).items():
        if key in {"url", "engine_url"} and str(url).startswith("sqlite:///"):
            found["database"].setdefault(key, f"sqlite:///{Path(url).name}")
    if values.get("engine", {}).get("base_url", "internal") != "internal":
        found["engine"] = {"base_url": f"http://{_HOST}:9"}  # nobody listens there
    return found


def change_settings(home: Path, changes: Changes, *, rewrite: bool) -> None:
    """
    Change settings of bridge.toml. `rewrite`: also disconnect its listeners and destinations.

    The file is written anew; the original stays beside it.
    """
    file = home / FILE_NAME
    text = file.read_text("utf-8")
    values = parse_toml(text, file)
    for section, members in changes.items():
        table = {**values.get(section, {}), **members}
        values[section] = {key: value for key, value in table.items() if value is not None}
    if rewrite:
        listeners = values.get("listener", [])
        for table, port in zip(listeners, free_ports(len(listeners)), strict=True):
            table.update(_listener(table, port))
        for table in values.get("destination", []):
            table["enabled"] = False
    new = "\n".join(_as_toml(values))
    replace_all({file: new.encode(), home / f"{FILE_NAME}.original": text.encode()})


def disconnect(home: Path) -> None:
    """Disconnect the listeners and destinations that the console saved."""
    settings = load(home)
    database = open_bridge_database(settings)
    try:
        migrate_bridge(database)
        _disconnect(database)
    finally:
        database.dispose()


def _disconnect(database: Database) -> None:
    with database.write() as connection:
        active = mapping_versions.active_versions(connection)
        for name, activation in active.items():
            owner = active_settings.connection_of_record(name)
            record = mapping_versions.find(connection, name, activation.version)
            table = None if owner is None or record is None else active_settings.table_of(record)
            if owner is None or table is None:
                continue
            kind, own = owner
            table["enabled"] = False
            if kind is ChannelKind.LISTENER:
                table |= _listener(table, free_ports(1)[0])
            changed = active_settings.make_connection_record(kind, own, table)
            mapping_versions.activate(
                connection,
                changed,
                activation.at + 1,
                operator(),
                _REASON,
                ActivationOrigin.ACTIVATE,
            )


def _listener(table: Mapping[str, Any], port: int) -> dict[str, Any]:
    address = parse_connection_address(table.get("bind"))
    if isinstance(address, FolderAddress):
        return {"enabled": False}
    if isinstance(address, WebAddress):
        scheme = "https" if address.secure else "http"
        return {"bind": f"{scheme}://{_HOST}:{port}{address.path}"}
    return {"bind": f"{_HOST}:{port}"}


_given: set[int] = set()


def free_ports(count: int) -> Sequence[int]:
    """Return ports of this machine that nobody listens on, each only once."""
    found: list[int] = []
    for port in range(_FIRST_PORT, 2**16):
        if len(found) == count:
            break
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        _given.add(port)
        found.append(port)
    return found


def _as_toml(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections, then the arrays of tables."""
    for name, table in values.items():
        if isinstance(table, Mapping):
            yield as_toml(name, table).replace(f"[[{name}]]", f"[{name}]", 1)
        elif not isinstance(table, list):
            yield f"{name} = {json.dumps(table, ensure_ascii=False)}"
    for name, tables in values.items():
        if isinstance(tables, list):
            yield from (as_toml(name, table) for table in tables)
