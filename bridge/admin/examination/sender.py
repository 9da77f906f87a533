"""
Examination of a partner's sender: we listen, answer in usual and unusual ways, and watch.

Each message that arrives gets the next answer of a script. What the sender does next (the same
message again, the next one, a new connection, nothing) is the result. Messages are read for their
header only; no value of a patient is kept.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from bridge.admin.examination.results import ProbeResult, Verdict
from config.listeners import ListenerSettings
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.charset import decode_msh18
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import AckCode, InternalError, MalformedMessage
from mllp.errors import FramingError
from mllp.framing import Frame, FrameReader, frame

MAX_CONNECTIONS: Final = 16
MAX_PAYLOAD: Final = 4 * 2**20
MAX_MESSAGES: Final = 200
_MAX_CONTROL_ID: Final = 199
"""Characters of MSH-10 that are compared; the standard permits as many (HL7 v2.7)."""
_TYPE: Final = re.compile(r"[A-Z0-9]{3}\^[A-Z0-9]{0,3} 2?(\.\d){0,2}")
_CODE: Final = re.compile(r"[A-Z0-9]{0,3}")
_TEST_CODES: Final = frozenset({"T", "D"})
_MAX_CODES: Final = 5
_TLS_HANDSHAKE: Final = b"\x16\x03"
_SHORT_PATIENCE: Final = 15.0
"""Seconds in which a report engine has usually applied an order."""
_FRAME_FACTOR: Final = 3
_READ_BYTES: Final = 64 * 1024
_IDLE: Final = 300.0  # seconds until a silent connection is closed


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """
    Times in seconds: `wait` for the first message, `delays` before a late answer, `watch` for the
    next message after an answer, `limit` of the examination.
    """

    wait: float = 600.0
    delays: tuple[float, ...] = (5.0, 15.0, 30.0)
    watch: float = 90.0
    limit: float = 1800.0


@dataclass(frozen=True, slots=True)
class _Step:
    """An answer of the script: what is sent, and what a good sender does next."""

    name: str
    title: str
    code: AckCode | None = AckCode.ACCEPT
    delay: float = 0.0
    pieces: int = 1
    copies: int = 1
    other_id: bool = False
    closes: bool = False
    repeats: bool | None = False
    """Whether the sender must send the message again; None: both are right."""
    expected: str = "goes on with the next message"


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message that arrived: its control id, when, and on which connection."""

    control_id: bytes
    digest: int
    at: float
    connection: int
    header: Header | None
    writer: asyncio.StreamWriter


def sender_probes(options: SenderOptions) -> dict[str, str]:
    """Return the names and titles of the probes that each examination of a sender has."""
    return {step.name: step.title for step in _script(options)}


def _script(options: SenderOptions) -> Sequence[_Step]:
    late = [
        _Step(f"late-{delay:g}", f"AA after {delay:g} s", delay=delay, repeats=None,
              expected="waits, or sends the same message again")
        for delay in options.delays
    ]  # fmt: skip
    return (
        _Step("message", "AA at once"),
        _Step("pieces", "AA in three pieces", pieces=3),
        _Step("twice", "two acknowledgments", copies=2),
        _Step("error", "AE", AckCode.ERROR, repeats=None, expected="stops, repeats or goes on"),
        _Step("reject", "AR", AckCode.REJECT, repeats=None, expected="stops, repeats or goes on"),
        _Step("matching", "AA with the MSA-2 of another message", other_id=True, repeats=True,
              expected="sends the same message again"),
        _Step("close", "connection closed without a reply", None, closes=True, repeats=True,
              expected="connects and sends the same message again"),
        *late,
        _Step("silence", "no reply", None, repeats=True, expected="sends the same message again"),
    )  # fmt: skip


@dataclass(slots=True)
class SenderExamination:
    """The state of an examination: the messages that arrived, and those that wait for an answer."""

    options: SenderOptions
    port: int = 0
    received: int = 0
    _arrivals: "asyncio.Queue[_Arrival]" = field(init=False)
    _connections: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _seen: dict[bytes, int] = field(default_factory=dict)
    _reused: int = 0
    _malformed: int = 0
    _undeclared: set[str] = field(default_factory=set)
    """Character sets that would read the messages without MSH-18 that are not ASCII."""
    _encrypted: int = 0
    _real: int = 0
    _processing_ids: set[str] = field(default_factory=set)
    _patience: float = 0.0
    """Seconds after which the sender repeats a message; 0: not seen."""
    _slowest: float = 0.0
    """Seconds from the first byte of a frame to its last, at most."""
    _headers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._arrivals = asyncio.Queue(MAX_CONNECTIONS)

    async def run(
        self, host: str | None, port: int, listens: Callable[[], None] = lambda: None
    ) -> AsyncIterator[ProbeResult]:
        """
        Listen and yield the results; `listens` is called when the port is open.

        Without a host it listens on all addresses. Raises OSError if the port cannot be used.
        """
        server = await asyncio.start_server(self._serve, host, port, limit=_READ_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        listens()
        end = asyncio.get_running_loop().time() + self.options.limit
        try:
            arrival = await self._next(self.options.wait, end)
            if arrival is None:
                yield ProbeResult("message", "a message", Verdict.SKIPPED, "no message arrived")
                for result in self._framing():
                    yield result
                return
            for step in _script(self.options):
                if arrival is None:
                    words = "no further message arrived"
                    yield ProbeResult(step.name, step.title, Verdict.SKIPPED, words)
                    continue
                result, arrival = await self._play(step, arrival, end)
                yield result
            if arrival is not None:
                await self._answer(_Step("last", ""), arrival, end)
            for result in self._observations():
                yield result
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _play(
        self, step: _Step, arrival: _Arrival, end: float
    ) -> tuple[ProbeResult, _Arrival | None]:
        """Answer a message, and watch what the sender does next."""
        began = time.monotonic()
        following = await self._answer(step, arrival, end)
        if following is None:
            following = await self._next(self.options.watch, end)
        took = round((time.monotonic() - began) * 1000)
        if following is None:
            words = f"sends nothing for {self.options.watch:g} s"
            verdict = Verdict.FAULT if step.repeats else Verdict.NOTE
            return self._result(step, verdict, words, took), None
        same = (following.control_id, following.digest) == (arrival.control_id, arrival.digest)
        if same:
            after = following.at - arrival.at
            words = f"sends the same message again after {after:.1f} s"
            if step.code is None or after < step.delay:
                self._patience = min(after, self._patience or after)
        elif following.control_id == arrival.control_id:
            words = "sends another message with the same MSH-10"
        else:
            words = "goes on with the next message"
        if following.connection != arrival.connection:
            words += ", on a new connection"
        is_right = step.repeats is None or same is step.repeats
        verdict = Verdict.OK if is_right else Verdict.FAULT
        if same is False and following.control_id == arrival.control_id:
            verdict = Verdict.FAULT
        return self._result(step, verdict, words, took), following

    def _result(self, step: _Step, verdict: Verdict, words: str, took: int) -> ProbeResult:
        return ProbeResult(step.name, step.title, verdict, words, step.expected, took_ms=took)

    async def _answer(self, step: _Step, arrival: _Arrival, end: float) -> _Arrival | None:
        """Send the answer of a step; return a message that arrived before the answer was due."""
        if step.delay:
            early = await self._next(step.delay, end)
            if early is not None:
                return early
        if step.code is not None:
            data = frame(_acknowledgment(step, arrival)) * step.copies
            size = -(-len(data) // step.pieces)
            try:
                for at in range(0, len(data), size):
                    arrival.writer.write(data[at : at + size])
                    await arrival.writer.drain()
                    if step.pieces > 1:
                        await asyncio.sleep(0.2)
            except OSError:
                return None
        if step.closes:
            arrival.writer.transport.abort()
        return None

    async def _next(self, seconds: float, end: float) -> _Arrival | None:
        left = end - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, min(seconds, left))):
                return await self._arrivals.get()
        except TimeoutError:
            return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the messages of a connection; a peer beyond the limits is disconnected."""
        if len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections += 1
        number = self._connections
        self._open.add(writer)
        frames = FrameReader(MAX_PAYLOAD)
        began: float | None = None
        try:
            while self.received < MAX_MESSAGES:
                async with asyncio.timeout(_IDLE):
                    data = await reader.read(_READ_BYTES)
                if not data:
                    return
                if data.startswith(_TLS_HANDSHAKE) and not frames.in_frame:
                    self._encrypted += 1
                    return
                frames.receive(data)
                while (event := frames.next_event()) is not None:
                    if isinstance(event, Frame):
                        if began is not None:
                            self._slowest = max(self._slowest, time.monotonic() - began)
                            began = None
                        await self._arrivals.put(self._read(event.payload, number, writer))
                if frames.in_frame and began is None:
                    began = time.monotonic()
        except (OSError, FramingError):  # OSError includes TimeoutError
            self._malformed += 1
        finally:
            self._open.discard(writer)
            writer.close()

    def _read(self, payload: bytes, number: int, writer: asyncio.StreamWriter) -> _Arrival:
        self.received += 1
        try:
            header: Header | None = peek(payload)
        except MalformedMessage:
            header = None
            self._malformed += 1
        control_id = b"" if header is None else header.control_id[:_MAX_CONTROL_ID]
        digest = hash(payload)
        if self._seen.setdefault(control_id, digest) != digest:
            self._reused += 1
        if header is not None:
            self._headers.add(_type_of(header))
            self._real += header.processing_id[:1] != "T"
            if len(self._processing_ids) < _MAX_CODES and _CODE.fullmatch(header.processing_id):
                self._processing_ids.add(header.processing_id)
            if not payload.isascii() and not decode_msh18(
                header.charset, header.delimiters.repetition
            ):
                self._undeclared.add(_charset_of(payload))
        now = time.monotonic()
        return _Arrival(control_id, digest, now, number, header, writer)

    def _observations(self) -> list[ProbeResult]:
        """Return what is seen in all messages together."""
        types = ", ".join(sorted(self._headers)[:10])
        found = [ProbeResult("types", "types and versions", Verdict.OK, types or "none")]
        found.append(
            ProbeResult("control-id", "MSH-10", Verdict.FAULT,
                        f"{self._reused} messages have the MSH-10 of another one",
                        "each message has its own MSH-10",
                        "a message with an MSH-10 that was used is a new one, if its bytes differ",
                        settings={"reused_control_id": "accept"})
            if self._reused
            else ProbeResult("control-id", "MSH-10", Verdict.OK, "differs between messages")
        )  # fmt: skip
        found.append(self._charset())
        if self._real:
            words = f"{self._real} messages are no tests; they were answered and not stored"
            advice = "the partner must send them again to a listener"
            found.append(ProbeResult("test", "MSH-11", Verdict.NOTE, words, "MSH-11 is T", advice))
        if others := sorted(self._processing_ids - _TEST_CODES - {"P"}):
            words = f"other codes than P: {', '.join(code or 'empty' for code in others)}"
            found.append(
                ProbeResult("processing", "processing ids (MSH-11)", Verdict.NOTE, words, "P",
                            "a listener refuses other codes with AR 202",
                            settings={"processing_ids": others})
            )  # fmt: skip
        if 0 < self._patience < _SHORT_PATIENCE:
            words = f"sends a message again after {self._patience:.1f} s without a reply"
            found.append(
                ProbeResult("patience", "time-out", Verdict.OK, words,
                            f"at least {_SHORT_PATIENCE:g} s",
                            "with `applied`, the acknowledgment waits for the report engine and can"
                            " come later than the sender waits",
                            settings={"acknowledge": "checked"})
            )  # fmt: skip
        return [*found, *self._framing()]

    def _charset(self) -> ProbeResult:
        if not self._undeclared:
            return ProbeResult("charset", "character set", Verdict.OK, "ASCII, or named in MSH-18")
        words = "letters that are not ASCII, and no MSH-18; they are "
        words += " and ".join(sorted(self._undeclared))
        settings: dict[str, Any] = {}
        if len(self._undeclared) > 1:
            advice = "the character set differs between messages: ask the partner"
        else:
            (charset,) = self._undeclared
            settings = {"charset": charset}
            advice = "the setting applies to messages without MSH-18"
            if charset != "utf-8":
                advice += ". Which set of one byte a letter it is, the bytes do not say: ask the"
                advice += " partner if it is not a Western European one"
        expected = "MSH-18 names the character set"
        return ProbeResult(
            *("charset", "character set", Verdict.NOTE, words, expected, advice), settings=settings
        )

    def _framing(self) -> list[ProbeResult]:
        """Return what is wrong with connections and frames."""
        found = []
        if self._encrypted:
            words = f"{self._encrypted} connections begin with a TLS handshake"
            advice = "set `tls` of the listener with a certificate and its key, or ask for none"
            found.append(ProbeResult("tls", "TLS", Verdict.FAULT, words, "no TLS", advice))
        usual: float = ListenerSettings.model_fields["frame_timeout"].default
        if self._slowest * _FRAME_FACTOR > usual:
            found.append(
                ProbeResult("slow", "time of a frame", Verdict.NOTE,
                            f"{self._slowest:.1f} s from the first byte to the last",
                            f"at most {usual / _FRAME_FACTOR:.0f} s",
                            f"{_FRAME_FACTOR} times the longest time: a frame that takes longer"
                            " than the setting ends its connection",
                            settings={"frame_timeout": f"{ceil(self._slowest * _FRAME_FACTOR)}s"})
            )  # fmt: skip
        if self._malformed:
            words = f"{self._malformed} frames or messages cannot be read"
            found.append(ProbeResult("framing", "framing", Verdict.FAULT, words, "VT … FS CR"))
        return found


def _type_of(header: Header) -> str:
    """Return type and version; texts that are no codes are not shown."""
    text = f"{header.message_code}^{header.trigger} {header.version}"
    return text if _TYPE.fullmatch(text) else "other"


def _charset_of(payload: bytes) -> str:
    """Return the character set that a payload beyond ASCII seems to have, as in settings."""
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError:
        # ISO 8859-1 has control characters where Windows-1252 has quotes and dashes.
        is_windows = any(0x80 <= byte < 0xA0 for byte in payload)  # noqa: PLR2004
        return "windows-1252" if is_windows else "iso-8859-1"
    return "utf-8"


def _acknowledgment(step: _Step, arrival: _Arrival) -> bytes:
    code = step.code or AckCode.ACCEPT
    if arrival.header is None:
        return b"MSH|^~\\&|REPORT-BRIDGE|EXAM|||||ACK|EXAM|T|2.5.1\rMSA|AR|\r"
    refusals = () if code.positive else (InternalError(),)
    ack = build_ack(
        arrival.header, code, control_id="EXAM", now=datetime.now(UTC), refusals=refusals
    )
    if step.other_id:
        return ack.replace(arrival.control_id, b"EXAM-OTHER")
    return ack
