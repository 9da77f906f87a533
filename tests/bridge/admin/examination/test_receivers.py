"""Probes find the faults of receivers, and no receiver makes an examination endless."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from itertools import count

import pytest
import trustme

from bridge.admin.examination.messages import UnusableMessage, template_of
from bridge.admin.examination.receiver import MOST_MESSAGES, PROBES, ReceiverOptions
from bridge.admin.examination.report import document_of
from bridge.admin.examination.results import Examination, ProbeResult, Verdict
from bridge.admin.examination.run import examine_receiver
from bridge.admin.examination.wire import Target
from bridge.admin.specification.document import as_html, as_text
from tests.acceptance.house import free_port
from tests.bridge.admin.examination.partners import (
    Serve,
    ack,
    control_id,
    messages,
    receiver,
    replying,
)
from tests.peers.programs import ReceiverProcess, python

OK, NOTE, FAULT, SKIPPED = Verdict


async def examine(
    port: int,
    *probes: str,
    limit: float = 120.0,
    ack_timeout: float = 0.3,
    patience: float = 0.0,
    **more: object,
) -> Examination:
    chosen = frozenset(probes) if probes else None
    options = ReceiverOptions(None, chosen, pause=0.01, idle=0.1, limit=limit, patience=patience)
    target = Target("127.0.0.1", port, ack_timeout=ack_timeout, **more)  # type: ignore[arg-type]  # TLS
    numbers = count(1_000_000, 1_000)
    return await examine_receiver(target, options, lambda _: None, lambda: next(numbers))


async def verdict(serve: Serve, probe: str) -> tuple[Verdict, str]:
    """Return what one probe finds."""
    async with receiver(serve) as port:
        (result,) = (await examine(port, probe)).results
    return result.verdict, result.words


def refusing(code: str, wanted: bytes) -> Serve:
    """Return a receiver that answers messages with a text by another code."""
    return replying(lambda message: ack(message, code if wanted in message else "AA"))


async def test_a_good_receiver() -> None:
    """Each probe runs; the messages are tests with different control ids and within the limit."""
    seen: list[bytes] = []

    def reply(message: bytes) -> bytes:
        seen.append(message)
        known = b"|ORU^R01^" in message and b"|9.9|" not in message
        return ack(message, "AA" if known and b"PID|1||EXAM" in message else "AE")

    async with receiver(replying(reply)) as port:
        found = await examine(port)
    by_name = {result.name: result for result in found.results}
    assert list(by_name) == list(PROBES)
    assert {name for name, result in by_name.items() if result.verdict is not OK} == {"enhanced"}
    hl7 = [message for message in seen if message.startswith(b"MSH")]
    assert {message.split(b"|")[10] for message in hl7} == {b"T"}
    numbers = [control_id(message) for message in hl7]
    assert len(set(numbers)) == len(numbers) - 1  # the duplicate
    assert all(number.startswith(b"EXAM") and len(number) <= 20 for number in numbers)
    assert len(seen) <= MOST_MESSAGES
    assert found.sent is not None
    assert found.sent <= MOST_MESSAGES


@pytest.mark.parametrize(
    ("serve", "probe", "expected"),
    [
        (replying(lambda m: ack(m, named=b"X")), "matching", (FAULT, "MSA-2 is another number")),
        (replying(lambda m: ack(m, named=b"")), "matching", (FAULT, "MSA-2 is empty")),
        (replying(lambda m: ack(m, "AR")), "message", (NOTE, "AR")),
        (replying(lambda m: ack(m, "XX")), "message",
         (FAULT, "the reply has no acknowledgment code (MSA-1)")),
        (replying(lambda m: b"\r\n" + ack(m)), "framing", (NOTE, "2 bytes outside of the frame")),
        (replying(lambda m: ack(m).replace(b"\rMSA", b"\r\nMSA")), "framing",
         (NOTE, "line feeds in the acknowledgment")),
        (replying(lambda m: ack(m, "CA") + ack(m)), "enhanced", (OK, "CA then AA")),
        (replying(lambda m: ack(m, "CA")), "enhanced", (NOTE, "CA, no application acknowledgment")),
        (replying(ack), "type", (NOTE, "AA: accepts a message type that it does not know")),
        (refusing("AE", b"|ZZZ^Z99|"), "type", (OK, "AE")),
        (refusing("AR", b"|9.9|"), "version", (OK, "AR")),
        (replying(ack), "patient", (NOTE, "AA: accepts a result without a patient number")),
        (replying(lambda m: ack(m, named=b"1")), "garbage",
         (FAULT, "replies AA to a text that is no message")),
        (refusing("AE", "東".encode()), "utf-8", (NOTE, "AE")),
        (refusing("AE", b"clear. The lungs are " * 500), "size",
         (NOTE, "accepts 4 kB; with 64 kB: AE")),
    ],
)  # fmt: skip
async def test_faults(serve: Serve, probe: str, expected: tuple[Verdict, str]) -> None:
    assert await verdict(serve, probe) == expected


async def test_a_repeated_message_is_refused() -> None:
    """A receiver that refuses a repetition would make Report Bridge park a result."""
    known: set[bytes] = set()

    def reply(message: bytes) -> bytes:
        is_new = control_id(message) not in known
        known.add(control_id(message))
        return ack(message, "AA" if is_new else "AE")

    async with receiver(replying(reply)) as port:
        (result,) = (await examine(port, "duplicate")).results
    assert (result.verdict, result.words) == (FAULT, "AA, then AE")
    assert result.settings == {"replies": {"AE": "delivered"}}


async def test_a_receiver_of_one_message_per_connection() -> None:
    """It closes after each reply: a note, and the second of two messages is lost."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for message in messages(reader):
            writer.write(ack(message))
            await writer.drain()
            return

    assert await verdict(serve, "framing") == (
        NOTE,
        "one frame; closes the connection after the reply",
    )
    assert await verdict(serve, "packet") == (
        FAULT,
        "one acknowledgment: the second message is lost",
    )
    assert (await verdict(serve, "row"))[0] is NOTE
    assert (await verdict(serve, "idle"))[0] is NOTE


async def test_a_receiver_that_reads_one_packet() -> None:
    """A receiver that takes each packet for a message does not reply to one in pieces."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if data.startswith(b"\x0b") and data.endswith(b"\x1c\r"):
                writer.write(ack(data[1:-2]))

    assert await verdict(serve, "slow") == (FAULT, "no reply within 0.3 s")
    assert (await verdict(serve, "message"))[0] is OK


def sends(data: bytes, *, forever: bool = False) -> Serve:
    """Return a receiver that sends bytes after the first ones of a message."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        while True:
            writer.write(data)
            await writer.drain()
            if not forever:
                await reader.read()
                return

    return serve


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (sends(b""), "no reply within 0.3 s"),
        (sends(b"\x0b" + b"A" * 65_536, forever=True), "its reply has more than 262,144 bytes"),
        (sends(b"A" * 4096, forever=True), "it sends more than 65,536 bytes outside of frames"),
        (sends(b"\x0b\x06\x1c\r" * 500, forever=True), "it sends a reply in very many pieces"),
        (sends(b"\x0b\x1c\r" * 5000, forever=True),
         "the reply has no acknowledgment code (MSA-1)"),
        (sends(b"\x0b\xff\x00\x1c\r"), "the reply has no acknowledgment code (MSA-1)"),
        (sends(b"\x0bMSH|^~\\&|A\rMSA|AA|\x1b[31m\r\x1c\r"), "AA"),
    ],
)  # fmt: skip
async def test_hostile_receivers(serve: Serve, words: str) -> None:
    """Whatever a receiver sends, the probe ends with a bounded reply."""
    assert (await verdict(serve, "message"))[1] == words


async def test_a_receiver_that_never_replies() -> None:
    """After three probes without a reply the others are skipped."""
    async with receiver(sends(b"")) as port:
        found = await examine(port)
    assert found.count(FAULT) == 3
    assert found.results[-1].words == "no reply to 3 probes"


async def test_a_receiver_that_does_not_read() -> None:
    """A message that is not read ends after the time-out."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # as a stopped program
        await asyncio.Event().wait()

    async with receiver(serve) as port:
        found = await examine(port, "size")
    assert found.results[0].verdict is FAULT


async def test_the_limit_of_an_examination() -> None:
    """The examination ends at its limit, also inside a probe."""
    async with receiver(sends(b"")) as port:
        found = await examine(port, "connect", "message", "idle", limit=3.0, ack_timeout=60.0)
    assert "not finished" in found.results[1].words
    assert found.results[-1].words == "the limit of 3 s is over"


async def test_no_receiver() -> None:
    found = await examine(free_port())
    assert found.results[0].verdict is FAULT
    assert {result.verdict for result in found.results[1:]} == {SKIPPED}


async def test_tls() -> None:
    """Version and certificate are reported; a certificate of others is a fault."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    async with receiver(replying(ack), server) as port:
        good = await examine(port, "connect", "tls", "message", tls=client)
        other = await examine(port, "connect", tls=ssl.create_default_context())
    assert [result.verdict for result in good.results] == [OK, OK, OK]
    assert "TLSv1.3" in good.results[0].words
    assert good.results[1].words == "TLS 1.2 and TLS 1.3"
    assert other.results[0].verdict is FAULT
    assert other.results[0].words.startswith("tls: certificate: ")


async def test_a_message_of_the_user() -> None:
    """MSH-10 and MSH-11 are replaced; the rest is sent as it is."""
    own = b"MSH|^~\\&|A|B|C|D|20260302||MDM^T02|REAL|P|2.3\rPID|1||X1\rZZZ|1|\xe4\r"
    seen: list[bytes] = []

    def reply(message: bytes) -> bytes:
        seen.append(message)
        return ack(message)

    options = ReceiverOptions(template_of(own), frozenset({"message"}))
    async with receiver(replying(reply)) as port:
        target = Target("127.0.0.1", port, ack_timeout=5)
        await examine_receiver(target, options, lambda _: None, lambda: 0)
    (message,) = seen
    assert message.split(b"\r")[1:] == own.split(b"\r")[1:]
    assert message.split(b"\r")[0].split(b"|")[8:] == [
        b"MDM^T02",
        control_id(message),
        b"T",
        b"2.3",
    ]
    for wrong in (b"", b"text", own + own):
        with pytest.raises(UnusableMessage):
            template_of(wrong)


def test_the_reports_escape_and_name_everything() -> None:
    """Text and HTML have each result; HTML has neither scripts nor addresses."""
    result = ProbeResult("message", "a <b> & c", FAULT, '"<script>', "AA", "ask", 12)
    found = Examination("<his>:1", "receiver", 1_772_000_000_000, 1_772_000_009_000, 3, (result,))
    text, page = as_text(document_of(found)), as_html(document_of(found))
    for shown in ("a <b> & c", '"<script>', "FAULT", "AA", "ask", "12 ms", "3 messages sent"):
        assert shown in text
    assert "<script>" not in page
    assert "&lt;his&gt;:1" in page
    assert "http" not in page


@pytest.fixture(params=["python_hl7_server", "hl7apy_server"])
async def foreign(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, int]]:
    """A receiver that others wrote, in its own process."""
    port = free_port()
    process = ReceiverProcess(python(request.param, str(port)), port)
    process.start()
    yield request.param, port
    process.kill()


@pytest.mark.slow
async def test_foreign_receivers(foreign: tuple[str, int]) -> None:
    """Real receivers are examined to the end; what they cannot do is found."""
    name, port = foreign
    found = await examine(port, ack_timeout=5.0)
    by_name = {result.name: result for result in found.results}
    needed = ("connect", "message", "matching", "slow", "duplicate", "utf-8", "half")
    assert [by_name[probe].verdict for probe in needed] == [OK] * len(needed), json.dumps(
        {probe: result.words for probe, result in by_name.items()}
    )
    assert SKIPPED not in {result.verdict for result in found.results}
    if name == "python_hl7_server":  # it decodes all messages as UTF-8
        assert by_name["latin-1"].verdict is NOTE
