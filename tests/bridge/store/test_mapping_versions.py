"""Versions of definitions on both databases: stored once and activated in order; drafts."""

from collections.abc import Iterable
from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.errors import VersionDamaged
from bridge.store.migration import upgrade
from bridge.store.records import mapping_versions, unmapped_codes
from bridge.store.records.mapping_versions import ActivationOrigin, MappingDraft, MappingVersion
from bridge.store.records.unmapped_codes import MAX_NAMED_CODES, CodeKey, CodeUse

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
    assert [(entry.version, entry.actor, entry.origin) for entry in entries] == [
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
        assert [draft.actor for draft in mapping_versions.drafts(connection)] == ["ann", "bob"]
        assert mapping_versions.delete_draft(connection, "orders", "ann")
        assert not mapping_versions.delete_draft(connection, "orders", "ann")
        assert mapping_versions.draft(connection, "orders", "ann") is None


SEX = CodeKey("orders", "sex", "X")
V1, V2 = MappingVersion("orders", "a" * 16, {}), MappingVersion("orders", "b" * 16, {})


def activate(database: Database, version: MappingVersion) -> None:
    with database.write() as connection:
        mapping_versions.activate(connection, version, 1, "ann", "", ActivationOrigin.ACTIVATE)


def with_entries(mapping: str, entries: Iterable[str]) -> MappingVersion:
    """Return a version whose table `sex` has these codes."""
    known = sorted(entries)
    rows = "".join(f"{code.lower()},{code}-value\n" for code in known)
    sources = {f"{mapping}.yaml": "", "codes/sex.csv": f"code,value\n{rows}"}
    return MappingVersion(mapping, f"with {''.join(known)}", sources)


Step = tuple[str, frozenset[str]]
STEPS = st.lists(
    st.tuples(st.sampled_from(["meet", "activate"]), st.frozensets(st.sampled_from("ABCD"))),
    max_size=12,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, back=st.booleans())
def test_codes_without_an_entry_are_listed(
    database: Database, steps: list[Step], back: bool
) -> None:
    """
    After any sequence of messages and activations, also of former versions, the list has each code
    that was met and that the active version lacks, with all its counts, first and last time.
    """
    upgrade(database)
    mapping = f"orders-{uuid4().hex}"
    suffix = "-value" if back else ""
    active = with_entries(mapping, ())
    activate(database, active)
    met: dict[str, list[int]] = {}
    for at, (action, chosen) in enumerate(steps, 100):
        if action == "activate":
            active = with_entries(mapping, chosen)
            activate(database, active)
            continue
        lacking = {
            code for code in chosen if f"{code}-value" not in active.sources["codes/sex.csv"]
        }
        use = CodeUse(active.version, "PID-8.1", "empty", 2, back=back)
        found = {CodeKey(mapping, "sex", f"{code}{suffix}"): use for code in lacking}
        unmapped_codes.add(database, found, at)
        for code in lacking:
            met.setdefault(code, []).append(at)
    listed = [row for row in unmapped_codes.list_active(database, 9999) if row.mapping == mapping]
    assert {row.code: (row.count, row.first_at, row.last_at) for row in listed} == {
        f"{code}{suffix}": (2 * len(times), times[0], times[-1])
        for code, times in met.items()
        if f"{code}-value" not in active.sources["codes/sex.csv"]
    }
    assert [row.last_at for row in listed] == sorted((row.last_at for row in listed), reverse=True)


def test_a_code_without_a_name_is_listed_until_its_table_changes(database: Database) -> None:
    """Whether it has an entry is not known; if it has none, the next message brings it again."""
    upgrade(database)
    activate(database, with_entries("orders", "A"))
    unnamed = {CodeKey("orders", "sex", ""): CodeUse("with A", "PID-5", "empty")}
    unmapped_codes.add(database, unnamed, 10)
    same = replace(with_entries("orders", "A"), version="another rule")
    activate(database, same)
    assert [row.code for row in unmapped_codes.list_active(database, 9)] == [""]
    activate(database, with_entries("orders", "AB"))
    assert unmapped_codes.list_active(database, 9) == []


def test_codes_of_a_table_that_is_gone_are_not_listed(database: Database) -> None:
    upgrade(database)
    activate(database, with_entries("orders", "A"))
    unmapped_codes.add(database, {SEX: CodeUse("with A", "PID-8.1", "empty")}, 10)
    activate(database, V2)
    assert unmapped_codes.list_active(database, 9) == []


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
    found = {record.code: record.count for record in unmapped_codes.list_active(database, 1000)}
    assert len(found) == MAX_NAMED_CODES + 1
    assert found[""] == len(flood) - MAX_NAMED_CODES
    unmapped_codes.add(database, {SEX: met}, 100 * 86_400_000)
    assert [
        unmapped_code_record.code
        for unmapped_code_record in unmapped_codes.list_active(database, 1000)
    ] == ["X"]
