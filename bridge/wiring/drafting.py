"""
Drafts of definitions: saved as they are, checked, and put into force once nothing is wrong.

For those who keep no files: a draft is laid over what is in force, so it holds only what it
changes. Its state is `draft` until a check finds no error, then `checked`.
"""

from dataclasses import dataclass

from bridge.errors import BridgeError
from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.wiring.activating import Activated, Who, activate
from bridge.wiring.shelf import files_of, in_force
from config import Settings
from mappings.compiler import bundle, check_sources
from mappings.errors import MappingErrors
from mappings.events import Issue
from mappings.nodes import Sources


class NoDraft(BridgeError):  # noqa: N818  # named for what happened
    """Nobody has written a draft of this definition."""

    def __init__(self, name: str) -> None:
        super().__init__(f"mapping {name} has no draft")


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a draft found; `version` is empty where there is an error."""

    version: str
    issues: tuple[Issue, ...]


def save(settings: Settings, database: Database, name: str, draft: Sources, who: Who) -> Checked:
    """Keep a draft, whatever is wrong with it, and say what that is."""
    found = check(settings, database, name, draft)
    with database.write() as connection:
        kept.save_draft(connection, name, draft, found.version, who.at, who.actor)
    return found


def check(settings: Settings, database: Database, name: str, draft: Sources) -> Checked:
    """Name every mistake of a draft."""
    sources = whole(settings, database, name, draft)
    issues = tuple(check_sources(sources, [name], tables=False))
    try:
        made, _ = bundle(sources, name)
    except MappingErrors:
        return Checked("", issues)
    return Checked(made.version, issues)


def whole(settings: Settings, database: Database, name: str, draft: Sources) -> Sources:
    """Lay a draft over what is in force, and that over the files of HOME."""
    return {**files_of(settings)(name), **in_force(settings, database)(name), **draft}


def activate_draft(settings: Settings, database: Database, name: str, who: Who) -> Activated:
    """Put a draft into force, and drop it. Raises NoDraft, and as `activate`."""
    with database.read() as connection:
        draft = kept.drafts(connection).get(name)
    if draft is None:
        raise NoDraft(name)
    sources = whole(settings, database, name, draft.sources)
    (done,) = activate(settings, database, [(name, sources)], who)
    with database.write() as connection:
        kept.drop_draft(connection, name)
    return done
