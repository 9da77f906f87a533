"""Answers in unusual ways show what a sender does next; no sender makes an examination endless."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from bridge.admin.examination.report import document_of
from bridge.admin.examination.results import Examination, Verdict
from bridge.admin.examination.run import examine_sender
from bridge.admin.examination.sender import MAX_CONNECTIONS, SenderExamination, SenderOptions
from bridge.admin.specification.document import as_text
from mllp.framing import Frame, FrameReader, frame
from tests.bridge.admin.examination.partners import connected
from tests.eventually import eventually_async

OK, NOTE, FAULT, SKIPPED = Verdict
OPTIONS = SenderOptions(wait=20.0, delays=(0.2,), watch=5.0, limit=60.0)
SILENT = SenderOptions(wait=0.5, delays=(), watch=0.5, limit=5.0)

Send = Callable[[int], Awaitable[None]]


def order(number: int, text: str = "Doe", version: str = "2.5.1", charset: str = "") -> bytes:
    header = f"MSH|^~\\&|RIS|N|B|S|20260302||ORM^O01|N{number}|P|{version}||||||{charset}"
    return f"{header}\rPID|1||M1||{text}^Jane\rORC|NW|P1\r".encode()


async def examined(send: Send, options: SenderOptions = OPTIONS) -> Examination:
    """Run an examination with a sender; return its results."""
    state = SenderExamination(options)

    async def start() -> None:
        await eventually_async(lambda: state.port)
        await send(state.port)

    sender = asyncio.create_task(start())
    try:
        results = [result async for result in state.run("127.0.0.1", 0)]
    finally:
        sender.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await sender
    return Examination("x", "sender", 0, 0, state.received, tuple(results))


class Sender:
    """
    Sends messages one after another, each until it is acknowledged.

    `repeats` is False for a sender that takes any reply, or none, for an acknowledgment.
    """

    def __init__(self, *, repeats: bool = True, patience: float = 1.0) -> None:
        self.repeats, self.patience = repeats, patience
        self._number = 1

    async def run(self, port: int) -> None:
        """Send until the task is cancelled; connect again when a connection ends."""
        while True:
            async with connected(port) as (reader, writer):
                frames = FrameReader()
                while (acknowledged := await self._exchange(reader, writer, frames)) is not None:
                    self._number += acknowledged or not self.repeats
            self._number += not self.repeats

    def _acknowledges(self, payload: bytes) -> bool:
        return not self.repeats or f"|N{self._number}\r".encode() in payload + b"\r"

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: FrameReader
    ) -> bool | None:
        """Send a message; True if it is acknowledged, None if the connection ended."""
        writer.write(frame(order(self._number)))
        try:
            async with asyncio.timeout(self.patience):
                while data := await reader.read(65_536):
                    frames.receive(data)
                    while (event := frames.next_event()) is not None:
                        assert isinstance(event, Frame)
                        if self._acknowledges(event.payload):
                            return True
        except TimeoutError:
            return False
        return None


async def test_a_good_sender() -> None:
    """It repeats a message that is not acknowledged, and goes on after each acknowledgment."""
    found = await examined(Sender().run)
    by_name = {result.name: result for result in found.results}
    assert {result.name for result in found.results if result.verdict is not OK} == {"test"}
    assert by_name["test"].words.endswith("are no tests; they were answered and not stored")
    assert by_name["close"].words.endswith(", on a new connection")
    assert by_name["silence"].words.startswith("sends the same message again after ")
    assert by_name["types"].words == "ORM^O01 2.5.1"


async def test_a_sender_that_loses_messages() -> None:
    """A sender that goes on without an acknowledgment loses the message: a fault."""
    found = await examined(Sender(repeats=False).run)
    by_name = {result.name: result for result in found.results}
    assert [by_name[name].verdict for name in ("message", "close", "silence", "matching")] == [
        OK,
        FAULT,
        FAULT,
        FAULT,
    ]
    assert by_name["silence"].words == "goes on with the next message"


def sending(*parts: bytes) -> Send:
    """Return a sender that sends bytes and waits."""

    async def send(port: int) -> None:
        async with connected(port) as (_, writer):
            for part in parts:
                writer.write(part)
            await asyncio.Event().wait()

    return send


async def test_what_is_seen_in_all_messages() -> None:
    """Reused control ids and undeclared letters are noted; values are not shown."""
    messages = (order(1), order(1, "Roe"), order(3, "Müller"), order(4, "Möller", "2.3", "UNICODE"))
    found = await examined(sending(*map(frame, messages)), SILENT)
    by_name = {result.name: result for result in found.results}
    assert by_name["control-id"].verdict is FAULT
    assert by_name["charset"].verdict is NOTE
    assert by_name["message"].words == "sends another message with the same MSH-10"
    assert by_name["types"].words == "ORM^O01 2.3, ORM^O01 2.5.1"
    text = as_text(document_of(found))
    assert not any(name in text for name in ("Doe", "Roe", "ller", "M1"))


async def test_no_sender_and_a_silent_one() -> None:
    """Without a message the examination ends; without a second one the rest is skipped."""
    none = await examined(sending(), SILENT)
    assert [result.verdict for result in none.results] == [SKIPPED]
    one = await examined(sending(frame(order(1))), SILENT)
    assert [result.verdict for result in one.results[:3]] == [NOTE, SKIPPED, SKIPPED]


async def test_hostile_senders() -> None:
    """Garbage, an endless frame, and very many connections end the connection, not the test."""
    text = b"\x0bnot HL7|secret\x1c\r"
    garbage = await examined(sending(text), SILENT)
    assert any(result.name == "framing" for result in garbage.results)
    assert "secret" not in as_text(document_of(garbage))

    async def endless(port: int) -> None:
        async with connected(port) as (_, writer):
            while True:
                writer.write(b"\x0b" + b"A" * 65_536)
                await writer.drain()

    found = await examined(endless, SILENT)
    assert [result.name for result in found.results] == ["message", "framing"]

    async def many(port: int) -> None:
        async with AsyncExitStack() as stack:
            connections = [
                await stack.enter_async_context(connected(port))
                for _ in range(MAX_CONNECTIONS + 20)
            ]
            with suppress(ConnectionError):
                assert await connections[-1][0].read() == b""
            connections[0][1].write(frame(order(1)))
            await asyncio.Event().wait()

    found = await examined(many, SILENT)
    assert found.results[0].verdict is NOTE


async def test_the_use_case_names_the_address() -> None:
    found = await examine_sender("127.0.0.1", 0, SILENT, lambda _: None, lambda: 0)
    assert found.target.startswith("127.0.0.1:")
    assert found.sent == 0
