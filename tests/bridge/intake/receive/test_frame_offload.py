"""Threads evaluate large frames. The order of a connection is kept."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from bridge.intake.receive.frame_offload import FrameOffload
from bridge.store.database import Database
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.header import peek
from mllp.contract import as_deferred
from mllp.framing import Frame
from tests.bridge.intake.fixture import IntakeFixture, RecordingPeer, open_intake, order
from tests.eventually import PATIENCE, eventually_async

LEAST = 10_000
LARGE = b"NTE|1||" + b"x" * LEAST + b"\r"


def sending(
    intake: IntakeFixture, offload: FrameOffload
) -> "Callable[[bytes, int], asyncio.Future[list[bytes]]]":
    async def reply_to(payload: bytes, connection: int) -> list[bytes]:
        answered = as_deferred(offload, Frame(payload), RecordingPeer(connection_id=connection))
        return list(await answered.asFuture(asyncio.get_running_loop()))

    return lambda payload, connection: asyncio.ensure_future(reply_to(payload, connection))


async def test_order_within_a_connection(database: Database) -> None:
    """A frame after a large one is stored after it. Other connections do not wait."""
    gate = threading.Event()
    threads = ThreadPoolExecutor(1)
    threads.submit(gate.wait, PATIENCE)
    async with open_intake(database) as intake:
        send = sending(intake, FrameOffload(intake.handler, threads, min_bytes=LEAST))
        large = send(order("L1", "A1") + LARGE, 1)
        await asyncio.sleep(0)
        next_frame = send(order("S2", "A2"), 1)
        other = await send(order("S3", "A3"), 2)
        assert read_ack(other[0]).control_id == b"S3"
        assert not large.done()
        assert not next_frame.done()
        gate.set()
        for future, name in ((large, b"L1"), (next_frame, b"S2")):
            (reply,) = await future
            assert read_ack(reply).control_id == name
        sizes = [
            row[0] > LEAST for row in intake.rows("length(payload)", "message_body", "message_id")
        ]
        assert sizes == [False, True, False]


async def test_frames_behind_a_lookup_do_not_wait_for_its_commit(database: Database) -> None:
    """A sender that does not wait for replies would get one commit for each frame otherwise."""
    async with open_intake(database) as intake:
        offload = FrameOffload(
            intake.handler, ThreadPoolExecutor(1), needs_lookup=lambda payload: b"|S1|" in payload
        )
        send = sending(intake, offload)
        with database.write() as connection:  # no message can be stored meanwhile
            if database.dialect == "postgresql":
                connection.execute(text("LOCK TABLE message IN EXCLUSIVE MODE"))
            replies = [send(order(f"S{number}", "A1"), 1) for number in range(1, 6)]
            await eventually_async(lambda: intake.ledger.arrived == len(replies))
            assert not any(each.done() for each in replies)
        answered = [read_ack(reply).control_id for (reply,) in await asyncio.gather(*replies)]
        assert answered == [b"S1", b"S2", b"S3", b"S4", b"S5"]
        stored = intake.rows("payload", "message_body", "message_id")
        assert [peek(bytes(row[0])).control_id for row in stored] == answered


async def test_an_error_behind_a_lookup_closes_the_connection(database: Database) -> None:
    """Each frame gets its failure, and the connection's next frame is handled."""
    threads = ThreadPoolExecutor(1)
    async with open_intake(database) as intake:
        offload = FrameOffload(intake.handler, threads, needs_lookup=lambda _: True)
        send = sending(intake, offload)
        threads.shutdown()
        for outcome in await asyncio.gather(
            send(order("S1"), 1), send(order("S2"), 1), return_exceptions=True
        ):
            assert isinstance(outcome, RuntimeError)
        with pytest.raises(RuntimeError):
            await send(order("S3"), 1)


async def test_replies_are_equal(database: Database) -> None:
    """Batches, refusals and unreadable frames get the same replies on a thread."""
    async with open_intake(database) as intake:
        offload = FrameOffload(intake.handler, ThreadPoolExecutor(1), min_bytes=0)
        send = sending(intake, offload)
        batch = b"BHS|^~\\&|R\r" + order("B1") + order("B2", mrn="") + b"BTS|2\r"
        (reply,) = await send(batch, 1)
        assert b"MSA|AA|B1" in reply
        assert b"MSA|AE|B2" in reply
        (reply,) = await send(order("X1", mrn=""), 1)
        assert read_ack(reply).error_codes == ("101",)
        (reply,) = await send(b"nothing of ours", 1)
        assert read_ack(reply).error_codes == ("100",)
        first = await send(order("X2"), 1)
        assert await send(order("X2"), 1) == first


async def test_lookups_do_not_wait_for_large_frames(database: Database) -> None:
    """Lookups of another connection have their own thread."""
    gate = threading.Event()
    threads = ThreadPoolExecutor(1)
    threads.submit(gate.wait, PATIENCE)
    lookups = ThreadPoolExecutor(1)
    async with open_intake(database) as intake:
        offload = FrameOffload(
            intake.handler,
            threads,
            min_bytes=LEAST,
            needs_lookup=lambda _: True,
            lookup_threads=lookups,
        )
        send = sending(intake, offload)
        large = send(order("L1", "A1") + LARGE, 1)
        (reply,) = await send(order("S2", "A2"), 2)
        assert read_ack(reply).control_id == b"S2"
        assert not large.done()
        gate.set()
        assert read_ack((await large)[0]).control_id == b"L1"
