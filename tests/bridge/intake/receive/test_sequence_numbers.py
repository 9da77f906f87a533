"""The sequence number protocol (HL7 v2.5.1 §2.10.1): MSH-13 in, MSA-4 out, across restarts."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from typing_extensions import override

from bridge.intake.receive.handler import FrameOffload, PreparedFrame
from bridge.intake.receive.sequence_numbers import has_only_header
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.records import sequence_numbers
from bridge.store.records.sequence_numbers import SequenceLinks
from config.listeners import Acknowledge, ReusedControlId, SequenceNumbers
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode
from mllp.contract import Peer, as_deferred
from mllp.errors import FrameTooLarge
from mllp.framing import Frame
from tests.bridge.intake.fixture import FixedCompletion, IntakeFixture, open_intake, order

CHECK, REQUIRE = SequenceNumbers.CHECK, SequenceNumbers.REQUIRE


def numbered(number: str, acc: str = "", **changes: str) -> bytes:
    name = acc or f"N{number.strip('-+')}"
    return order(f"ID{name}", name, number=number, **changes)


def link(number: str, control_id: str = "L") -> bytes:
    """Return a message with a header only."""
    return order(control_id, number=number).split(b"\r")[0] + b"\r"


async def reply_of(intake: IntakeFixture, payload: bytes) -> tuple[str, str, str]:
    ack = await intake.ask(payload)
    return (str(ack.code), "".join(ack.error_codes), ack.expected_sequence_number)


EXCHANGES: Mapping[str, list[tuple[bytes, tuple[str, str, str]]]] = {
    "any number may be the first": [
        (numbered("17"), ("AA", "", "17")),
        (numbered("18"), ("AA", "", "18")),
    ],
    "a gap": [
        (numbered("1"), ("AA", "", "1")),
        (numbered("3"), ("AE", "199", "2")),
        (numbered("2"), ("AA", "", "2")),
        (numbered("3"), ("AA", "", "3")),
    ],
    "after a gap the reply has the expected number": [
        (numbered("1"), ("AA", "", "1")),
        (numbered("9"), ("AE", "199", "2")),
        (numbered("2"), ("AA", "", "2")),
        (numbered("9"), ("AE", "199", "3")),
    ],
    "the last number with other bytes": [
        (numbered("4"), ("AA", "", "4")),
        (numbered("4", "OTHER"), ("AE", "205", "5")),
    ],
    "a retransmit gets its stored reply": [
        (numbered("4"), ("AA", "", "4")),
        (numbered("5"), ("AA", "", "5")),
        (numbered("4"), ("AA", "", "4")),
        (numbered("6"), ("AA", "", "6")),
    ],
    "a restart of an unknown link": [
        (link("0"), ("AA", "", "-1")),
        (numbered("5"), ("AA", "", "5")),
    ],
    "a restart requests the expected number": [
        (numbered("5"), ("AA", "", "5")),
        (link("0"), ("AA", "", "6")),
        (numbered("6"), ("AA", "", "6")),
        (link("0"), ("AA", "", "7")),
    ],
    "a resynchronization": [
        (numbered("5"), ("AA", "", "5")),
        (link("-1"), ("AA", "", "-1")),
        (numbered("100"), ("AA", "", "100")),
        (numbered("7"), ("AE", "205", "101")),
    ],
    "the number of a refused message is still expected": [
        (numbered("1"), ("AA", "", "1")),
        (numbered("2", mrn=""), ("AE", "101", "2")),
        (numbered("3"), ("AE", "199", "2")),
        (numbered("2"), ("AA", "", "2")),
    ],
    "no number": [
        (order("A"), ("AA", "", "")),
        (numbered("2"), ("AA", "", "2")),
        (order("B"), ("AA", "", "")),
    ],
    "no numbers at all": [
        (numbered("x"), ("AE", "102", "")),
        (numbered("1.5"), ("AE", "102", "")),
        (numbered("-2"), ("AE", "102", "")),
        (numbered("9" * 16), ("AE", "102", "")),
    ],
    "a refused header advances nothing": [
        (numbered("1"), ("AA", "", "1")),
        (numbered("2").replace(b"|P|2.3.1", b"|T|2.3.1"), ("AR", "202", "")),
        (link("-1").replace(b"|P|2.3.1", b"|T|2.3.1"), ("AR", "202", "")),
        (numbered("3"), ("AE", "199", "2")),
    ],
    "each sender has its own numbers": [
        (numbered("8"), ("AA", "", "8")),
        (numbered("1").replace(b"|RIS|", b"|HIS|"), ("AA", "", "1")),
        (numbered("9"), ("AA", "", "9")),
    ],
}


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
async def test_exchanges(
    database: Database, exchange: list[tuple[bytes, tuple[str, str, str]]]
) -> None:
    """Each message of a link gets its reply. A restart in between changes nothing."""
    for payload, expected in exchange:
        async with open_intake(database, numbers=CHECK) as intake:
            assert await reply_of(intake, payload) == expected


async def test_a_message_of_the_link_is_kept_and_not_applied(database: Database) -> None:
    """A restart message may have a header only. With more segments it is processed too."""
    async with open_intake(database, numbers=CHECK) as intake:
        assert await reply_of(intake, link("0")) == ("AA", "", "-1")
        assert await reply_of(intake, link("0")) == ("AA", "", "-1")
        assert await reply_of(intake, numbered("0")) == ("AA", "", "-1")
        assert intake.rows("state") == [("ignored",), ("ignored",), ("queued",)]


async def test_required(database: Database) -> None:
    """If numbers are required, a message without one gets AE 101 at MSH-13."""
    async with open_intake(database, numbers=REQUIRE) as intake:
        assert await reply_of(intake, order()) == ("AE", "101", "")
        assert intake.rows("error_place") == [("MSH-13",)]


async def test_off(database: Database) -> None:
    """By default numbers are ignored."""
    async with open_intake(database) as intake:
        assert await reply_of(intake, numbered("5")) == ("AA", "", "")
        assert await reply_of(intake, numbered("3")) == ("AA", "", "")


async def test_enhanced_mode(database: Database) -> None:
    """The commit acknowledgment has the number too. A wrong number gets CE."""
    modes: dict[str, Any] = {"accept": "AL", "application": "AL"}
    async with open_intake(database, numbers=CHECK) as intake:
        replies = [read_ack(reply) for reply in await intake.send(numbered("1", **modes))]
        assert [(str(reply.code), reply.expected_sequence_number) for reply in replies] == [
            ("CA", "1"),
            ("AA", "1"),
        ]
        ack = await intake.ask(numbered("3", **modes))
        assert (str(ack.code), ack.expected_sequence_number) == ("CE", "2")


async def test_applied(database: Database) -> None:
    """The number counts when the message is stored, whatever the report engine answers."""
    changes: dict[str, Any] = {"acknowledge": Acknowledge.APPLIED}
    async with open_intake(
        database, numbers=CHECK, completion=FixedCompletion(), **changes
    ) as intake:
        assert await reply_of(intake, numbered("1")) == ("AA", "", "1")
        assert await reply_of(intake, numbered("2")) == ("AA", "", "2")


async def test_a_batch(database: Database) -> None:
    """The messages of a batch are checked one after the other."""
    batch = b"BHS|^~\\&|R\r" + numbered("1") + numbered("2") + numbered("4") + b"BTS|3\r"
    async with open_intake(database, numbers=CHECK) as intake:
        (reply,) = await intake.send(batch)
        replies = [line for line in reply.split(b"\r") if line.startswith(b"MSA")]
        assert [line.split(b"|")[1::3] for line in replies] == [
            [b"AA", b"1"],
            [b"AA", b"2"],
            [b"AE", b"3"],
        ]
        assert await reply_of(intake, numbered("3")) == ("AA", "", "3")


async def test_many_at_once(database: Database) -> None:
    """Concurrent frames are checked in their order."""
    async with open_intake(database, numbers=CHECK) as intake:
        payloads = [numbered(str(number)) for number in range(1, 21)]
        replies = await asyncio.gather(*(reply_of(intake, payload) for payload in payloads))
        assert replies == [("AA", "", str(number)) for number in range(1, 21)]


async def test_a_reused_control_id_does_not_count(database: Database) -> None:
    """A message refused for its control id does not count."""
    async with open_intake(database, numbers=CHECK, reuse=ReusedControlId.REFUSE) as intake:
        assert await reply_of(intake, numbered("1", "X")) == ("AA", "", "1")
        again = numbered("2", "X").replace(b"CT Head", b"CT Neck")
        assert await reply_of(intake, again) == ("AE", "205", "2")
        assert await reply_of(intake, numbered("2")) == ("AA", "", "2")


async def test_an_abandoned_frame_of_another_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not take the place of the frame in progress, whose number counts."""
    async with open_intake(database, numbers=CHECK) as intake:
        assert intake.sequencer is not None
        loop, prepare = asyncio.get_running_loop(), intake.handler.prepare

        def interrupted(frame: Frame, peer: Peer) -> PreparedFrame:
            prepared = prepare(frame, peer)
            loop.call_soon_threadsafe(intake.handler.unframed, FrameTooLarge(7), order("BIG"))
            return prepared

        monkeypatch.setattr(intake.handler, "prepare", interrupted)
        offload = FrameOffload(intake.handler, min_bytes=0)
        entry = intake.sequencer.serialized(offload.submit)
        answered = as_deferred(entry, Frame(numbered("1")), intake.caller)
        (reply,) = await answered.asFuture(loop)
        assert read_ack(reply).code is AckCode.ACCEPT
        assert await reply_of(intake, numbered("3")) == ("AE", "199", "2")
        assert sorted(intake.rows("state")) == [("queued",), ("refused",), ("refused",)]


class UnavailableStore:
    def read(self, senders: Sequence[int]) -> dict[int, int | None]:
        raise StoreUnavailable("gone")

    def store(self, before: object, after: object) -> None:
        raise StoreUnavailable("gone")


class FullStore(UnavailableStore):
    @override
    def read(self, senders: Sequence[int]) -> dict[int, int | None]:
        return dict.fromkeys(senders)


async def test_numbers_that_cannot_be_stored(database: Database) -> None:
    """If the number cannot be stored, the message is refused. A retransmit is recognized."""
    async with open_intake(database, numbers=CHECK) as intake:
        assert intake.sequencer is not None
        numbers, intake.sequencer._numbers = intake.sequencer._numbers, UnavailableStore()  # type: ignore[assignment]  # as scripted
        assert await reply_of(intake, numbered("1")) == ("AE", "207", "")
        intake.sequencer._numbers = FullStore()  # type: ignore[assignment]  # as scripted
        assert await reply_of(intake, numbered("1")) == ("AE", "207", "1")
        intake.sequencer._numbers = numbers
        assert await reply_of(intake, numbered("1")) == ("AA", "", "1")
        assert await reply_of(intake, numbered("2")) == ("AA", "", "2")
        assert intake.rows("state") == [("refused",), ("queued",), ("queued",)]


def test_bare() -> None:
    """Empty and null fields do not count as content."""
    head = link("0")
    for body, bare in {
        b"": True,
        b"PID||||\r": True,
        b'PID|""|^^&""\rORC|\r': True,
        b"PID|1\r": False,
        b"\n\nPID||x\n": False,
        b"\r" * 70_000: False,  # longer than a header, so that it is not split into lines
    }.items():
        assert has_only_header(head + body, peek(head)) is bare


async def test_senders_are_limited(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that changes its name in each message does not fill the table."""
    monkeypatch.setattr(sequence_numbers, "MAX_SENDERS", 2)
    async with open_intake(database):
        links = SequenceLinks(database, "another")
        links.store({}, {1: 5})
        links.store({}, {2: 6, 3: 7})
        links.store({1: 5}, {1: 6})
        assert links.read([1, 2, 3]) == {1: 6, 2: 6, 3: None}
