"""
One version of a definition by a word: `files`, `active`, `previous`, `draft`, or its name.

A version's name may be shortened to what is unambiguous. Of several authors' drafts, `draft` is
the one that was saved last.
"""

from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.wiring.activating import before, resolve
from bridge.wiring.drafting import NoDraft
from bridge.wiring.shelf import files_of, in_force, whole
from config import Settings
from mappings.compiler import Compiled, compile_sources
from mappings.nodes import Sources

FILES, ACTIVE, PREVIOUS, DRAFT = "files", "active", "previous", "draft"


def chosen(settings: Settings, database: Database, name: str, word: str) -> Compiled:
    """Compile one version. Raises MappingErrors, NoSuchVersion, NothingBefore, NoDraft."""
    return compile_sources(sources_of(settings, database, name, word), name)


def sources_of(
    settings: Settings, database: Database, name: str, word: str, author: str = ""
) -> Sources:
    """Give the sources of one version; raises as `chosen`, but for mistakes in them."""
    if word == FILES:
        return files_of(settings)(name)
    if word == ACTIVE:
        return in_force(settings, database)(name)
    with database.read() as connection:
        if word == PREVIOUS:
            return before(connection, name).sources
        if word != DRAFT:
            return resolve(connection, name, word).sources
        draft = kept.draft(connection, name, author)
    if draft is None:
        raise NoDraft(name)
    return whole(settings, database, name, draft.sources)
