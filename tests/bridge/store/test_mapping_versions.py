"""Versions of definitions on both databases: stored once and activated in order; drafts."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import VersionDamaged
from bridge.store.migration import upgrade
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin, MappingDraft, MappingVersion

FIRST = MappingVersion("orders", "aaaa0000", {"orders.yaml": "kind: orders\n"})
SECOND = MappingVersion("orders", "bbbb0000", {"orders.yaml": "kind: orders # Ü\n"})


def test_activations(database: Database) -> None:
    """The last activation of a name is active. A stored version never changes."""
    upgrade(database)
    with database.write() as connection:
        database.serialize(connection, mapping_versions.LOCK)
        mapping_versions.activate(connection, FIRST, 1, "service", "", ActivationOrigin.START)
        mapping_versions.activate(connection, SECOND, 2, "ann", "Grüße", ActivationOrigin.ACTIVATE)
        last = mapping_versions.activate(connection, FIRST, 3, "bob", "", ActivationOrigin.ROLLBACK)
        mapping_versions.store(connection, MappingVersion("orders", SECOND.version, {}), 4)
    with database.read() as connection:
        assert mapping_versions.latest_activation_id(connection) == last
        assert mapping_versions.active_versions(connection)["orders"].version == FIRST.version
        entries = mapping_versions.history(connection, "orders")
        assert mapping_versions.find(connection, "orders", SECOND.version) == SECOND
        assert mapping_versions.find(connection, "orders", "nothing") is None
        assert set(mapping_versions.versions(connection, "orders")) == {
            FIRST.version,
            SECOND.version,
        }
    assert [(each.version, each.actor, each.origin) for each in entries] == [
        (FIRST.version, "bob", ActivationOrigin.ROLLBACK),
        (SECOND.version, "ann", ActivationOrigin.ACTIVATE),
        (FIRST.version, "service", ActivationOrigin.START),
    ]


def test_a_damaged_version(database: Database) -> None:
    """Sources that differ from their digest are refused. Older releases have no digest."""
    upgrade(database)
    with database.write() as connection:
        mapping_versions.store(connection, FIRST, 1)
        connection.execute(text("UPDATE mapping_version SET sources = replace(sources, 'o', 'O')"))
        with pytest.raises(VersionDamaged, match="aaaa0000 of orders is damaged"):
            mapping_versions.find(connection, "orders", FIRST.version)
        connection.execute(text("UPDATE mapping_version SET digest = NULL"))
        assert mapping_versions.find(connection, "orders", FIRST.version) is not None


def test_drafts(database: Database) -> None:
    """Each author has a draft, saved with the revision it is based on, and deleted once."""
    upgrade(database)
    ann = MappingDraft("orders", "ann", {"orders.yaml": "x"}, "aaaa", 0, "", 1)
    with database.write() as connection:
        assert mapping_versions.save_draft(connection, ann) == 1
        assert mapping_versions.save_draft(connection, replace(ann, actor="bob", saved_at=2)) == 1
        newer = replace(ann, sources={"orders.yaml": "y"}, revision=1, saved_at=3)
        assert mapping_versions.save_draft(connection, newer) == 2
        assert mapping_versions.save_draft(connection, newer) == 0, "based on a removed revision"
        assert mapping_versions.save_draft(connection, ann) == 0, "created twice"
        assert mapping_versions.draft(connection, "orders") == replace(newer, revision=2)
        assert [each.actor for each in mapping_versions.drafts(connection)] == ["ann", "bob"]
        assert mapping_versions.delete_draft(connection, "orders", "ann")
        assert not mapping_versions.delete_draft(connection, "orders", "ann")
        assert mapping_versions.draft(connection, "orders", "ann") is None
