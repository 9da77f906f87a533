"""Refusals, garbled replies, lost connections and slow hooks lose nothing and delay no other."""

import threading
from collections.abc import Callable
from dataclasses import fields
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.store.database import Database
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext
from mllp.errors import LossReason, NotConnected, ReplyLost, Unframeable
from tests.bridge.delivery.fixtures import accepting, destination, outbound
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import PATIENCE, eventually_async


def coded(code: bytes) -> Callable[[bytes], bytes]:
    return lambda payload: accepting(payload).replace(b"MSA|AA", b"MSA|" + code)


def lost(reason: LossReason) -> Callable[[bytes], bytes]:
    def reply(payload: bytes) -> bytes:
        raise ReplyLost(reason)

    return reply


def unreachable(payload: bytes) -> bytes:
    raise NotConnected


FAULTS = {
    "AE": coded(b"AE"),
    "AE with NUL as its error": lambda payload: coded(b"AE")(payload) + b"ERR|||\\X00\\\r",
    "AR": coded(b"AR"),
    "CE": coded(b"CE"),
    "CR": coded(b"CR"),
    "silence": lost(LossReason.TIMEOUT),
    "mismatch": lost(LossReason.MISMATCH),
    "garbage": lost(LossReason.GARBAGE),
    "cut": lost(LossReason.CLOSED),
    "no acknowledgment at all": lambda _: b"hello",
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_faults_are_repeated_with_the_same_bytes(
    tmp_path: Path, database: Database, fault: Callable[[bytes], bytes]
) -> None:
    """After three faults and a good reply, four equal messages were sent and one is delivered."""
    tries = count()

    def reply(payload: bytes) -> bytes:
        return fault(payload) if next(tries) < 3 else accepting(payload)

    async with open_hospital(
        tmp_path, database, destination(), reply_with={"ris": reply}
    ) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Same.")
        await hospital.follow()
        sent = await hospital.delivered(4)
        assert len(set(sent)) == 1
        await eventually_async(lambda: hospital.rows("SELECT state FROM delivery") == [("done",)])
        assert len(hospital.receivers["ris"].sent) == 4


async def test_a_receiver_goes_away_after_it_may_have_a_result(
    tmp_path: Path, database: Database
) -> None:
    """After a lost reply, failed connections do not change the bytes that are sent again."""
    faults = iter([FAULTS["cut"], unreachable, unreachable])

    def reply(payload: bytes) -> bytes:
        return next(faults, accepting)(payload)

    async with open_hospital(
        tmp_path, database, destination(), reply_with={"ris": reply}
    ) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Same.")
        await hospital.follow()
        assert len(set(await hospital.delivered(4))) == 1
        await eventually_async(lambda: hospital.rows("SELECT state FROM delivery") == [("done",)])


async def test_failed_connections_open_the_circuit(tmp_path: Path, database: Database) -> None:
    """A destination without connection is paused like one without replies."""
    away = destination(breaker_after=2)
    async with open_hospital(tmp_path, database, away, reply_with={"ris": unreachable}) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Text.")
        await hospital.follow()
        await eventually_async(lambda: hospital.couriers[0].circuit_status[0])


def unframeable(payload: bytes) -> bytes:
    """Refuse to frame the message: it contains an end block."""
    raise Unframeable(0)


PARKED = {
    **{kind: FAULTS[kind] for kind in ("AR", "silence", "mismatch", "garbage")},
    "unframeable": unframeable,
}


@pytest.mark.parametrize("kind", PARKED)
async def test_a_parked_result_delays_only_those_of_its_report(
    tmp_path: Path, database: Database, kind: str
) -> None:
    """`AR = "park"`: no retry; later results of the report wait, others are sent."""

    def reply(payload: bytes) -> bytes:
        return PARKED[kind](payload) if b"|A1|" in payload else accepting(payload)

    async with open_hospital(
        tmp_path,
        database,
        destination(replies={kind: "park"}),
        reply_with={"ris": reply},
    ) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.send(order("ID2", "A2", "M2"))
        page = await hospital.read_and_sign("A1", "One.")
        await page("addendum/create")
        await page("addendum/save", text="More.")
        await page("addendum/sign")
        await hospital.read_and_sign("A2", "Two.", "M2")
        await hospital.follow()
        await eventually_async(
            lambda: (
                hospital.rows("SELECT state FROM delivery ORDER BY id")
                == [("parked",), ("queued",), ("done",)]
            )
        )


class SlowMapping(OutboundMapping):
    """Writes a message when the test allows it, and records the threads that it uses."""

    called = threading.Event()
    may_finish = threading.Event()
    threads: tuple[int, ...] = ()

    @override
    def render(self, context: ResultContext) -> bytes:
        SlowMapping.threads += (threading.get_ident(),)
        SlowMapping.called.set()
        assert SlowMapping.may_finish.wait(PATIENCE)
        return super().render(context)


@pytest.mark.parametrize("needs_thread", [False, True])
async def test_other_work_is_not_blocked(
    tmp_path: Path, database: Database, needs_thread: bool
) -> None:
    """While a hook runs, frames are acknowledged and other destinations get their messages."""
    SlowMapping.called, SlowMapping.may_finish, SlowMapping.threads = (
        threading.Event(),
        threading.Event(),
        (),
    )
    made = {field.name: getattr(outbound()[0], field.name) for field in fields(OutboundMapping)}
    mapping = SlowMapping(**{**made, "needs_thread": needs_thread})
    slow, quick = destination("slow", mappings=(mapping,)), destination("quick")
    async with open_hospital(tmp_path, database, slow, quick) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "No bleeding.")
        await hospital.follow()
        await eventually_async(SlowMapping.called.is_set)
        with database.write() as connection:  # the hook holds no write lock
            connection.execute(text("DELETE FROM feed_cursor WHERE 1 = 0"))
        await hospital.send(order("ID2", "A2"))
        await eventually_async(lambda: len(hospital.receivers["quick"].sent) == 1)
        assert hospital.receivers["slow"].sent == []
        SlowMapping.may_finish.set()
        await eventually_async(lambda: len(hospital.receivers["slow"].sent) == 1)
    assert threading.get_ident() not in SlowMapping.threads
