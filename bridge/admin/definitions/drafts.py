"""Drafts of definitions: saved, checked, activated; and versions by name.

Each author has their own. A draft is laid over what is in force, so it holds only what it
changes. Its state is `draft` until a check finds no error, then `checked`.

A version's name may be shortened to what is unambiguous. Of several authors' drafts, `draft` is
the one that was saved last.
"""

from dataclasses import dataclass, replace

from bridge.admin.definitions.activation import Activated, Author, activate, before, resolve
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import MappingDraft
from bridge.wiring.active_definitions import files_of, in_force, whole
from config import Settings
from mappings.compiler import Compiled, check_sources, compile_sources, compile_with_files
from mappings.language.diagnostics import Issue, Sources
from mappings.language.errors import MappingErrors


class NoDraft(BridgeError):  # noqa: N818  # named for what happened
    """Nobody, or not this author, has written a draft of this definition."""

    def __init__(self, name: str) -> None:
        super().__init__(f"mapping {name} has no draft")


class SavedElsewhere(BridgeError):  # noqa: N818  # named for what happened
    """The same author saved another revision meanwhile, in another window."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the draft of mapping {name} was saved in another window meanwhile")


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of sources found; `made` is None where there is an error."""

    issues: tuple[Issue, ...]
    made: Compiled | None = None

    @property
    def version(self) -> str:
        """The version it would be; empty where there is an error."""
        return "" if self.made is None else self.made.version


def save(
    settings: Settings, database: Database, draft: MappingDraft
) -> tuple[MappingDraft, Checked]:
    """
    Keep a draft, whatever is wrong with it, and say what that is.

    `draft.revision` is the one it was written on, 0 for a new draft. Raises SavedElsewhere.
    """
    found = check(whole(settings, database, draft.name, draft.sources), draft.name)
    return keep(database, replace(draft, checked_version=found.version)), found


def keep(database: Database, draft: MappingDraft) -> MappingDraft:
    """Keep a draft that was checked; give it with its revision. Raises SavedElsewhere."""
    with database.write() as connection:
        revision = kept.save_draft(connection, draft)
    if not revision:
        raise SavedElsewhere(draft.name)
    return replace(draft, revision=revision)


def check(sources: Sources, name: str) -> Checked:
    """Name every mistake of a definition, and compile it where there is none."""
    issues = tuple(check_sources(sources, [name], tables=False))
    try:
        made, _ = compile_with_files(sources, name)
    except MappingErrors:
        return Checked(issues)
    return Checked(issues, made)


def activate_draft(
    settings: Settings, database: Database, name: str, who: Author, author: str = ""
) -> Activated:
    """Put an author's draft into force, and drop it; without one the draft saved last."""
    with database.read() as connection:
        draft = kept.draft(connection, name, author)
    if draft is None:
        raise NoDraft(name)
    sources = whole(settings, database, name, draft.sources)
    (done,) = activate(settings, database, [(name, sources)], who)
    with database.write() as connection:
        kept.drop_draft(connection, name, draft.actor)
    return done


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
