"""Versions of definitions, on both dialects: kept once, activated in order, drafts replaced."""

from bridge.store import mapping_versions as kept
from bridge.store.database import Database
from bridge.store.mapping_versions import Origin, Version
from bridge.store.migrate import upgrade

FIRST = Version("orders", "aaaa0000", {"orders.yaml": "kind: orders\n"})
SECOND = Version("orders", "bbbb0000", {"orders.yaml": "kind: orders # Ü\n"})


def test_activations(database: Database) -> None:
    """The last activation of a name is in force; a version once kept is never changed."""
    upgrade(database)
    with database.write() as connection:
        database.serialize(connection, kept.LOCK)
        kept.activate(connection, FIRST, 1, "service", "", Origin.START)
        kept.activate(connection, SECOND, 2, "ann", "Grüße", Origin.ACTIVATE)
        last = kept.activate(connection, FIRST, 3, "bob", "", Origin.ROLLBACK)
        kept.keep(connection, Version("orders", SECOND.version, {}), 4)
    with database.read() as connection:
        assert kept.latest(connection) == last
        assert kept.in_force(connection)["orders"].version == FIRST.version
        entries = kept.history(connection, "orders")
        assert kept.find(connection, "orders", SECOND.version) == SECOND
        assert kept.find(connection, "orders", "nothing") is None
        assert set(kept.versions(connection, "orders")) == {FIRST.version, SECOND.version}
    assert [(each.version, each.actor, each.origin) for each in entries] == [
        (FIRST.version, "bob", Origin.ROLLBACK),
        (SECOND.version, "ann", Origin.ACTIVATE),
        (FIRST.version, "service", Origin.START),
    ]


def test_drafts(database: Database) -> None:
    """One draft a definition: saved over the one before, and dropped once."""
    upgrade(database)
    with database.write() as connection:
        kept.save_draft(connection, "orders", {"orders.yaml": "x"}, "", 1, "ann")
        kept.save_draft(connection, "orders", {"orders.yaml": "y"}, "cccc", 2, "bob")
        draft = kept.drafts(connection)["orders"]
        assert (draft.sources, draft.checked_version) == ({"orders.yaml": "y"}, "cccc")
        assert kept.drop_draft(connection, "orders")
        assert not kept.drop_draft(connection, "orders")
