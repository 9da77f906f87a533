"""Validation before the handler: findings of hl7apy, on a thread.

The messages of a sender are validated in the order of arrival. Findings are kept until the
definition inspects the message. Then they become refusals, or are only counted. The texts of
hl7apy quote field values; only kind and place are kept.
"""

import asyncio
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog
from twisted.python.failure import Failure
from typing_extensions import override

from bridge.executors import ThreadLimit, Threads
from bridge.intake.receive.verdict import looks_like_batch, split_batch
from bridge.metrics import Metrics
from bridge.redaction import describe
from mappings.hl7.refusals import (
    ForbiddenElement,
    InternalError,
    MessageRefusal,
    MissingField,
    StructureViolation,
    TableValueNotFound,
    TooManyRepetitions,
    ValueTooLong,
    WrongDataType,
)
from mappings.language.diagnostics import Issue
from mllp.contract import Handler, Peer, ReplyCallback
from mllp.framing import Frame
from mllp.limits import source_of


@dataclass(frozen=True, slots=True)
class ValidationFinding:
    """One violation: an error of the structure, or a warning about a table or a length."""

    refusal: MessageRefusal
    is_error: bool

    @override
    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'warning'}: {self.refusal.text}"


def _missing(place: str) -> MessageRefusal:
    """Distinguish a missing field from a missing segment."""
    is_field = place != "MSH-9" and ("-" in place or "." in place)
    return MissingField(place) if is_field else StructureViolation(place)


_REPORT_LINES: Final[tuple[tuple[re.Pattern[str], Callable[[str], MessageRefusal]], ...]] = (
    (re.compile(r"Error: Missing required child (\S+)$"), _missing),
    (re.compile(r"Error: Child limit exceeded (\S+)$"), TooManyRepetitions),
    (re.compile(r"Error: Datatype \S+ is not correct for (\S+) \("), WrongDataType),
    (re.compile(r"Error: Invalid children detected for <\w+ (\w+)"), ForbiddenElement),
    (
        re.compile(r"Error: (?:Unknown|Invalid) element found"),
        lambda _: StructureViolation("MSH-9"),
    ),
    (
        re.compile(r"Warning: Value .* not in table \S+ in element (\S+)$", re.DOTALL),
        TableValueNotFound,
    ),
    (re.compile(r"Warning: Exceeded max length \(\d+\) of (\S+)$"), ValueTooLong),
)
_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBERED: Final = re.compile(r"([A-Z0-9]{2,3})_(\d+)")


def read_report(lines: Iterable[str]) -> list[ValidationFinding]:
    """Read a report of hl7apy, one finding a line; repeated ones are returned once."""
    found: dict[tuple[str, str], ValidationFinding] = {}
    for line in lines:
        finding = _read(line.rstrip("\n"))
        if finding is not None:
            found.setdefault((type(finding.refusal).__name__, finding.refusal.place), finding)
    return list(found.values())


def _read(line: str) -> ValidationFinding | None:
    for pattern, make in _REPORT_LINES:
        match = pattern.match(line)
        if match is not None:
            place = hl7_place(match[1]) if match.re.groups else ""
            return ValidationFinding(make(place), line.startswith("Error"))
    return None


def hl7_place(path: str) -> str:
    """
    Convert a path of hl7apy to HL7 notation: `PID.PID_3` is PID-3, `PID_3.CX_1` is PID-3.1.

    Inside a component only the data type is known: `HD.HD_2` becomes HD.2.
    """
    parent, _, child = path.partition(".")
    number = _NUMBERED.fullmatch(child)
    if number is None:  # a segment or a group
        name = child or parent
        return name if _SEGMENT.fullmatch(name) else "MSH-9"
    if number[1] == parent and _SEGMENT.fullmatch(parent):
        return f"{parent}-{number[2]}"
    above = _NUMBERED.fullmatch(parent)
    if above is not None and _SEGMENT.fullmatch(above[1]):
        return f"{above[1]}-{above[2]}.{number[2]}"
    return f"{number[1]}.{number[2]}"


Findings = Mapping[bytes, Sequence[ValidationFinding]]
"""Findings by message payload."""

Validate = Callable[[bytes], Sequence[ValidationFinding]]
"""Returns the findings of a message. Blocking."""


class Validator:
    """Validates the messages of one listener and keeps their findings (a `MessageCheck`)."""

    def __init__(
        self, listener: str, validate: Validate, metrics: Metrics, *, refuse: bool
    ) -> None:
        """`refuse`: errors refuse a message; otherwise all findings are only counted and logged."""
        self._log = structlog.get_logger("intake").bind(listener=listener)
        self._listener = listener
        self._validate = validate
        self._counter = metrics.validation_findings
        self._refuse = refuse
        self._known: dict[bytes, Sequence[ValidationFinding]] = {}
        self._users = Counter[bytes]()  # frames in progress with this payload: retransmits share it

    def prepare(self, frame: Frame) -> Findings:
        """Validate the messages of a frame. Safe on any thread."""
        frames = split_batch(frame) if looks_like_batch(frame.payload) else [frame]
        return {
            candidate.payload: self._validate_payload(candidate.payload) for candidate in frames
        }

    def remember(self, findings: Findings) -> None:
        """Keep findings until `forget`, for the inspection of their messages."""
        self._known.update(findings)
        self._users.update(findings.keys())

    def forget(self, findings: Findings) -> None:
        """Drop findings, unless another frame with the same payload still needs them."""
        self._users.subtract(findings.keys())
        for payload in findings:
            if self._users[payload] <= 0:
                del self._users[payload], self._known[payload]

    def applies_to(self, payload: bytes) -> bool:
        """Each message is validated."""
        return True

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Return the issues of a message, prepared or not (a replay prepares nothing)."""
        found = self._known.get(payload)  # another thread may remove it at any time
        if found is None:
            found = self._validate_payload(payload)
        for finding in found:
            refusal = finding.refusal
            self._counter.labels(self._listener, refusal.error_code.value).inc()
            self._log.warning(
                "message violates its structure",
                code=refusal.error_code.value,
                place=refusal.place,
            )
        if not self._refuse:
            return ()
        return tuple(
            Issue(finding.refusal.place, "validate", finding.refusal.text, refusal=finding.refusal)
            for finding in found
            if finding.is_error
        )

    def _validate_payload(self, payload: bytes) -> Sequence[ValidationFinding]:
        try:
            return self._validate(payload)
        except Exception as error:  # noqa: BLE001  # if the validator fails, nothing is accepted
            self._log.error("message not validated", error=describe(error))
            return [ValidationFinding(InternalError(), is_error=True)]


class _WaitingFrame(NamedTuple):
    frame: Frame
    peer: Peer
    reply: ReplyCallback


# Each listener validates one frame at a time; a batch may take minutes.
VALIDATIONS = ThreadLimit(Threads.EXTERNAL, "validation", 4, 1000)


class ValidatingHandler:
    """
    A handler that validates each frame on a thread before it passes it on.

    Sources take turns, so that no sender waits for all messages of another. The frames of one
    source keep their order.
    """

    def __init__(self, validator: Validator, handle: Handler) -> None:
        """`handle` gets each frame after its validation."""
        self._validator = validator
        self._handle = handle
        self._waiting: OrderedDict[str, deque[_WaitingFrame]] = OrderedDict()
        self._running = False

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        frames = self._waiting.setdefault(source_of(peer.host), deque())
        frames.append(_WaitingFrame(frame, peer, reply))
        if not self._running:
            self._validate_next()

    def _validate_next(self) -> None:
        self._running = bool(self._waiting)
        if not self._waiting:
            return
        source, frames = self._waiting.popitem(last=False)
        waiting = frames.popleft()
        if frames:
            self._waiting[source] = frames  # at the end of the rotation
        prepare = VALIDATIONS.run(self._validator.prepare, waiting.frame)
        validated = asyncio.ensure_future(prepare)
        validated.add_done_callback(partial(self._handle_validated, waiting))

    def _handle_validated(self, waiting: _WaitingFrame, done: "asyncio.Future[Findings]") -> None:
        try:
            findings = done.result()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  # the handler validates again
            findings = {}
        self._validator.remember(findings)

        def answer(replies: Sequence[bytes] | Failure) -> None:
            self._validator.forget(findings)
            waiting.reply(replies)

        try:
            self._handle(waiting.frame, waiting.peer, answer)
        except Exception:  # noqa: BLE001  # the connection closes unanswered
            answer(Failure())  # type: ignore[no-untyped-call]
        finally:
            self._validate_next()
