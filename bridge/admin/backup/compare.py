"""
Comparison of two installations: settings, connections, definitions, code tables, sites, schema.

Secrets are compared and never shown.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy.engine import make_url

from bridge import active_settings
from bridge.active_settings import NAME_KEYS, all_sources
from bridge.admin.backup.backup import urls_of
from bridge.admin.report_engine import CommandEngine, EngineNotReady, internal_engine
from bridge.store import migration
from bridge.store.database import Database
from bridge.store.databases import (
    ENGINE_PACKAGE,
    ENGINE_VERSIONS,
    open_bridge_database,
    open_engine_database,
)
from config import Settings, load
from config.forms import to_table
from config.sections import ChannelKind, PeerKind
from config.settings import paths_in

_PASSWORD: Final = re.compile(r"://([^:@/\s]*):[^@\s]*@")
_SHORT: Final = 200  # characters of a value that is shown
Facts = dict[str, Any]
"""Facts about an installation by their names; a secret is a `_Hidden`."""


class _Hidden(str):
    """The digest of a value that is compared and not shown."""

    __slots__ = ()


def compare(first: Path, second: Path) -> list[str]:
    """Return the differences of two data directories in words; empty if there are none."""
    return list(_differences(_facts(first), _facts(second)))


def _differences(first: Facts, second: Facts) -> Iterator[str]:
    for name in sorted({*first, *second}):
        if name not in second:
            yield f"{name}: only in the first{_value(first[name])}"
        elif name not in first:
            yield f"{name}: only in the second{_value(second[name])}"
        elif first[name] != second[name]:
            if isinstance(first[name], _Hidden) or isinstance(second[name], _Hidden):
                yield f"{name}: differs"
            else:
                values = _text(first[name]), _text(second[name])
                yield f"{name}: {values[0]} in the first, {values[1]} in the second"


def _value(value: Any) -> str:
    return "" if isinstance(value, _Hidden) else f" ({_text(value)})"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text or '""'
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _facts(home: Path) -> Facts:
    settings = load(home)
    facts = dict(_setting_facts(settings))
    facts |= _secret_facts(settings)
    database = open_bridge_database(settings)
    try:
        facts |= _schema_facts("bridge", database, migration.PACKAGE, migration.VERSION_TABLE)
        if migration.current(database):
            current = active_settings.current(settings, database)
            sources = all_sources(settings, database, "")
        else:
            current, sources = settings, active_settings.file_sources(settings)("")
    finally:
        database.dispose()
    facts |= dict(_connection_facts(current))
    facts |= {f"definition file {name}": _hidden(text.encode()) for name, text in sources.items()}
    if settings.engine.is_internal:
        engine = open_engine_database(settings)
        try:
            facts |= _schema_facts("engine", engine, ENGINE_PACKAGE, ENGINE_VERSIONS)
        finally:
            engine.dispose()
        with suppress(EngineNotReady), internal_engine(settings, migrate=False) as opened:
            facts |= dict(_site_facts(opened))
    return facts


def _setting_facts(settings: Settings) -> Iterator[tuple[str, Any]]:
    for name in Settings.model_fields.keys() - {"home", "listener", "destination"}:
        section = getattr(settings, name)
        if isinstance(section, BaseModel):
            for key, value in _flat(to_table(section)):
                shown = _PASSWORD.sub(r"://\1@", value) if isinstance(value, str) else value
                yield f"setting {name}.{key}", shown
    for name, url in urls_of(settings).items():
        if password := make_url(url).password:
            yield f"password of database {name}", _hidden(str(password).encode())


def _secret_facts(settings: Settings) -> Facts:
    """Return the files of `secrets`, and the other files that the settings name."""
    folder = settings.home / "secrets"
    files = {path for path in folder.rglob("*") if path.is_file()} if folder.is_dir() else set()
    files |= {path for value in paths_in(settings) if (path := settings.path(value)).is_file()}
    facts: Facts = {}
    for path in files:
        inside = path.is_relative_to(settings.home)
        name = path.relative_to(settings.home).as_posix() if inside else str(path)
        facts[f"file {name}"] = _hidden(path.read_bytes())
    return facts


def _connection_facts(settings: Settings) -> Iterator[tuple[str, Any]]:
    for kind in (*ChannelKind, *PeerKind):
        for section in active_settings.connections_of(settings, kind):
            for key, value in _flat({"enabled": section.enabled, **to_table(section)}):
                if key != NAME_KEYS[kind]:
                    yield f"{kind} {section.name}: {key}", value


def _site_facts(engine: CommandEngine) -> Iterator[tuple[str, Any]]:
    for site in engine.call("GET", "sites"):
        path = ("sites", site["SiteID"])
        name = f"site {site['SiteID']}"
        for key, value in _flat(site):
            is_large = isinstance(value, str) and len(value) > _SHORT
            yield f"{name}: {key}", _hidden(value.encode()) if is_large else value
        for template in engine.call("GET", *path, "templates"):
            content = json.dumps(template, sort_keys=True, default=str)
            yield f"{name}: template {template.get('number')}", _hidden(content.encode())
        for group in engine.call("GET", *path, "prelim-groups"):
            yield f"{name}: prelim group {group.get('name')}", group


def _schema_facts(name: str, database: Database, package: str, table: str) -> Facts:
    found = migration.current(database, table)
    newest = "".join(migration.heads(package))
    shown = "".join(found) or "none"
    return {
        f"database {name}: kind": database.dialect,
        f"database {name}: migration": shown if shown == newest else f"{shown} (not the newest)",
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _hidden(data: bytes) -> _Hidden:
    return _Hidden(hashlib.sha256(data).hexdigest())
