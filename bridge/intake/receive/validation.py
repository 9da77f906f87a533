"""Validation before the handler: slow checks on a thread for each listener, in the order of
arrival.

Findings are kept until the definition inspects the message. There they become refusals, or are only
counted.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog
from twisted.python.failure import Failure

from bridge.executors import single_thread
from bridge.intake.receive.batches import looks_like_batch, split_batch
from bridge.intake.validation.findings import ValidationFinding
from bridge.metrics import Metrics
from bridge.redaction import describe
from mappings.hl7.refusals import InternalError
from mappings.language.diagnostics import Issue
from mllp.contract import Handler, Peer, ReplyCallback
from mllp.framing import Frame

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
        return {each.payload: self._look(each.payload) for each in frames}

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
            found = self._look(payload)
        for finding in found:
            refusal = finding.refusal
            self._counter.labels(self._listener, refusal.error_code.value).inc()
            self._log.warning(
                "against the structure", code=refusal.error_code.value, place=refusal.place
            )
        if not self._refuse:
            return ()
        return tuple(
            Issue(each.refusal.place, "validate", each.refusal.text, refusal=each.refusal)
            for each in found
            if each.is_error
        )

    def _look(self, payload: bytes) -> Sequence[ValidationFinding]:
        try:
            return self._validate(payload)
        except Exception as error:  # noqa: BLE001  # if the validator fails, nothing is accepted
            self._log.error("not validated", error=describe(error))
            return [ValidationFinding(InternalError(), is_error=True)]


class ValidatingHandler:
    """A handler that validates each frame on a thread before it passes it on."""

    def __init__(self, validator: Validator, handle: Handler) -> None:
        """`handle` gets each frame after its validation."""
        self._validator = validator
        self._handle = handle
        self._thread = single_thread("validation")

    def __call__(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """Validate on the thread, then handle on the loop, in the order of the calls."""
        loop = asyncio.get_running_loop()
        looked = loop.run_in_executor(self._thread, self._validator.prepare, frame)

        def go_on(done: "asyncio.Future[Findings]") -> None:
            try:
                findings = done.result()
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # the handler validates again
                findings = {}
            self._validator.remember(findings)

            def answer(replies: Sequence[bytes] | Failure) -> None:
                self._validator.forget(findings)
                reply(replies)

            try:
                self._handle(frame, peer, answer)
            except Exception:  # noqa: BLE001  # the connection closes unanswered
                answer(Failure())  # type: ignore[no-untyped-call]

        looked.add_done_callback(go_on)
