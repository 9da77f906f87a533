"""
Versions of mapping definitions, their activations, and drafts.

Versions and activations are immutable. Sources are stored as texts by file name and not
interpreted. Functions take a connection; the caller owns the transaction.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from sqlalchemy import Connection, text

from bridge.store.errors import VersionDamaged

Sources = Mapping[str, str]
"""The text of each source file of a definition, by its relative POSIX path."""


class ActivationOrigin(StrEnum):
    """The way in which a version was activated."""

    START = "start"  # the files of HOME at the start of the service
    ACTIVATE = "activate"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class MappingVersion:
    """An immutable version; `version` is the hash of its sources."""

    name: str
    version: str
    sources: Sources


@dataclass(frozen=True, slots=True)
class Activation:
    """The activation of a version: `at` in ms, who, and why."""

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
    The draft of an author: the files that differ from the version it is based on.

    `begun_on` is the version that was active then, empty if there was none. `revision` counts the
    saves. `checked_version` is empty until a check found no error.
    """

    name: str
    actor: str
    sources: Sources
    begun_on: str
    revision: int
    checked_version: str
    saved_at: int


_STORE = text("""
    INSERT INTO mapping_version (name, version, sources, stored_at, digest)
    VALUES (:name, :version, :sources, :now, :digest) ON CONFLICT (name, version) DO NOTHING
""")
_ACTIVATE = text("""
    INSERT INTO mapping_activation (name, version, at, actor, reason, origin)
    VALUES (:name, :version, :now, :actor, :reason, :origin) RETURNING id
""")
_ACTIVE = text("""
    SELECT a.id, a.name, a.version, a.at, a.actor, a.reason, a.origin FROM mapping_activation a
    JOIN (SELECT name, max(id) AS id FROM mapping_activation GROUP BY name) b ON a.id = b.id
""")
_HISTORY = text("""
    SELECT id, name, version, at, actor, reason, origin FROM mapping_activation
    WHERE name = :name ORDER BY id DESC
""")
_LATEST_ID = text("SELECT coalesce(max(id), 0) FROM mapping_activation")
_VERSION = text("""
    SELECT name, version, sources, digest FROM mapping_version
    WHERE name = :name AND version = :version
""")
_VERSIONS = text("SELECT version FROM mapping_version WHERE name = :name ORDER BY stored_at DESC")
_CREATE_DRAFT = text("""
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
_DELETE_DRAFT = text("""
    DELETE FROM mapping_draft WHERE name = :name AND actor = :actor RETURNING name
""")

LOCK = "mapping activation"
"""Activations are serialized on this name (`Database.serialize`)."""


def store(connection: Connection, version_: MappingVersion, now: int) -> None:
    """Store a version. An existing one is not changed."""
    sources = _to_json(version_.sources)
    row = {"name": version_.name, "version": version_.version, "now": now}
    connection.execute(_STORE, {**row, "sources": sources, "digest": _digest(sources)})


def activate(
    connection: Connection,
    version_: MappingVersion,
    now: int,
    actor: str,
    reason: str,
    origin: ActivationOrigin,
) -> int:
    """Activate a version; return the id of the activation."""
    store(connection, version_, now)
    parameters = {"now": now, "actor": actor, "reason": reason, "origin": origin.value}
    row = {"name": version_.name, "version": version_.version, **parameters}
    return int(connection.execute(_ACTIVATE, row).scalar_one())


def active_versions(connection: Connection) -> dict[str, Activation]:
    """Return the latest activation of each definition."""
    return {row.name: _activation(row) for row in connection.execute(_ACTIVE)}


def history(connection: Connection, name: str) -> list[Activation]:
    """List the activations of a definition, latest first."""
    return [_activation(row) for row in connection.execute(_HISTORY, {"name": name})]


def latest_activation_id(connection: Connection) -> int:
    """Return the id of the latest activation of any definition; 0 if there is none."""
    return int(connection.execute(_LATEST_ID).scalar_one())


def find(connection: Connection, name: str, version: str) -> MappingVersion | None:
    """Return a version, or None. Raises VersionDamaged."""
    row = connection.execute(_VERSION, {"name": name, "version": version}).first()
    if row is None:
        return None
    if row.digest not in {None, _digest(row.sources)}:
        raise VersionDamaged(name, version)
    return MappingVersion(row.name, row.version, _from_json(row.sources))


def versions(connection: Connection, name: str) -> list[str]:
    """List the stored versions of a definition, newest first."""
    return [row.version for row in connection.execute(_VERSIONS, {"name": name})]


def save_draft(connection: Connection, draft: MappingDraft) -> int:
    """
    Save a draft in place of the revision that it names (0: a new one); return the new revision.

    Return 0, and change nothing, if another window has saved the draft meanwhile.
    """
    row = {field: getattr(draft, field) for field in MappingDraft.__slots__}
    statement = _SAVE_DRAFT if draft.revision else _CREATE_DRAFT
    found = connection.execute(statement, {**row, "sources": _to_json(draft.sources)}).scalar()
    return int(found or 0)


def drafts(connection: Connection) -> list[MappingDraft]:
    """List all drafts, last saved first."""
    rows = connection.execute(_DRAFTS).mappings()
    return [MappingDraft(**{**row, "sources": _from_json(row["sources"])}) for row in rows]


def draft(connection: Connection, name: str, actor: str = "") -> MappingDraft | None:
    """Return an author's draft of a definition; without an author the one that was saved last."""
    known = (each for each in drafts(connection) if each.name == name)
    return next((each for each in known if actor in ("", each.actor)), None)


def delete_draft(connection: Connection, name: str, actor: str) -> bool:
    """Delete a draft; tell whether it existed."""
    return connection.execute(_DELETE_DRAFT, {"name": name, "actor": actor}).first() is not None


def _activation(row: object) -> Activation:
    values = {field: getattr(row, field) for field in Activation.__slots__}
    return Activation(**{**values, "origin": ActivationOrigin(values["origin"])})


def _digest(sources: str) -> str:
    return blake2b(sources.encode(), digest_size=16).hexdigest()


def _to_json(sources: Sources) -> str:
    return json.dumps(dict(sources), ensure_ascii=False, sort_keys=True)


def _from_json(sources: str) -> Sources:
    found: dict[str, str] = json.loads(sources)
    return found
