"""Versions of mapping definitions, which of them were in force when, and drafts.

Versions and activations are only ever added. What a definition means is nobody's here: its
sources are texts by file name. Functions take a connection; the caller's transaction decides.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, text

Sources = Mapping[str, str]
"""The text of every file a definition is compiled from, by its relative POSIX path."""


class ActivationOrigin(StrEnum):
    """How a version came into force."""

    START = "start"  # the files of HOME, read when the service started
    ACTIVATE = "activate"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class MappingVersion:
    """One immutable version; `version` is the hash of its sources."""

    name: str
    version: str
    sources: Sources


@dataclass(frozen=True, slots=True)
class Activation:
    """A version came into force: `position` in ms, by whom, and why."""

    id: int
    name: str
    version: str
    at: int
    actor: str
    reason: str
    origin: ActivationOrigin


@dataclass(frozen=True, slots=True)
class MappingDraft:
    """
    What an author is writing: the files that differ from what it was begun on.

    `begun_on` is the version in force then, empty where there was none; `revision` counts how
    often it was saved; `checked_version` is empty until a check found no error.
    """

    name: str
    actor: str
    sources: Sources
    begun_on: str
    revision: int
    checked_version: str
    saved_at: int


_KEEP = text("""
    INSERT INTO mapping_version (name, version, sources, stored_at)
    VALUES (:name, :version, :sources, :now) ON CONFLICT (name, version) DO NOTHING
""")
_ACTIVATE = text("""
    INSERT INTO mapping_activation (name, version, at, actor, reason, origin)
    VALUES (:name, :version, :now, :actor, :reason, :origin) RETURNING id
""")
_IN_FORCE = text("""
    SELECT a.id, a.name, a.version, a.at, a.actor, a.reason, a.origin FROM mapping_activation a
    JOIN (SELECT name, max(id) AS id FROM mapping_activation GROUP BY name) b ON a.id = b.id
""")
_HISTORY = text("""
    SELECT id, name, version, at, actor, reason, origin FROM mapping_activation
    WHERE name = :name ORDER BY id DESC
""")
_LATEST = text("SELECT coalesce(max(id), 0) FROM mapping_activation")
_VERSION = text("""
    SELECT name, version, sources FROM mapping_version WHERE name = :name AND version = :version
""")
_VERSIONS = text("SELECT version FROM mapping_version WHERE name = :name ORDER BY stored_at DESC")
_BEGIN_DRAFT = text("""
    INSERT INTO mapping_draft
        (name, actor, sources, begun_on, revision, checked_version, saved_at)
    VALUES (:name, :actor, :sources, :begun_on, 1, :checked_version, :saved_at)
    ON CONFLICT (name, actor) DO NOTHING RETURNING revision
""")
_SAVE_DRAFT = text("""
    UPDATE mapping_draft SET sources = :sources, begun_on = :begun_on, revision = revision + 1,
        checked_version = :checked_version, saved_at = :saved_at
    WHERE name = :name AND actor = :actor AND revision = :revision RETURNING revision
""")
_DRAFTS = text("""
    SELECT name, actor, sources, begun_on, revision, checked_version, saved_at
    FROM mapping_draft ORDER BY saved_at DESC
""")
_DROP_DRAFT = text("""
    DELETE FROM mapping_draft WHERE name = :name AND actor = :actor RETURNING name
""")

LOCK = "mapping activation"
"""By which activations follow each other: see `Database.serialize`."""


def store(connection: Connection, made: MappingVersion, now: int) -> None:
    """Store a version; one that is there already stays as it is."""
    row = {"name": made.name, "version": made.version, "now": now}
    connection.execute(_KEEP, {**row, "sources": _written(made.sources)})


def activate(
    connection: Connection,
    made: MappingVersion,
    now: int,
    actor: str,
    reason: str,
    origin: ActivationOrigin,
) -> int:
    """Put a version into force; give the number of this activation."""
    store(connection, made, now)
    who = {"now": now, "actor": actor, "reason": reason, "origin": origin.value}
    row = {"name": made.name, "version": made.version, **who}
    return int(connection.execute(_ACTIVATE, row).scalar_one())


def active_versions(connection: Connection) -> dict[str, Activation]:
    """Give the last activation of every definition that ever had one."""
    return {row.name: _activation(row) for row in connection.execute(_IN_FORCE)}


def history(connection: Connection, name: str) -> list[Activation]:
    """List the activations of a definition, the last one first."""
    return [_activation(row) for row in connection.execute(_HISTORY, {"name": name})]


def latest_activation_id(connection: Connection) -> int:
    """Give the number of the last activation of any definition; 0 where there is none."""
    return int(connection.execute(_LATEST).scalar_one())


def find(connection: Connection, name: str, version: str) -> MappingVersion | None:
    """Give one version, if it was ever kept."""
    row = connection.execute(_VERSION, {"name": name, "version": version}).first()
    return None if row is None else MappingVersion(row.name, row.version, _read(row.sources))


def versions(connection: Connection, name: str) -> list[str]:
    """List the versions of a definition that are kept, the newest first."""
    return [row.version for row in connection.execute(_VERSIONS, {"name": name})]


def save_draft(connection: Connection, draft: MappingDraft) -> int:
    """
    Keep a draft in place of the revision it names, 0 for a new one; give its own.

    0: it was saved elsewhere meanwhile, and is kept as it was saved there.
    """
    row = {field: getattr(draft, field) for field in MappingDraft.__slots__}
    statement = _SAVE_DRAFT if draft.revision else _BEGIN_DRAFT
    found = connection.execute(statement, {**row, "sources": _written(draft.sources)}).scalar()
    return int(found or 0)


def drafts(connection: Connection) -> list[MappingDraft]:
    """List all drafts, the one that was saved last first."""
    rows = connection.execute(_DRAFTS).mappings()
    return [MappingDraft(**{**row, "sources": _read(row["sources"])}) for row in rows]


def draft(connection: Connection, name: str, actor: str = "") -> MappingDraft | None:
    """Give an author's draft of a definition; of whoever saved last where nobody is named."""
    known = (each for each in drafts(connection) if each.name == name)
    return next((each for each in known if actor in ("", each.actor)), None)


def drop_draft(connection: Connection, name: str, actor: str) -> bool:
    """Throw a draft away; tell whether there was one."""
    return connection.execute(_DROP_DRAFT, {"name": name, "actor": actor}).first() is not None


def _activation(row: object) -> Activation:
    values = {field: getattr(row, field) for field in Activation.__slots__}
    return Activation(**{**values, "origin": ActivationOrigin(values["origin"])})


def _written(sources: Sources) -> str:
    return json.dumps(dict(sources), ensure_ascii=False, sort_keys=True)


def _read(sources: str) -> Sources:
    found: dict[str, str] = json.loads(sources)
    return found
