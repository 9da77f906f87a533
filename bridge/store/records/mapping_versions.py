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

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.store.errors import VersionDamaged
from bridge.store.tables import MAPPING_ACTIVATIONS, MAPPING_DRAFTS, MAPPING_VERSIONS

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
    """The activation of a version: `at` in ms, who, why, and what was proved before, as JSON."""

    id: int
    name: str
    version: str
    at: int
    actor: str
    reason: str
    origin: ActivationOrigin
    evidence: str | None = None


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


_VERSION, _ACTIVATION, _DRAFT = MAPPING_VERSIONS.c, MAPPING_ACTIVATIONS.c, MAPPING_DRAFTS.c

LOCK = "mapping activation"
"""Activations are serialized on this name (`Database.serialize`)."""


def store(connection: Connection, version_: MappingVersion, now: int) -> None:
    """Store a version. An existing one is not changed."""
    sources = _to_json(version_.sources)
    row = {
        "name": version_.name,
        "version": version_.version,
        "sources": sources,
        "stored_at": now,
        "digest": _digest(sources),
    }
    connection.execute(insert(MAPPING_VERSIONS).values(row).on_conflict_do_nothing())


def activate(
    connection: Connection,
    version_: MappingVersion,
    now: int,
    actor: str,
    reason: str,
    origin: ActivationOrigin,
    *,
    evidence: str | None = None,
) -> int:
    """Activate a version; return the id of the activation."""
    store(connection, version_, now)
    row = {
        "name": version_.name,
        "version": version_.version,
        "at": now,
        "actor": actor,
        "reason": reason,
        "origin": origin.value,
        "evidence": evidence,
    }
    activation = insert(MAPPING_ACTIVATIONS).values(row).returning(_ACTIVATION.id)
    return int(connection.execute(activation).scalar_one())


def active_versions(connection: Connection) -> dict[str, Activation]:
    """Return the latest activation of each definition."""
    latest = select(func.max(_ACTIVATION.id)).group_by(_ACTIVATION.name)
    rows = connection.execute(select(MAPPING_ACTIVATIONS).where(_ACTIVATION.id.in_(latest)))
    return {row.name: _activation(row) for row in rows}


def history(connection: Connection, name: str) -> list[Activation]:
    """List the activations of a definition, latest first."""
    own = select(MAPPING_ACTIVATIONS).where(_ACTIVATION.name == name)
    return [_activation(row) for row in connection.execute(own.order_by(_ACTIVATION.id.desc()))]


def latest_activation_id(connection: Connection) -> int:
    """Return the id of the latest activation of any definition; 0 if there is none."""
    return connection.scalar(select(func.max(_ACTIVATION.id))) or 0


def find(connection: Connection, name: str, version: str) -> MappingVersion | None:
    """Return a version, or None. Raises VersionDamaged."""
    stored = select(MAPPING_VERSIONS).where(_VERSION.name == name, _VERSION.version == version)
    row = connection.execute(stored).first()
    if row is None:
        return None
    is_text = isinstance(row.sources, str)  # a damaged row of SQLite may have another type
    if not is_text or row.digest not in {None, _digest(row.sources)}:
        raise VersionDamaged(name, version)
    return MappingVersion(row.name, row.version, _from_json(row.sources))


def versions(connection: Connection, name: str) -> list[str]:
    """List the stored versions of a definition, newest first."""
    own = select(_VERSION.version).where(_VERSION.name == name)
    return list(connection.scalars(own.order_by(_VERSION.stored_at.desc())))


def save_draft(connection: Connection, draft: MappingDraft) -> int:
    """
    Save a draft in place of the revision that it names (0: a new one); return the new revision.

    Return 0, and change nothing, if another window has saved the draft.
    """
    content = {
        "sources": _to_json(draft.sources),
        "begun_on": draft.begun_on,
        "checked_version": draft.checked_version,
        "saved_at": draft.saved_at,
        "revision": draft.revision + 1,
    }
    saved: int | None
    if draft.revision:
        saved = connection.scalar(
            update(MAPPING_DRAFTS)
            .where(_DRAFT.name == draft.name, _DRAFT.actor == draft.actor)
            .where(_DRAFT.revision == draft.revision)
            .values(content)
            .returning(_DRAFT.revision)
        )
    else:
        new = insert(MAPPING_DRAFTS).values(name=draft.name, actor=draft.actor, **content)
        saved = connection.scalar(new.on_conflict_do_nothing().returning(_DRAFT.revision))
    return saved or 0


def drafts(connection: Connection) -> list[MappingDraft]:
    """List all drafts, last saved first."""
    newest_first = select(MAPPING_DRAFTS).order_by(_DRAFT.saved_at.desc())
    rows = connection.execute(newest_first).mappings()
    return [MappingDraft(**{**row, "sources": _from_json(row["sources"])}) for row in rows]


def draft(connection: Connection, name: str, actor: str = "") -> MappingDraft | None:
    """Return an author's draft of a definition; without an author the one that was saved last."""
    known = (row for row in drafts(connection) if row.name == name)
    return next((row for row in known if actor in ("", row.actor)), None)


def delete_draft(connection: Connection, name: str, actor: str) -> bool:
    """Delete a draft; return whether it existed."""
    own = delete(MAPPING_DRAFTS).where(_DRAFT.name == name, _DRAFT.actor == actor)
    return connection.execute(own).rowcount > 0


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
