"""After the report service is restored from a backup, no result is lost or sent twice."""

from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.contract.responses import ChangesResponse
from bridge.delivery.change_feed import ChangeProcessor
from bridge.engine_client.errors import EngineFailure
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

_BACKUP = """
    DELETE FROM engine_change WHERE cursor > :cursor;
    UPDATE sqlite_sequence SET seq = :cursor WHERE name = 'engine_change';
    DELETE FROM engine_release;
    DELETE FROM engine_signature;
    UPDATE engine_report SET status = 'Draft', signed_at = NULL, signed_by = NULL,
        signed_by_id = NULL, content_hash = NULL, cooling_until = NULL WHERE status = 'Final';
"""


def restore(hospital: Hospital, cursor: int) -> None:
    """Restore the service to the state before its reports were signed."""
    with hospital.engine_database.write() as connection:
        for statement in _BACKUP.strip().rstrip(";").split(";"):
            named = {"cursor": cursor} if ":cursor" in statement else {}
            connection.execute(text(statement), named)


def newest(hospital: Hospital) -> int:
    """Return the cursor of the newest change."""
    with hospital.engine_database.read() as connection:
        return int(connection.execute(text("SELECT max(cursor) FROM engine_change")).scalar_one())


@pytest.mark.parametrize("grown", [False, True])
async def test_a_report_signed_again_is_delivered_again(
    tmp_path: Path, database: Database, *, grown: bool
) -> None:
    """
    The feed is read from its beginning; earlier results are not sent twice.

    A report that the receiver has, and that is signed again, is sent as a correction.
    """
    async with open_hospital(tmp_path, database, destination()) as hospital:
        for number in range(3):
            await hospital.send(order(f"ID{number}", f"A{number}"))
        await hospital.read_and_sign("A0", "In the backup.")
        page = await hospital.page("A1")
        await page("save", text="First.")
        backup = newest(hospital)
        await page("sign")
        await hospital.follow()
        await hospital.delivered(2)
        restore(hospital, backup)
        if grown:
            for number in range(10):
                await hospital.send(order(f"ID3{number}", f"B{number}"))
        hospital.time.leap += 60_000

        hospital.feed_reader.start()
        await eventually_async(
            lambda: hospital.rows("SELECT code FROM exception WHERE kind = 'feed'")
        )
        await hospital.read_and_sign("A1", "Second.")
        await hospital.read_and_sign("A2", "Other.")

        sent = await hospital.delivered(4)
        await hospital.feed_reader.stop()
        sent_bytes = b"".join(sent)
        assert all(part in sent_bytes for part in (b"First.", b"Second.", b"Other."))
        (second,) = [message for message in sent if b"Second." in message]
        (observation_request,) = Message.parse(second).named("OBR")
        assert observation_request.value("OBR-25") == "C", "the receiver has the first text"
        code = "cursor_of_another_feed" if grown else "cursor_beyond_end"
        assert hospital.rows("SELECT code FROM exception WHERE kind = 'feed'") == [(code,)]
        await hospital.follow()
        assert hospital.rows("SELECT count(*) FROM delivery") == [(4,)]


async def test_two_nodes_restart_a_feed_once(database: Database) -> None:
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 5)
    processor.process("changes", ChangesResponse(changes=(), cursor=7))
    processor.restart("changes", 7, "cursor_beyond_end")
    processor.process("changes", ChangesResponse(changes=(), cursor=3))

    processor.restart("changes", 7, "cursor_beyond_end")

    assert processor.cursor("changes") == 3


async def test_a_cursor_of_an_older_version_is_used(tmp_path: Path, database: Database) -> None:
    """A cursor without a feed mark is used. The older version accepts the next cursor."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        with database.write() as connection:
            connection.execute(text("INSERT INTO feed_cursor (feed, cursor) VALUES ('changes', 1)"))
        await hospital.read_and_sign("A1", "Text.")

        await hospital.follow()

        ((cursor, marked),) = hospital.rows("SELECT cursor, marked FROM feed_cursor")
        assert cursor == newest(hospital)
        assert marked > 2**52
        with database.write() as connection:
            connection.execute(text("UPDATE feed_cursor SET cursor = cursor + 1000"))
        with pytest.raises(EngineFailure, match="cursor_beyond_end"):
            await hospital.feed_reader.read_page()
