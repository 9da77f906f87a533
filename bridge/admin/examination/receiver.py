"""
Probes of a partner's receiver: what it replies to usual, unusual and broken messages.

All messages have processing id T, an invented patient, and a control id that begins with EXAM. The
probes run one after another; after three without a reply the others are skipped. Each has its own
limit of time, and the examination as a whole.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median
from typing import Any, Final

from bridge.admin.examination.messages import ExaminationMessages
from bridge.admin.examination.results import ProbeResult, Verdict
from bridge.admin.examination.wire import NoReply, PeerFault, Target, Unframed, Wire
from bridge.monitoring.connection_probe import ProbeTarget, probe_connection
from config.sections import DestinationSettings
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mappings.hl7.refusals import ErrorCode
from mllp.framing import frame

POSITIVE: Final = frozenset({"AA", "CA"})
NEGATIVE: Final = frozenset({"AE", "AR", "CE", "CR"})
SIZES: Final = (4_000, 64_000, 256_000, 1_000_000, 4_000_000)
MOST_MESSAGES: Final = 60
"""The limit of messages that an examination sends."""
_MAX_SILENT: Final = 3
_SHORT: Final = 2.0  # seconds to wait for what may not come
_ROW: Final = 10
_TIMED: Final = 3
TIMEOUT_FACTOR: Final = 3
"""How often the longest time until an acknowledgment goes into the proposed time-out."""
VERSIONS: Final = ("2.5.1", "2.4", "2.3.1", "2.3")
_SMALLEST_WITH_PDF: Final = 256_000
"""Bytes that a receiver of reports with a PDF must accept."""
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """
    Options of an examination: the message of the user, the probes, and times in seconds.

    `pause` is the time between pieces of a slow message, `idle` the silence before a message,
    `patience` the time to wait for the first acknowledgment: how slow a receiver is, is not known.
    """

    template: bytes | None = None
    probes: frozenset[str] | None = None
    pause: float = 0.3
    idle: float = 60.0
    limit: float = 600.0
    patience: float = 90.0


@dataclass(slots=True)
class _Found:
    """What a probe found; the first word decides the verdict."""

    verdict: Verdict
    words: str
    expected: str = ""
    advice: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReceiverExamination:
    """The state of an examination: the target, the messages, and what is known of the peer."""

    target: Target
    options: ReceiverOptions
    messages: ExaminationMessages = field(init=False)
    times: list[float] = field(default_factory=list)
    """Seconds until each acknowledgment of a message on a connection of its own."""
    _silent: int = 0
    _reached: bool = True

    def __post_init__(self) -> None:
        self.messages = ExaminationMessages(self.options.template)

    async def run(self) -> AsyncIterator[ProbeResult]:
        """Run the probes; yield each result when it is known."""
        end = asyncio.get_running_loop().time() + self.options.limit
        for name, probe in PROBES.items():
            if self.options.probes is not None and name not in self.options.probes:
                continue
            if (reason := self._reason_to_skip(end)) is not None:
                yield ProbeResult(name, probe.title, Verdict.SKIPPED, reason)
                continue
            yield await self._run(name, probe, end)

    def _reason_to_skip(self, end: float) -> str | None:
        if not self._reached:
            return "the receiver cannot be reached"
        if self._silent >= _MAX_SILENT:
            return f"no reply to {_MAX_SILENT} probes"
        if asyncio.get_running_loop().time() >= end:
            return f"the limit of {self.options.limit:g} s is over"
        return None

    async def _run(self, name: str, probe: "Probe", end: float) -> ProbeResult:
        began = time.monotonic()
        verdict = Verdict.FAULT if probe.is_needed else Verdict.NOTE
        try:
            async with asyncio.timeout_at(end):
                found = await probe.work(self)
            self._silent = 0
        except NoReply as fault:
            self._silent += 1
            found = _Found(verdict, str(fault), "an acknowledgment", probe.advice)
        except PeerFault as fault:
            found = _Found(verdict, str(fault), "", probe.advice)
        except TimeoutError:
            found = _Found(
                Verdict.SKIPPED, f"not finished when the limit of {self.options.limit:g} s was over"
            )
        if name == "connect" and found.verdict is Verdict.FAULT:
            self._reached = False
        took = round((time.monotonic() - began) * 1000)
        texts = found.words, found.expected, found.advice
        return ProbeResult(name, probe.title, found.verdict, *texts, took, found.settings)

    async def exchange(self, message: bytes) -> ReceivedAck:
        """Send a message on a new connection and return its acknowledgment. Raises PeerFault."""
        wire = await Wire.connect(self.target)
        try:
            began = time.monotonic()
            await wire.write(frame(message))
            (reply,) = await wire.replies(1, self._patience())
            self.times.append(time.monotonic() - began)
        finally:
            wire.close()
        enough = max(self.target.ack_timeout, 2 * self.times[-1])
        self.target = replace(self.target, ack_timeout=enough)
        return read_ack(reply)

    def _patience(self) -> float:
        """Return the seconds to wait for an acknowledgment, longer as long as none has come."""
        usual = self.target.ack_timeout
        return usual if self.times or self._silent else max(usual, self.options.patience)


_Work = Callable[[ReceiverExamination], Awaitable[_Found]]


@dataclass(frozen=True, slots=True)
class Probe:
    """
    A probe: what it tries, and how.

    `is_needed`: Report Bridge needs a reply to it; else a missing reply is a note. `advice` is for
    a missing reply.
    """

    title: str
    work: _Work
    is_needed: bool = True
    advice: str = ""


async def _connect(state: ReceiverExamination) -> _Found:
    target = state.target
    steps = await probe_connection(
        ProbeTarget(
            target.host, target.port, target.connect_timeout, target.tls, target.server_name
        )
    )
    wrong = next((step for step in steps if not step.ok), None)
    if wrong is not None:
        return _Found(Verdict.FAULT, f"{wrong.name}: {wrong.code}")
    parts = [f"{step.name} {step.took} ms" for step in steps if step.name in ("connect", "tls")]
    seen = [step.code for step in steps if step.name in ("tls", "certificate") and step.code]
    expiry = next((step.expires for step in steps if step.expires), None)
    if expiry is not None:
        seen.append(f"expires {time.strftime('%Y-%m-%d', time.gmtime(expiry / 1000))}")
    return _Found(Verdict.OK, "; ".join([*parts, *seen]))


async def _tls(state: ReceiverExamination) -> _Found:
    """Connect with each version of TLS by itself; without TLS, look whether there is TLS."""
    if state.target.tls is None:
        return await _unexpected_tls(state)
    accepted = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = _unverified_context()
        context.minimum_version = context.maximum_version = version
        if await _accepts_tls(state.target, context):
            accepted.append(version.name.replace("_", ".").replace("TLSv", "TLS "))
    if not accepted:
        return _Found(Verdict.FAULT, "neither TLS 1.2 nor TLS 1.3", "TLS 1.2 or newer")
    words = " and ".join(accepted)
    return _Found(Verdict.OK if "TLS 1.3" in words else Verdict.NOTE, words, "TLS 1.2 or newer")


def _unverified_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _accepts_tls(target: Target, context: ssl.SSLContext) -> bool:
    try:
        (await Wire.connect(replace(target, tls=context))).close()
    except PeerFault:
        return False
    return True


async def _unexpected_tls(state: ReceiverExamination) -> _Found:
    """Try a TLS handshake on a connection without TLS; the next probes use it if there is TLS."""
    quick = replace(state.target, connect_timeout=_SHORT)
    context = _unverified_context()
    if not await _accepts_tls(quick, context):
        return _Found(Verdict.OK, "no TLS: messages are not encrypted")
    advice = "the receiver waits for TLS and does not read messages without it"
    verified = ssl.create_default_context()
    if await _accepts_tls(quick, verified):
        context = verified
    else:
        advice += (
            "; its certificate is not of an authority that this machine knows, or has another name:"
            " also set `ca` or `server_name`"
        )
    state.target = replace(state.target, tls=context)
    return _Found(Verdict.FAULT, "the receiver wants TLS", "no TLS", advice, {"tls": {}})


async def _message(state: ReceiverExamination) -> _Found:
    _, message = state.messages.message()
    try:
        ack = await state.exchange(message)
    except Unframed as fault:
        return _Found(
            Verdict.FAULT,
            str(fault),
            "VT … FS CR",
            "each result would be sent again and again, the partner must correct this; with the"
            " setting a result counts as delivered when `ack_timeout` is over",
            {"replies": {"garbage unframed": "delivered"}},
        )
    if ack.code in POSITIVE:
        return _Found(Verdict.OK, f"{ack.code}", "AA")
    if ack.code in NEGATIVE:
        return _Found(
            Verdict.NOTE,
            _reply_words(ack),
            "AA",
            "the receiver refuses test messages (MSH-11 = T) or this message: give a message that"
            " it accepts",
        )
    return _Found(
        Verdict.FAULT,
        "the reply has no acknowledgment code (MSA-1)",
        "AA",
        "each result would be sent again and again, the partner must correct this; with the"
        " setting any reply counts as an acceptance, also a refusal",
        {"replies": {"garbage": "delivered"}},
    )


async def _matching(state: ReceiverExamination) -> _Found:
    control_id, message = state.messages.message()
    ack = await state.exchange(message)
    if _id(ack) == control_id:
        return _Found(Verdict.OK, "MSA-2 is MSH-10 of the message")
    wanted, late = "MSA-2 is MSH-10 of the message", "a late acknowledgment could be taken for"
    if not _id(ack):
        advice = f"{late} that of the next message"
        return _Found(Verdict.FAULT, "MSA-2 is empty", wanted, advice)
    return _Found(
        Verdict.FAULT,
        "MSA-2 is another number",
        wanted,
        "each result would be sent again and again, the partner must correct this; with the"
        f" setting {late} that of the next message",
        {"replies": {"mismatch": "delivered"}},
    )


async def _framing(state: ReceiverExamination) -> _Found:
    wire = await Wire.connect(state.target)
    try:
        await wire.write(frame(state.messages.message()[1]))
        (reply,) = await wire.replies(1)
        more = await wire.is_closed(_SHORT)
    finally:
        wire.close()
    if wire.noise:
        return _Found(Verdict.NOTE, f"{wire.noise} bytes outside of the frame", "VT … FS CR only")
    if b"\n" in reply:
        return _Found(
            Verdict.NOTE, "line feeds in the acknowledgment", "CR at the end of each segment"
        )
    blocks = "; commit blocks of MLLP release 2" if wire.commit_blocks else ""
    kept = "closes the connection after the reply" if more else "keeps the connection"
    verdict = Verdict.NOTE if more else Verdict.OK
    advice = "each result needs a new connection" if more else ""
    return _Found(verdict, f"one frame; {kept}{blocks}", "one frame; keeps the connection", advice)


async def _enhanced(state: ReceiverExamination) -> _Found:
    _, message = state.messages.message(conditions=("AL", "AL"))
    wire = await Wire.connect(state.target)
    try:
        await wire.write(frame(message))
        first = await wire.replies(1)
        second: Sequence[bytes] = ()
        if read_ack(first[0]).code in ("CA", "CE", "CR"):
            second = await _optional(wire)
    finally:
        wire.close()
    codes = [read_ack(reply).code or "no code" for reply in (*first, *second)]
    words = " then ".join(codes)
    if codes[:1] == ["CA"] and len(codes) == 2:  # noqa: PLR2004  # the application acknowledgment
        return _Found(Verdict.OK, words, "CA then AA")
    if codes == ["CA"]:
        return _Found(Verdict.NOTE, "CA, no application acknowledgment", "CA then AA")
    return _Found(Verdict.NOTE, f"{words}: original mode", "CA then AA")


async def _optional(wire: Wire) -> Sequence[bytes]:
    try:
        return await wire.replies(1)
    except PeerFault:
        return ()


async def _two_frames(state: ReceiverExamination) -> _Found:
    """Send two messages in one packet."""
    pairs = [state.messages.message(), state.messages.message()]
    wire = await Wire.connect(state.target)
    try:
        await wire.write(b"".join(frame(message) for _, message in pairs))
        replies = await wire.replies(2)
    finally:
        wire.close()
    named = [_id(read_ack(reply)) for reply in replies]
    wanted = [control_id for control_id, _ in pairs]
    if named == wanted:
        return _Found(Verdict.OK, "two acknowledgments, in sequence")
    if len(replies) == 1:
        return _Found(Verdict.FAULT, "one acknowledgment: the second message is lost", "two")
    return _Found(Verdict.FAULT, "two acknowledgments, but not in sequence", "in sequence")


async def _slow(state: ReceiverExamination) -> _Found:
    """Send a message in seven pieces."""
    data = frame(state.messages.message()[1])
    step = -(-len(data) // 7)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    wire = await Wire.connect(state.target)
    try:
        await wire.write(*pieces, pause=state.options.pause)
        (reply,) = await wire.replies(1)
    finally:
        wire.close()
    return _accepted(read_ack(reply))


async def _between(state: ReceiverExamination) -> _Found:
    """Send blanks and line ends between two frames."""
    wire = await Wire.connect(state.target)
    try:
        await wire.write(frame(state.messages.message()[1]))
        await wire.replies(1)
        await wire.write(b"\r\n  " + frame(state.messages.message()[1]))
        (reply,) = await wire.replies(1)
    finally:
        wire.close()
    found = _accepted(read_ack(reply))
    return found if found.verdict is Verdict.OK else _Found(Verdict.NOTE, found.words)


async def _end(state: ReceiverExamination) -> _Found:
    """Leave out the CR behind FS."""
    data = frame(state.messages.message()[1])
    wire = await Wire.connect(state.target)
    try:
        await wire.write(data[:-1])
        try:
            await wire.replies(1, _SHORT)
        except NoReply:
            await wire.write(data[-1:])
            await wire.replies(1)
            return _Found(Verdict.OK, "waits for the CR", "a frame ends with FS CR")
    finally:
        wire.close()
    return _Found(Verdict.NOTE, "replies without the CR", "a frame ends with FS CR")


async def _unknown_type(state: ReceiverExamination) -> _Found:
    _, message = state.messages.message(kind="ZZZ^Z99")
    return _refused(await state.exchange(message), "a message type that it does not know")


async def _unknown_version(state: ReceiverExamination) -> _Found:
    _, message = state.messages.message(version="9.9")
    return _refused(await state.exchange(message), "a version that does not exist")


async def _no_patient(state: ReceiverExamination) -> _Found:
    _, message = state.messages.message(patient="")
    ack = await state.exchange(message)
    return _refused(ack, "a result without a patient number")


async def _garbage(state: ReceiverExamination) -> _Found:
    """Send a frame that is not HL7, then a message: the receiver must go on."""
    wire = await Wire.connect(state.target)
    try:
        await wire.write(frame(b"this is not HL7"))
        try:
            ack = read_ack((await wire.replies(1, _SHORT))[0])
            code = ack.code or ""
            words = f"replies {code or 'without a code'}"
        except PeerFault as fault:
            code, words = "", str(fault)
    finally:
        wire.close()
    after = _accepted(await state.exchange(state.messages.message()[1]))
    if after.verdict is Verdict.FAULT:
        return _Found(Verdict.FAULT, f"{words}; then {after.words}", "it goes on")
    if code in POSITIVE:
        return _Found(Verdict.FAULT, f"{words} to a text that is no message", "AR, or none")
    return _Found(Verdict.OK, f"{words}, and goes on")


async def _half(state: ReceiverExamination) -> _Found:
    """Close the connection inside a message, then send one: the receiver must go on."""
    data = frame(state.messages.message()[1])
    wire = await Wire.connect(state.target)
    try:
        await wire.write(data[: len(data) // 2])
    finally:
        wire.close()
    return _accepted(await state.exchange(state.messages.message()[1]))


async def _duplicate(state: ReceiverExamination) -> _Found:
    """Send the same message twice, as after a lost acknowledgment."""
    _, message = state.messages.message()
    first = await state.exchange(message)
    second = await state.exchange(message)
    words = f"{first.code or 'no code'}, then {_reply_words(second)}"
    if first.code == second.code:
        return _Found(Verdict.OK, words, "the same code twice")
    if second.code not in NEGATIVE:
        return _Found(Verdict.NOTE, words, "the same code twice")
    return _Found(
        Verdict.FAULT,
        words,
        "the same code twice",
        "a result that is sent again would be parked; the setting fits if this code only means a"
        " repetition",
        {"replies": {_reply_words(second): "delivered"}},
    )


def _charset(charset: str, text: str) -> _Work:
    async def probe(state: ReceiverExamination) -> _Found:
        _, message = state.messages.message(charset=charset, text=text)
        found = _accepted(await state.exchange(message))
        if found.verdict is Verdict.OK:
            found.advice = f"look whether the receiver shows: {text}"
        elif charset == "utf-8":
            found.expected = "AA"
            found.advice = (
                "Report Bridge sends results as UTF-8, no setting changes it: the partner must"
                " accept UTF-8, or such characters will not arrive"
            )
        return found

    return probe


async def _sizes(state: ReceiverExamination) -> _Found:
    """Send larger and larger messages until one is refused."""
    accepted = 0
    for size in SIZES:
        line = "The lungs are clear. " * 4
        text = (line * (size // len(line) + 1))[:size]
        try:
            ack = await state.exchange(state.messages.message(text=text)[1])
            words = _reply_words(ack)
        except PeerFault as fault:
            words = str(fault)
        else:
            if ack.code not in NEGATIVE:
                accepted = size
                continue
        verdict = Verdict.NOTE if accepted else Verdict.FAULT
        before = f"accepts {_bytes(accepted)}; " if accepted else ""
        words = f"{before}with {_bytes(size)}: {words}"
        expected = f"{_bytes(SIZES[-1])} (a report with a PDF)"
        if not 0 < accepted < _SMALLEST_WITH_PDF:
            return _Found(verdict, words, expected)
        advice = "reports with a PDF are larger: send the text only"
        return _Found(verdict, words, expected, advice, {"content": ["text"]})
    return _Found(Verdict.OK, f"accepts {_bytes(accepted)}")


async def _row(state: ReceiverExamination) -> _Found:
    """Send ten messages on one connection."""
    wire = await Wire.connect(state.target)
    began = time.monotonic()
    try:
        for number in range(_ROW):
            control_id, message = state.messages.message()
            await wire.write(frame(message))
            try:
                (reply,) = await wire.replies(1)
            except PeerFault as fault:
                if not number:
                    raise
                return _Found(
                    Verdict.NOTE,
                    f"after {number} messages: {fault}",
                    f"{_ROW} messages on one connection",
                    "Report Bridge connects again for each message",
                )
            if _id(read_ack(reply)) not in ("", control_id):
                return _Found(Verdict.FAULT, f"reply {number + 1} is that of another message")
    finally:
        wire.close()
    rate = _ROW / max(time.monotonic() - began, 0.001)
    return _Found(Verdict.OK, f"{_ROW} messages on one connection, {rate:.0f} per second")


async def _second(state: ReceiverExamination) -> _Found:
    """Open a second connection beside an idle one."""
    wire = await Wire.connect(state.target)
    try:
        return _accepted(await state.exchange(state.messages.message()[1]))
    except NoReply:
        return _Found(
            Verdict.NOTE,
            "no reply on a second connection while the first is open",
            "several connections",
            "use one destination for this receiver",
        )
    finally:
        wire.close()


async def _time(state: ReceiverExamination) -> _Found:
    """Send three more messages, and judge the times of all acknowledgments."""
    for _ in range(_TIMED):
        await state.exchange(state.messages.message()[1])
    longest = max(state.times)
    needed = max(1, ceil(longest * TIMEOUT_FACTOR))
    words = f"{median(state.times):.1f} s usually, {longest:.1f} s at most"
    usual: float = DestinationSettings.model_fields["ack_timeout"].default
    return _Found(
        Verdict.NOTE if needed > usual else Verdict.OK,
        words,
        f"at most {usual / TIMEOUT_FACTOR:g} s" if needed > usual else "",
        f"a time-out of {TIMEOUT_FACTOR} times the longest time: a receiver in operation replies"
        " later than in an examination, and after a time-out the result is sent again",
        {"ack_timeout": f"{needed}s"},
    )


async def _versions(state: ReceiverExamination) -> _Found:
    """Send the same result in each version that a definition can write."""
    refusals = {}
    for version in VERSIONS:
        ack = await state.exchange(state.messages.message(version=version)[1])
        if ack.code not in POSITIVE:
            refusals[version] = _reply_words(ack)
    accepted = [version for version in VERSIONS if version not in refusals]
    if not refusals:
        return _Found(Verdict.OK, f"accepts {', '.join(accepted)}")
    if not accepted:
        return _Found(Verdict.NOTE, f"refuses each version: {refusals[VERSIONS[0]]}", "AA")
    refused = ", ".join(f"{version}: {words}" for version, words in refusals.items())
    words = f"accepts {', '.join(accepted)}; {refused}"
    if VERSIONS[0] in accepted:
        return _Found(Verdict.OK, words)
    advice = "the newest version that the receiver accepts"
    return _Found(Verdict.NOTE, words, VERSIONS[0], advice, {"version": accepted[0]})


async def _idle(state: ReceiverExamination) -> _Found:
    """Send a message, wait, and send another on the same connection."""
    seconds = state.options.idle
    wire = await Wire.connect(state.target)
    try:
        await wire.write(frame(state.messages.message()[1]))
        await wire.replies(1)
        if await wire.is_closed(seconds):
            return _Found(Verdict.NOTE, f"closes the connection within {seconds:g} s of silence")
        await wire.write(frame(state.messages.message()[1]))
        (reply,) = await wire.replies(1)
    finally:
        wire.close()
    return _accepted(read_ack(reply))


def _accepted(ack: ReceivedAck) -> _Found:
    """Judge the reply to a message that differs only in its bytes from the first one."""
    if ack.code in POSITIVE or ack.code in NEGATIVE:
        return _Found(Verdict.OK if ack.code in POSITIVE else Verdict.NOTE, _reply_words(ack))
    return _Found(Verdict.FAULT, "the reply has no acknowledgment code (MSA-1)", "AA")


def _refused(ack: ReceivedAck, what: str) -> _Found:
    """Judge the reply to a message that must not be accepted."""
    if ack.code in NEGATIVE:
        return _Found(Verdict.OK, _reply_words(ack), "AE or AR")
    return _Found(
        Verdict.NOTE,
        f"{ack.code or 'no code'}: accepts {what}",
        "AE or AR",
        "an error of a message may stay unknown",
    )


def _reply_words(ack: ReceivedAck) -> str:
    """Return the codes of an acknowledgment; its texts could contain anything."""
    known = (code for code in ack.error_codes if code in set(ErrorCode))
    return f"{ack.code or 'no code'} {next(known, '')}".strip()


def _id(ack: ReceivedAck) -> str:
    """Return MSA-2."""
    return ack.control_id.decode("ascii", "replace").strip()


def _bytes(count: int) -> str:
    return f"{count // _MEGABYTE} MB" if count >= _MEGABYTE else f"{count // 1000} kB"


_UMLAUTS = "Dünndarm, Gefäß, Ödem, straße"
_NEVER_SENT: Final = "Report Bridge sends no such message"
PROBES: Final = {
    "connect": Probe("connection and certificate", _connect),
    "tls": Probe("TLS", _tls),
    "message": Probe("a result", _message),
    "matching": Probe("MSA-2 of the acknowledgment", _matching),
    "framing": Probe("framing of the acknowledgment", _framing),
    "enhanced": Probe("enhanced mode (MSH-15 and MSH-16: AL)", _enhanced, is_needed=False),
    "packet": Probe("two messages in one packet", _two_frames),
    "slow": Probe("a message in seven pieces", _slow),
    "between": Probe("line ends between messages", _between, False, _NEVER_SENT),
    "end": Probe("FS without CR", _end, False, _NEVER_SENT),
    "type": Probe("unknown message type ZZZ^Z99", _unknown_type, False, _NEVER_SENT),
    "version": Probe("unknown version 9.9", _unknown_version, False, _NEVER_SENT),
    "patient": Probe("no patient number", _no_patient, False, _NEVER_SENT),
    "versions": Probe("versions 2.3 to 2.5.1", _versions, is_needed=False),
    "garbage": Probe("a frame that is not HL7", _garbage),
    "half": Probe("a connection that ends inside a message", _half),
    "duplicate": Probe("the same message twice", _duplicate),
    "utf-8": Probe("character set UNICODE UTF-8", _charset("utf-8", f"{_UMLAUTS}, 東京")),
    "latin-1": Probe(
        *("character set 8859/1", _charset("iso-8859-1", _UMLAUTS), False),
        "Report Bridge sends results as UTF-8",
    ),
    "size": Probe("size of a message", _sizes),
    "row": Probe("ten messages in a row", _row),
    "second": Probe("a second connection", _second),
    "time": Probe("time until the acknowledgment", _time),
    "idle": Probe("a message after silence", _idle),
}
"""The probes by name, in their order."""
