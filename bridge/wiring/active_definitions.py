"""Where the definitions in force come from: the database once they were activated, else HOME.

Reads; what puts a version into force is `bridge.admin.definitions.activation`'s.
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
"""Gives the sources in which a definition stands, by its name."""

_REMEMBERED = 64  # versions that messages in hand may still ask for


def file_sources(settings: Settings) -> SourceFinder:
    """Take definitions from the files of HOME."""
    folder = settings.home / "mappings"
    return lambda name: read_folder(folder)


def active_sources(settings: Settings, database: Database) -> SourceFinder:
    """Take what is in force now: the activated version, or the file that never was."""
    with database.read() as connection:
        active = kept.active_versions(connection)
        found = {
            name: version.sources
            for name, each in active.items()
            if not is_record(name)
            and (version := kept.find(connection, name, each.version)) is not None
        }
    files = file_sources(settings)
    # A version holds what it was compiled from; a destination's words may call for a table more.
    return lambda name: {**files(name), **found[name]} if name in found else files(name)


def with_sources(find: SourceFinder, name: str, sources: Sources) -> SourceFinder:
    """Take one definition from elsewhere: what would be, if it were in force."""
    return lambda wanted: sources if wanted == name else find(wanted)


def all_sources(
    settings: Settings, database: Database, name: str, draft: Sources | None = None
) -> Sources:
    """
    Give all that a definition may refer to: files of HOME, what is in force, and a draft.

    What a definition holds itself goes before what others hold under the same name; of those,
    the one that was activated last.
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
    """Make what finds the version that a message began with; it may raise StoreError."""

    @lru_cache(maxsize=_REMEMBERED)
    def recall(name: str, version: str) -> InboundMapping | None:
        with database.read() as connection:
            found = kept.find(connection, name, version)
        made = None if found is None else compile_sources(found.sources, name)
        return made if isinstance(made, InboundMapping) else None

    return recall
