"""Versions of definitions, on both dialects: kept once, activated in order, drafts replaced."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import VersionDamaged
from bridge.store.migration import upgrade
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import ActivationOrigin, MappingDraft, MappingVersion

FIRST = MappingVersion("orders", "aaaa0000", {"orders.yaml": "kind: orders\n"})
SECOND = MappingVersion("orders", "bbbb0000", {"orders.yaml": "kind: orders # Ü\n"})


def test_activations(database: Database) -> None:
    """The last activation of a name is in force; a version once kept is never changed."""
    upgrade(database)
    with database.write() as connection:
        database.serialize(connection, kept.LOCK)
        kept.activate(connection, FIRST, 1, "service", "", ActivationOrigin.START)
        kept.activate(connection, SECOND, 2, "ann", "Grüße", ActivationOrigin.ACTIVATE)
        last = kept.activate(connection, FIRST, 3, "bob", "", ActivationOrigin.ROLLBACK)
        kept.store(connection, MappingVersion("orders", SECOND.version, {}), 4)
    with database.read() as connection:
        assert kept.latest_activation_id(connection) == last
        assert kept.active_versions(connection)["orders"].version == FIRST.version
        entries = kept.history(connection, "orders")
        assert kept.find(connection, "orders", SECOND.version) == SECOND
        assert kept.find(connection, "orders", "nothing") is None
        assert set(kept.versions(connection, "orders")) == {FIRST.version, SECOND.version}
    assert [(each.version, each.actor, each.origin) for each in entries] == [
        (FIRST.version, "bob", ActivationOrigin.ROLLBACK),
        (SECOND.version, "ann", ActivationOrigin.ACTIVATE),
        (FIRST.version, "service", ActivationOrigin.START),
    ]


def test_a_damaged_version(database: Database) -> None:
    """Sources that do not have their digest are refused; those of an older release have none."""
    upgrade(database)
    with database.write() as connection:
        kept.store(connection, FIRST, 1)
        connection.execute(text("UPDATE mapping_version SET sources = replace(sources, 'o', 'O')"))
        with pytest.raises(VersionDamaged, match="aaaa0000 of orders is damaged"):
            kept.find(connection, "orders", FIRST.version)
        connection.execute(text("UPDATE mapping_version SET digest = NULL"))
        assert kept.find(connection, "orders", FIRST.version) is not None


def test_drafts(database: Database) -> None:
    """Each author's own: saved over the revision it was written on, and dropped once."""
    upgrade(database)
    ann = MappingDraft("orders", "ann", {"orders.yaml": "x"}, "aaaa", 0, "", 1)
    with database.write() as connection:
        assert kept.save_draft(connection, ann) == 1
        assert kept.save_draft(connection, replace(ann, actor="bob", saved_at=2)) == 1
        newer = replace(ann, sources={"orders.yaml": "y"}, revision=1, saved_at=3)
        assert kept.save_draft(connection, newer) == 2
        assert kept.save_draft(connection, newer) == 0, "written on a revision that is gone"
        assert kept.save_draft(connection, ann) == 0, "begun twice"
        assert kept.draft(connection, "orders") == replace(newer, revision=2)
        assert [each.actor for each in kept.drafts(connection)] == ["ann", "bob"]
        assert kept.delete_draft(connection, "orders", "ann")
        assert not kept.delete_draft(connection, "orders", "ann")
        assert kept.draft(connection, "orders", "ann") is None
