"""Large messages: kept in pieces, and the same for whoever reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from bridge.queue import browse
from bridge.queue.arrivals import Arrival
from bridge.queue.inbox import Inbox
from bridge.queue.parcels import ORPHANED, PIECE, WAYS, forget_orphans, put_apart
from bridge.queue.retention import newer_than_fits, prune
from bridge.queue.states import Event
from bridge.queue.work import Outcome
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.people import NOW, arrival

LENGTH = 700_000
LARGE = "x" * LENGTH


def pieces(store: Database) -> int:
    """Count the pieces that are kept."""
    with store.read() as connection:
        return connection.execute(text("SELECT count(*) FROM parcel_piece")).scalar_one()


def no_rest(_seconds: float) -> None:
    """Go on at once."""


def test_whoever_reads_it_gets_all_of_it(intake: Intake, store: Database) -> None:
    """The page of a message, and its worker."""
    large = arrival("A", content=LARGE)
    (receipt,) = intake.keep(large)
    (claimed,) = Inbox(store, "node").claim(NOW, 10)
    assert claimed.payload == large.payload
    assert browse.message(store, receipt.message_id).payload == large.payload
    assert pieces(store) == -(-len(large.payload) // PIECE)


def test_a_retransmit_adds_nothing(intake: Intake, store: Database) -> None:
    """It gets the stored answer, and its pieces are there already."""
    (first,) = intake.keep(arrival("A", content=LARGE))
    before = pieces(store)
    (second,) = intake.keep(arrival("A", content=LARGE, ack=b"another"))
    assert (second.message_id, second.ack, second.duplicate) == (first.message_id, first.ack, True)
    assert pieces(store) == before


def test_another_content_under_its_control_id(intake: Intake, store: Database) -> None:
    """Is another message with pieces of its own."""
    first, other = arrival("A", content=LARGE), arrival("A", content=LARGE + "y")
    ids = [intake.keep(each)[0].message_id for each in (first, other)]
    assert [browse.message(store, each).payload for each in ids] == [first.payload, other.payload]


def test_one_that_was_cut_short_is_completed(intake: Intake, store: Database) -> None:
    """A process that dies between two pieces has answered nobody; the sender comes again."""
    large = arrival("A", content=LARGE)

    def dies(_seconds: float) -> None:
        raise KeyboardInterrupt

    writer = store.writer()
    with pytest.raises(KeyboardInterrupt):
        put_apart(writer, large, WAYS[store.dialect]._replace(together=1), rest=dies)
    writer.close()
    assert pieces(store) == 1
    (receipt,) = intake.keep(large)
    assert browse.message(store, receipt.message_id).payload == large.payload


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_others_write_between_its_pieces(store: Database) -> None:
    """After each of them nobody is in the way."""
    own, other = store.writer(), store.writer()
    turns = []

    def others_turn(_seconds: float) -> None:
        with other.transaction(wait=False) as cursor:
            cursor.execute("SELECT count(*) FROM parcel_piece")
            turns.append(cursor.fetchone()[0])

    put_apart(own, arrival("A", content=LARGE), rest=others_turn)
    own.close()
    other.close()
    assert turns == list(range(1, LENGTH // PIECE + 2))


class TestForgetting:
    """Pieces go with their message, or a day after it did not come."""

    def orphan(self, store: Database, lost: Arrival) -> None:
        """Keep pieces whose message never comes."""
        writer = store.writer()
        put_apart(writer, lost, WAYS[store.dialect], rest=no_rest)
        writer.close()

    def test_orphans(self, intake: Intake, store: Database) -> None:
        """Those whose message is there stay, however old."""
        (receipt,) = intake.keep(arrival("A", content=LARGE))
        self.orphan(store, arrival("B", content=LARGE))
        whole = pieces(store)
        assert forget_orphans(store, NOW + ORPHANED - 1) == 0
        assert forget_orphans(store, NOW + ORPHANED + 1) == 1
        assert pieces(store) == whole // 2
        assert len(browse.message(store, receipt.message_id).payload) > LENGTH

    def test_one_that_comes_again_after_all(self, intake: Intake, store: Database) -> None:
        """A day late, its pieces count as new from then on."""
        late = NOW + ORPHANED
        self.orphan(store, arrival("A", content=LARGE))
        self.orphan(store, arrival("A", content=LARGE, received_at=late))
        assert forget_orphans(store, late + 1) == 0

    def test_retention(self, intake: Intake, store: Database) -> None:
        """The archive gets the whole of it, the size is counted, and then the pieces go."""
        large = arrival("A", content=LARGE)
        kept = intake.keep(large)[0].message_id
        intake.keep(arrival("B", patient="2", received_at=NOW + 1))
        assert newer_than_fits(store, LENGTH // 2) == NOW + 1
        assert newer_than_fits(store, 2 * LENGTH) == 0
        inbox = Inbox(store, "node")
        inbox.claim(NOW, 1)
        inbox.settle([Outcome(kept, Event.ACCEPTED)], NOW)
        archived: list[bytes] = []

        def archive(_table: str, rows: Sequence[Mapping[str, Any]]) -> None:
            archived.extend(bytes(each["payload"]) for each in rows)

        assert prune(store, NOW + 1, archive=archive).messages == 1
        assert archived == [large.payload]
        assert forget_orphans(store, NOW + ORPHANED + 1) == 1
        assert pieces(store) == 0
