"""
Store many messages with all related rows, by SQL statements.

The data is that of a year of traffic: nearly all messages are done, a few parked or refused; with
index numbers, orders, report states and deliveries. Identities are distributed as hashes are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, text

from bridge.admin.messages.message_index import (
    NumberKind,
    number_hash,
)
from bridge.index_key import keyed64
from bridge.queue.sites import sites_hash
from bridge.store.database import Database
from bridge.store.postgresql.partitions import SIZE, create_ahead
from mappings.language.rules import TAGS

CHUNK: Final = 200_000
MESSAGES_A_DAY: Final = 1_000_000
_DAY: Final = 86_400_000
INDEXED: Final = 5000
"""One in so many messages has real index numbers; the others have pseudo-random ones."""
FREQUENT: Final = "M-FREQUENT"
"""The patient of every thousandth message."""
WORD: Final = "rossi"
"""A word of the patient's name of each message in `indexed`."""
SENDER: Final = "orders|RIS|H"
"""The sender of the same messages."""

# A permutation of 32 bits above, the running number below: distinct, and spread over all 63.
_SPREAD = "((({salt} + {n}) * 2654435761 % 4294967296) * 2147483648 + {n})"
_RANGE = """
    WITH RECURSIVE n(i) AS
        (SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < :last)
"""
_STATE = """
    CASE WHEN n.i % 10007 = 0 THEN 'parked' WHEN n.i % 211 = 0 THEN 'refused'
         WHEN n.i % 1009 = 0 THEN 'cancelled' WHEN n.i % 17 = 0 THEN 'ignored' ELSE 'done' END
"""


def spread(salt: int, number: str) -> str:
    """Return an SQL expression of 63 pseudo-random bits for an expression below 2**31."""
    return _SPREAD.format(salt=salt * 1_000_003, n=number)


MESSAGES: Final = f"""
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, lane_1, flags, ack_code, acknowledgment, error_code, error_place,
        state, attempts, settled_at, code, detail)
    {_RANGE}
    SELECT n.i, :began + n.i * :step, CASE WHEN n.i % 50 = 0 THEN 'spare' ELSE 'orders' END,
        {spread(1, "n.i")}, {spread(2, "n.i")}, 0,
        CASE WHEN n.i % 5003 = 0 THEN 'ADT^A40' ELSE 'ORM^O01' END,
        'orders', 'seeded',
        {spread(3, "n.i / 5")}, 0, CASE WHEN n.i % 211 = 0 THEN 'AR' ELSE 'AA' END, 'delivered',
        '', '', {_STATE}, 1, :began + n.i * :step + 40,
        CASE WHEN n.i % 10007 = 0 THEN 'not_taken' ELSE '' END,
        CASE WHEN n.i % 10007 = 0 THEN 'the service refuses this: unknown_site'
             WHEN n.i % 211 = 0 THEN 'MSH-11: production only' ELSE '' END
    FROM n
"""  # noqa: S608  # our own names
BODIES: Final = f"""
    INSERT INTO message_body (message_id, payload, ack) {_RANGE}
    SELECT n.i, {{open}}'MSH|^~\\&|RIS|H|B|H|20260101||ORM^O01|C' || n.i || '|P|2.5.1' || :end ||
            'PID|||M' || (n.i / 5) || :end || 'OBR||P' || n.i || '|A' || n.i{{close}},
        {{open}}'MSH|^~\\&|B|H|RIS|H|20260101||ACK|' || n.i || '|P|2.5.1' || :end ||
            'MSA|AA|C' || n.i{{close}}
    FROM n
"""  # noqa: S608  # our own names
NUMBERS: Final = f"""
    INSERT INTO message_number (number, message_id) {_RANGE}
    SELECT {spread(4, "n.i")}, n.i FROM n
    UNION ALL SELECT CASE WHEN n.i % 1000 = 0 THEN :frequent ELSE {spread(5, "n.i / 5")} END, n.i
        FROM n
    UNION ALL SELECT {spread(6, "n.i")}, n.i FROM n
    UNION ALL SELECT {spread(7, "n.i")}, n.i FROM n
    UNION ALL SELECT CASE WHEN n.i % 100 = 0 THEN :other ELSE :site END, n.i FROM n
    ORDER BY 1, 2
"""  # noqa: S608  # our own names
ENTRIES: Final = f"""
    INSERT INTO message_entry (message_id, absent, orders) {_RANGE}
    SELECT n.i, CASE WHEN n.i % 997 = 0 THEN {1 << TAGS.index("Modality")} ELSE 0 END, 1 FROM n
"""  # noqa: S608  # our own names
ORDERS: Final = f"""
    INSERT INTO bridge_order (site, mrn, accession, state, placer, filler, tags, echo, report_id,
        first_message, place, last_message)
    {_RANGE}
    SELECT 'SITE1', 'M' || (n.i / 5), 'A' || n.i,
        CASE WHEN n.i % 701 = 0 THEN 'held' WHEN n.i % 211 = 0 THEN 'cancelled' ELSE 'ordered' END,
        'P' || n.i, 'A' || n.i, '{{}}', '{{}}', 'r' || n.i, n.i * :all / :last_order, 0,
        n.i * :all / :last_order
    FROM n WHERE n.i % 5 = 0
"""  # noqa: S608  # our own names
SEEN: Final = f"""
    INSERT INTO known_report (site, accession, mrn, report_id, status, final, addenda, changed_at,
        check_at)
    {_RANGE}
    SELECT 'SITE1', 'A' || n.i, 'M' || (n.i / 5), 'r' || n.i,
        CASE WHEN n.i > :last_order - :last_order / 50 THEN 'Ordered'
             WHEN n.i % 503 = 0 THEN 'Preliminary' WHEN n.i % 1511 = 0 THEN 'Draft'
             ELSE 'Final' END, 1, 0,
        :began + n.i * :all / :last_order * :step, :never
    FROM n WHERE n.i % 5 = 0
"""  # noqa: S608  # our own names
DELIVERIES: Final = f"""
    INSERT INTO delivery (id, destination, lane, report_id, release_key, event, orders, control_id,
        release_at, created_at, sent_at, acknowledged_at, state, attempts, settled_at, sites_hash)
    {_RANGE}
    SELECT n.i, 'ris', {spread(8, "n.i")}, 'r' || (n.i * 5), 'r' || (n.i * 5) || '/1', 'final',
        '{{"orders": [{{"SiteID": "SITE1"}}]}}', 'D' || n.i, 0,
        :began + n.i * 5 * :all / :last_order * :step,
        :began + n.i * 5 * :all / :last_order * :step,
        :began + n.i * 5 * :all / :last_order * :step,
        CASE WHEN n.i % 20011 = 0 THEN 'parked' ELSE 'done' END, 1,
        :began + n.i * 5 * :all / :last_order * :step, :site
    FROM n WHERE n.i * 5 <= :last_order
"""  # noqa: S608  # our own names
DELIVERED: Final = f"""
    INSERT INTO delivery_body (delivery_id, payload) {_RANGE}
    SELECT n.i, {{open}}'MSH|^~\\&|B|H|RIS|H|20260101||ORU^R01|D' || n.i || '|P|2.5.1' || :end
       {{close}}
    FROM n WHERE n.i * 5 <= :last_order
"""  # noqa: S608  # our own names
_IDENTITIES: Final = """
    INSERT INTO message_identity (identity, digest, edition, message_id, ack_code)
    SELECT identity, digest, edition, id, ack_code FROM message ORDER BY identity
"""
_TABLES = (
    "message", "message_body", "message_number", "bridge_order", "known_report", "delivery",
    "delivery_body", "message_entry",
)  # fmt: skip


def seed(database: Database, count: int, now: int, orders: int = 0) -> None:
    """
    Store `count` messages received until `now` (ms), a million a day, in a new database.

    `orders` is the number of orders, each with a report and a result; 0: one for five messages. Of
    the newest two percent of the orders no report has been opened.
    """
    last_order = 5 * orders or count
    step = _DAY // MESSAGES_A_DAY
    values = {
        "began": now - count * step, "step": step, "all": count, "end": "\r", "never": 2**62,
        "last_order": last_order,
        "frequent": keyed64(number_hash(NumberKind.PATIENT, FREQUENT)),
        "site": keyed64(sites_hash(["SITE1"])), "other": keyed64(sites_hash(["SITE2"])),
    }  # fmt: skip
    sqlite = database.dialect == "sqlite"
    bytes_of = ("CAST(", " AS BLOB)") if sqlite else ("convert_to(", ", 'UTF8')")
    _make_room(database, count)
    with _without_indexes(database):
        for statement in (MESSAGES, BODIES, ENTRIES, ORDERS, SEEN, DELIVERIES, DELIVERED):
            words = statement.replace("{open}", bytes_of[0]).replace("{close}", bytes_of[1])
            of_messages = statement in (MESSAGES, BODIES, ENTRIES)
            _in_chunks(database, words, count if of_messages else last_order, values)
        _in_chunks(database, NUMBERS, count, values, chunk=count)
    _finish(database, count)


def indexed(count: int) -> Iterator[int]:
    """Yield the messages with real index numbers: C, M and A before their id."""
    yield from range(INDEXED, count + 1, INDEXED)


def _in_chunks(
    database: Database, statement: str, count: int, values: dict[str, object], chunk: int = CHUNK
) -> None:
    words = text(statement)
    known = {name: value for name, value in values.items() if name in words.compile().params}
    for first in range(1, count + 1, chunk):
        last = min(first + chunk - 1, count)
        with database.write() as connection:
            connection.execute(words, {**known, "first": first, "last": last})


def _make_room(database: Database, count: int) -> None:
    """Create the partitions for `count` messages."""
    if database.dialect == "postgresql":
        for last in range(1, count + 1, SIZE // 4):
            with database.write() as connection:
                connection.execute(text("SELECT setval('message_ids', :last)"), {"last": last})
            create_ahead(database)


@contextmanager
def _without_indexes(database: Database) -> Iterator[None]:
    """Drop the indexes and create them at the end, which is faster than random inserts."""
    names = ", ".join(f"'{table}'" for table in _TABLES)
    if database.dialect == "sqlite":
        query = (
            "SELECT name, sql FROM sqlite_master "  # noqa: S608  # our own names
            f"WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ({names})"
        )
    else:
        query = (
            "SELECT indexname, indexdef FROM pg_indexes "  # noqa: S608  # our own names
            f"WHERE tablename IN ({names}) AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        )
    with database.write() as connection:
        found = connection.execute(text(query)).all()
        for name, _ in found:
            connection.execute(text(f"DROP INDEX {name}"))
    yield
    for _, made in found:
        with database.write() as connection:
            connection.exec_driver_sql(made.replace(" ON ONLY ", " ON "))  # and its partitions


def _finish(database: Database, count: int) -> None:
    """Set sequences and cursors, so that later messages continue from here."""
    with database.write() as connection:
        connection.execute(text("UPDATE lane_watermark SET message_id = :n"), {"n": count})
        connection.execute(
            text("INSERT INTO message_number_cursor (name, message_id) VALUES ('console', :n)"),
            {"n": count},
        )
        for number in indexed(count):
            _index(connection, number)
        if database.dialect == "postgresql":
            connection.execute(text(_IDENTITIES))
            for table, ids in (("message", "message_ids"), ("delivery", "delivery_id_seq")):
                last = f"SELECT setval('{ids}', (SELECT max(id) FROM {table}))"  # noqa: S608  # our own names
                connection.execute(text(last))
        connection.execute(text("ANALYZE"))


def _index(connection: Connection, number: int) -> None:
    rows = [
        {"number": keyed64(number_hash(kind, value)), "message_id": number}
        for kind, value in (
            (NumberKind.CONTROL, f"C{number}"), (NumberKind.PATIENT, f"M{number // 5}"),
            (NumberKind.ORDER, f"A{number}"), (NumberKind.NAME, WORD), (NumberKind.SENDER, SENDER),
        )
    ]  # fmt: skip
    connection.execute(
        text(
            "INSERT INTO message_number (number, message_id) VALUES (:number, :message_id)"
            " ON CONFLICT DO NOTHING"
        ),
        rows,
    )
