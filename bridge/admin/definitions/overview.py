"""All definitions as JSON: their activations and drafts, and the connections that use them."""

from collections.abc import Mapping
from typing import Any

from bridge.admin.definitions.activation import differing_definitions
from bridge.admin.definitions.definition_checks import check_cached
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import Activation, MappingDraft
from bridge.wiring import active_settings
from bridge.wiring.active_settings import all_sources, file_sources
from bridge.wiring.destinations import destination_definition_names
from config import Settings
from mappings.compiler import Compiled, definition_names
from mappings.inbound.definition import InboundMapping
from mappings.inbound.order_mapping import OrderRules


def activation_json(found: Activation) -> dict[str, Any]:
    return {
        "version": found.version,
        "at": found.at,
        "actor": found.actor,
        "reason": found.reason,
        "origin": found.origin.value,
    }


def draft_json(found: MappingDraft) -> dict[str, Any]:
    """Return the JSON form of a draft, without its files."""
    return {
        "actor": found.actor,
        "saved_at": found.saved_at,
        "begun_on": found.begun_on,
        "revision": found.revision,
        "checked_version": found.checked_version,
    }


def kind_of(compiled: Compiled | None) -> str:
    """Return what a definition maps: orders, patients or results; empty if it has errors."""
    if compiled is None:
        return ""
    if not isinstance(compiled, InboundMapping):
        return "results"
    return "orders" if isinstance(compiled.plan, OrderRules) else "patients"


def overview(settings: Settings, database: Database) -> Mapping[str, Any]:
    """List listeners and destinations with their definitions, and all definitions."""
    current = active_settings.current(settings, database)
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
        drafts = mapping_versions.drafts(connection)
    in_file = {each.name: each.mappings for each in settings.listener}
    known = {*definition_names(file_sources(settings)("")), *active, *(e.name for e in drafts)}
    differ = set(differing_definitions(settings, database))
    return {
        "listeners": [
            {
                "name": each.name,
                "address": str(each.bind),
                "mappings": each.mappings,
                "settings": in_file.get(each.name, each.mappings),
                "said": _activation(active.get(active_settings.list_record_name(each.name))),
            }
            for each in current.listener
        ],
        "destinations": [
            {
                "name": each.name,
                "address": str(each.address),
                "mappings": list(destination_definition_names(each)),
            }
            for each in current.destination
        ],
        "definitions": [
            {
                "name": name,
                "kind": _kind(settings, database, name),
                "in_force": _activation(active.get(name)),
                "used": connections_using(current, name),
                "drafts": [draft_json(each) for each in drafts if each.name == name],
                "files_differ": name in differ,
            }
            for name in sorted(known)
            if not active_settings.is_record(name)
        ],
    }


def definition_kinds(settings: Settings, database: Database) -> Mapping[str, str]:
    """Return the kind (`orders`, `patients`, `results`) of each definition without errors."""
    with database.read() as connection:
        active = {
            name
            for name in mapping_versions.active_versions(connection)
            if not active_settings.is_record(name)
        }
    known = sorted({*definition_names(file_sources(settings)("")), *active})
    found = {name: _kind(settings, database, name) for name in known}
    return {name: kind for name, kind in found.items() if kind}


def connections_using(settings: Settings, name: str) -> dict[str, list[str]]:
    """Return the listeners and destinations that use a definition."""
    return {
        "listeners": [each.name for each in settings.listener if name in each.mappings],
        "destinations": [
            each.name for each in settings.destination if name in destination_definition_names(each)
        ],
    }


def _activation(found: Activation | None) -> dict[str, Any] | None:
    return activation_json(found) if found else None


def _kind(settings: Settings, database: Database, name: str) -> str:
    return kind_of(check_cached(all_sources(settings, database, name), name).compiled)
