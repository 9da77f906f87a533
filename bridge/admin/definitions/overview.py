"""The list of definitions for the console: active versions, drafts, and who uses them."""

from collections.abc import Mapping
from typing import Any

from bridge.admin.definitions import problems
from bridge.admin.definitions.activation import differing_definitions
from bridge.admin.definitions.problems import check_cached
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import Activation
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import all_sources, file_sources
from bridge.wiring.destinations import destination_definition_names
from config import Settings
from config.sections import DestinationSettings
from mappings.compiler import definition_names


def overview(settings: Settings, database: Database) -> Mapping[str, Any]:
    """List listeners and destinations with their definitions, and all definitions."""
    current = active_settings.current(settings, database)
    with database.read() as connection:
        active = kept.active_versions(connection)
        drafts = kept.drafts(connection)
    own = {each.name: each.mappings for each in settings.listener}
    known = {*definition_names(file_sources(settings)("")), *active, *(e.name for e in drafts)}
    differ = set(differing_definitions(settings, database))
    return {
        "listeners": [
            {
                "name": each.name,
                "address": str(each.bind),
                "mappings": each.mappings,
                "settings": own.get(each.name, each.mappings),
                "said": _activation(active.get(active_settings.list_record_name(each.name))),
            }
            for each in current.listener
        ],
        "destinations": [
            {"name": each.name, "address": str(each.address), "mappings": _mappings(each)}
            for each in current.destination
        ],
        "definitions": [
            {
                "name": name,
                "kind": _kind(settings, database, name),
                "in_force": _activation(active.get(name)),
                "used": users(current, name),
                "drafts": [problems.draft(each) for each in drafts if each.name == name],
                "files_differ": name in differ,
            }
            for name in sorted(known)
            if not active_settings.is_record(name)
        ],
    }


def kinds(settings: Settings, database: Database) -> Mapping[str, str]:
    """Return the kind (`orders`, `patients`, `results`) of each definition without errors."""
    with database.read() as connection:
        active = {
            name for name in kept.active_versions(connection) if not active_settings.is_record(name)
        }
    known = sorted({*definition_names(file_sources(settings)("")), *active})
    found = {name: _kind(settings, database, name) for name in known}
    return {name: kind for name, kind in found.items() if kind}


def users(settings: Settings, name: str) -> dict[str, list[str]]:
    """Return the listeners and destinations that use a definition."""
    return {
        "listeners": [each.name for each in settings.listener if name in each.mappings],
        "destinations": [
            each.name for each in settings.destination if name in destination_definition_names(each)
        ],
    }


def _activation(found: Activation | None) -> dict[str, Any] | None:
    return problems.activation(found) if found else None


def _mappings(destination: DestinationSettings) -> list[str]:
    return list(destination_definition_names(destination))


def _kind(settings: Settings, database: Database, name: str) -> str:
    return problems.kind(check_cached(all_sources(settings, database, name), name).made)
