"""Unmapped codes on both databases: counted, listed for the active version, acknowledged."""

from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import mapping_versions, unmapped_codes
from bridge.store.records.mapping_versions import ActivationOrigin, MappingVersion
from bridge.store.records.unmapped_codes import MAX_NAMED_CODES, CodeKey, CodeUse

SEX = CodeKey("orders", "sex", "X")
V1, V2 = MappingVersion("orders", "a" * 16, {}), MappingVersion("orders", "b" * 16, {})


def activate(database: Database, version: MappingVersion) -> None:
    with database.write() as connection:
        mapping_versions.activate(connection, version, 1, "ann", "", ActivationOrigin.ACTIVATE)


def test_codes_of_the_active_version_are_listed(database: Database) -> None:
    """Codes are counted together. The next version lists them when it meets them too."""
    upgrade(database)
    activate(database, V1)
    unmapped_codes.add(database, {SEX: CodeUse(V1.version, "PID-8.1", "empty", 2)}, 10)
    unmapped_codes.add(database, {SEX: CodeUse(V1.version, "PID-8.1", "empty", 3)}, 20)
    (found,) = unmapped_codes.list_active(database, 9)
    assert (found.code, found.count, found.first_at, found.last_at) == ("X", 5, 10, 20)
    activate(database, V2)
    assert unmapped_codes.list_active(database, 9) == []
    unmapped_codes.add(database, {SEX: CodeUse(V2.version, "PID-8.1", "empty")}, 30)
    assert [each.count for each in unmapped_codes.list_active(database, 9)] == [6]


def test_a_code_is_marked_as_seen(database: Database) -> None:
    """Actor and time of the acknowledgment are stored once, and stay when the code occurs again."""
    upgrade(database)
    activate(database, V1)
    unmapped_codes.add(database, {SEX: CodeUse(V1.version, "PID-8.1", "empty")}, 10)
    assert unmapped_codes.mark_seen(database, SEX, "ann", 11)
    assert not unmapped_codes.mark_seen(database, SEX, "bob", 12)
    unmapped_codes.add(database, {SEX: CodeUse(V1.version, "PID-8.1", "empty")}, 13)
    (found,) = unmapped_codes.list_active(database, 9)
    assert (found.seen_by, found.seen_at, found.count) == ("ann", 11, 2)


def test_a_flood_of_codes_is_counted_together(database: Database) -> None:
    """A limited number of codes of a table has rows, and old ones are removed."""
    upgrade(database)
    activate(database, V1)
    met = CodeUse(V1.version, "MSH-4.1", "refuse")
    flood = {CodeKey("orders", "sites", f"S{number:04}"): met for number in range(250)}
    unmapped_codes.add(database, flood, 10)
    found = {each.code: each.count for each in unmapped_codes.list_active(database, 1000)}
    assert len(found) == MAX_NAMED_CODES + 1
    assert found[""] == len(flood) - MAX_NAMED_CODES
    unmapped_codes.add(database, {SEX: met}, 100 * 86_400_000)
    assert [each.code for each in unmapped_codes.list_active(database, 1000)] == ["X"]
