"""A database with messages of several channels, types, states and sites, all indexed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from bridge.admin.lists.listing import UNLIMITED, Access, ListDefinition, ListPage, ListRequest
from bridge.admin.messages.message_index import MessageIndexer, MessageOrigin
from bridge.store.database import Database
from mappings.inbound.definition import Subjects
from mappings.inbound.order_mapping import AbsentTags
from mappings.language.rules import TAGS
from tests.bridge.admin.messages.full_index import index_all

START = 1_700_000_000_000
MODALITY = 1 << TAGS.index("Modality")
CHANNELS = ("ris", "ris", "ris", "his")
TYPES = ("ORM^O01", "ORM^O01", "OMI^O23", "ADT^A40", "ORM^O01")
STATES = ("done", "done", "parked", "refused", "queued", "cancelled", "done")
_ROW = text("""
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state,
        code, detail, attempts, retransmits)
    VALUES (:n, :at, :channel, :n, :n, 0, :type, 'orders', 'v1', :flags, 'AA', 'delivered', '', '',
        :state, :code, :detail, :attempts, :retransmits)
""")
_BODY = text("INSERT INTO message_body (message_id, payload, ack) VALUES (:n, :payload, :payload)")


@dataclass(frozen=True)
class Sample:
    """What is known about one message."""

    n: int
    channel: str
    type: str
    state: str
    site: str
    code: str
    attempts: int
    has_modality: bool

    @property
    def name(self) -> str:
        return ("Müller^Jürgen", "ROSSI^Anna", "Miller^Ann")[self.n % 3]

    @property
    def payload(self) -> bytes:
        return (
            f"MSH|^~\\&|RIS{self.n % 2}|HOSP|B|R|20260102||{self.type}|C{self.n}|P|2.5.1"
            f"||||||UNICODE UTF-8\rPID|1||M{self.n % 3}||{self.name}\rORC|NW|P{self.n}|F{self.n}\r"
        ).encode()


def sample(n: int) -> Sample:
    return Sample(
        n,
        CHANNELS[n % len(CHANNELS)],
        TYPES[n % len(TYPES)],
        STATES[n % len(STATES)],
        ("A", "A", "B")[n % 3],
        "207" if n % 4 else "not_remembered",
        n % 3,
        bool(n % 5),
    )


def absent_of(origin: MessageOrigin) -> AbsentTags:
    return AbsentTags(0 if _sample(origin).has_modality else MODALITY, 1)


def subjects_of(origin: MessageOrigin) -> Subjects:
    return Subjects(frozenset({_sample(origin).site}))


def _sample(origin: MessageOrigin) -> Sample:
    return sample((origin.received_at - START) // 1000)


@dataclass
class FilledLists:
    database: Database
    samples: list[Sample] = field(default_factory=list)

    def fill(self, first: int = 1, last: int = 120) -> None:
        new = [sample(n) for n in range(first, last + 1)]
        self.samples += new
        rows: list[dict[str, Any]] = [
            {
                **vars(item),
                "at": START + item.n * 1000,
                "payload": item.payload,
                "detail": "Table is LOCKED 100%" if item.n % 2 else "gone",
                "flags": 2 if item.n % 6 == 0 else 0,
                "retransmits": int(item.n % 9 == 0),
            }
            for item in new
        ]
        with self.database.write() as connection:
            connection.execute(_ROW, rows)
            connection.execute(_BODY, rows)
            if self.database.dialect == "postgresql":
                connection.execute(text("SELECT setval('message_ids', :last)"), {"last": last})
        index_all(MessageIndexer(self.database, subjects_of, lambda: START, absent_of=absent_of))

    def expected(self, matches: Callable[[Sample], bool]) -> list[int]:
        """Return the ids of the samples that match, newest first."""
        return [item.n for item in reversed(self.samples) if matches(item)]


def all_pages(
    database: Database,
    listed: ListDefinition[Any],
    request: ListRequest,
    access: Access = UNLIMITED,
) -> list[int]:
    """Return the ids of all pages of a list."""
    found: list[int] = []
    while True:
        page = page_of(database, listed, request, access)
        found += [row.id for row in page.rows]
        if page.next is None:
            return found
        request = ListRequest(
            request.filters, request.sort, request.descending, page.next, None, request.limit
        )


def page_of(
    database: Database,
    listed: ListDefinition[Any],
    request: ListRequest,
    access: Access = UNLIMITED,
) -> ListPage[Any]:
    with database.read() as connection:
        return listed.page(connection, request, access)


def ids(rows: Sequence[Any]) -> list[int]:
    return [row.id for row in rows]
