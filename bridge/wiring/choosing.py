"""
One version of a definition by a word: `files`, `active`, `previous`, `draft`, or its name.

A version's name may be shortened to what is unambiguous.
"""

from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.wiring.activating import before, resolve
from bridge.wiring.drafting import NoDraft, whole
from bridge.wiring.shelf import files_of, in_force
from config import Settings
from mappings.compiler import Compiled, compile_sources
from mappings.nodes import Sources

FILES, ACTIVE, PREVIOUS, DRAFT = "files", "active", "previous", "draft"


def chosen(settings: Settings, database: Database, name: str, word: str) -> Compiled:
    """Compile one version. Raises MappingErrors, NoSuchVersion, NothingBefore, NoDraft."""
    return compile_sources(_sources(settings, database, name, word), name)


def _sources(settings: Settings, database: Database, name: str, word: str) -> Sources:
    if word == FILES:
        return files_of(settings)(name)
    if word == ACTIVE:
        return in_force(settings, database)(name)
    with database.read() as connection:
        if word == PREVIOUS:
            return before(connection, name).sources
        if word != DRAFT:
            return resolve(connection, name, word).sources
        draft = kept.drafts(connection).get(name)
    if draft is None:
        raise NoDraft(name)
    return whole(settings, database, name, draft.sources)
