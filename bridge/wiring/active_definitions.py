"""
Sources of the active definitions: activated versions in the database, else files on disk.

Read only. `bridge.admin.definitions.activation` activates versions.
"""

from collections.abc import Callable
from functools import lru_cache

from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.wiring.active_settings import is_record
from config import Settings
from mappings.compiler import compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Sources

SourceFinder = Callable[[str], Sources]
"""Returns the sources of a definition by its name."""

_REMEMBERED = 64  # versions that messages in progress may need


def file_sources(settings: Settings) -> SourceFinder:
    """Return a finder for the files of the data directory."""
    folder = settings.home / "mappings"
    return lambda name: read_folder(folder)


def active_sources(settings: Settings, database: Database) -> SourceFinder:
    """Return a finder for the active versions, and for files that were never activated."""
    with database.read() as connection:
        active = kept.active_versions(connection)
        found = {
            name: version.sources
            for name, each in active.items()
            if not is_record(name)
            and (version := kept.find(connection, name, each.version)) is not None
        }
    files = file_sources(settings)
    # The options of a destination may need a code table that the version does not contain.
    return lambda name: {**files(name), **found[name]} if name in found else files(name)


def with_sources(find: SourceFinder, name: str, sources: Sources) -> SourceFinder:
    """Return a finder that returns `sources` for one definition."""
    return lambda wanted: sources if wanted == name else find(wanted)


def all_sources(
    settings: Settings, database: Database, name: str, draft: Sources | None = None
) -> Sources:
    """
    Return all files that a definition may refer to: on disk, in active versions, and in a draft.

    If several versions contain a file, the one of the definition itself takes precedence, then the
    most recently activated one.
    """
    with database.read() as connection:
        every = kept.active_versions(connection).values()
        active = sorted(
            (each for each in every if not is_record(each.name)), key=lambda each: each.id
        )
        last = sorted(active, key=lambda each: each.name == name)
        held = [kept.find(connection, each.name, each.version) for each in last]
    found = dict(file_sources(settings)(name))
    for version in filter(None, held):
        found |= version.sources
    return {**found, **(draft or {})}


def version_finder(database: Database) -> Callable[[str, str], InboundMapping | None]:
    """Return a finder for stored versions by name and version; the finder raises StoreError."""

    @lru_cache(maxsize=_REMEMBERED)
    def recall(name: str, version: str) -> InboundMapping | None:
        with database.read() as connection:
            found = kept.find(connection, name, version)
        made = None if found is None else compile_sources(found.sources, name)
        return made if isinstance(made, InboundMapping) else None

    return recall
