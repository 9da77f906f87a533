"""Validation before the handler: slow work on a thread of its own, in the order of arrival.

What a validator finds is kept for the moment in which the definition examines the message; there
it becomes a refusal, or is only counted. One thread a listener: nobody is overtaken.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import structlog
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from bridge.executors import single_thread
from bridge.intake.receive.batches import looks_like_batch, open_batch
from bridge.intake.receive.listener import Definition, Listening
from bridge.intake.validation.findings import Finding
from bridge.metrics import Metrics
from bridge.redaction import describe
from mappings.hl7.header import Header
from mappings.hl7.refusals import InternalError
from mappings.inbound.acceptance import Acceptance
from mappings.inbound.definition import Inspection
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.diagnostics import Issue
from mappings.language.scope import ListenerDefaults
from mllp.contract import Handler, Peer
from mllp.framing import Frame

Findings = Mapping[bytes, Sequence[Finding]]
"""By message."""

Validate = Callable[[bytes], Sequence[Finding]]
"""Gives what is against the structure of a message. Blocking."""


class Check(Protocol):
    """What adds to the examination of messages."""

    def asks(self, payload: bytes) -> bool:
        """Whether there is anything to look at; quick."""

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Give what the examination adds."""


class Validator:
    """The findings of one listener's messages."""

    def __init__(
        self, listener: str, validate: Validate, metrics: Metrics, *, refuse: bool
    ) -> None:
        """`refuse` grave findings; otherwise all are only counted and logged."""
        self._log = structlog.get_logger("intake").bind(listener=listener)
        self._listener = listener
        self._validate = validate
        self._counter = metrics.validation_findings
        self._refuse = refuse
        self._known: dict[bytes, Sequence[Finding]] = {}
        self._users = Counter[bytes]()  # frames in progress with this message: retransmits share it

    def prepare(self, frame: Frame) -> Findings:
        """Look at the messages of a frame. Changes nothing: any thread may."""
        frames = open_batch(frame) if looks_like_batch(frame.payload) else [frame]
        return {each.payload: self._look(each.payload) for each in frames}

    def remember(self, findings: Findings) -> None:
        """Keep findings until `forget`, for the examination of their messages."""
        self._known.update(findings)
        self._users.update(findings.keys())

    def forget(self, findings: Findings) -> None:
        """Drop findings, unless another frame with the same message still needs them."""
        self._users.subtract(findings.keys())
        for payload in findings:
            if self._users[payload] <= 0:
                del self._users[payload], self._known[payload]

    def asks(self, payload: bytes) -> bool:
        """Say yes: the structure of each message is looked at."""
        return True

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Give what the examination adds, prepared or not (a replay prepares nothing)."""
        found = self._known.get(payload)  # another thread may forget it at any time
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
            if each.grave
        )

    def _look(self, payload: bytes) -> Sequence[Finding]:
        try:
            return self._validate(payload)
        except Exception as error:  # noqa: BLE001  # a validator that fails accepts nothing
            self._log.error("not validated", error=describe(error))
            return [Finding(InternalError(), grave=True)]


@dataclass(frozen=True, slots=True)
class ValidatedDefinition:
    """A definition whose examination knows what the check found."""

    inner: Definition
    check: Check = field(repr=False)

    @property
    def name(self) -> str:
        """The definition's name."""
        return self.inner.name

    @property
    def version(self) -> str:
        """The hash of its sources."""
        return self.inner.version

    @property
    def acceptance(self) -> Acceptance:
        """Which messages it takes."""
        return self.inner.acceptance

    @property
    def takes_long(self) -> bool:
        """Whether its rules are for a thread."""
        return self.inner.takes_long

    @property
    def patient_names(self) -> PatientNames:
        """What becomes of an order whose patient is known by another name."""
        return self.inner.patient_names

    def accepts(self, header: Header) -> bool:
        """Whether type, trigger and sender are its own."""
        return self.inner.accepts(header)

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Say what is wrong with a message, by the definition and by the check."""
        found, suspect = self.inner.inspect(raw, fallback, head, defaults)
        issues = (*found.issues, *self.check.issues(raw))
        return Inspection(replace(found, issues=issues), suspect)

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """Give ORC-1 of the reply to an order control code."""
        return self.inner.order_reply(control, accepted=accepted)

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> Sequence[OrderEvent]:
        """Read what stored bytes ask for."""
        return self.inner.read(raw, fallback, defaults)


def validated(listening: Listening, check: Check) -> Listening:
    """Give a listener's policy with the check in all of its definitions."""
    definitions = tuple(ValidatedDefinition(each, check) for each in listening.definitions)
    return replace(listening, definitions=definitions)


class ValidatingHandler:
    """The handler of a listener whose messages are validated first."""

    def __init__(self, validator: Validator, handle: Handler) -> None:
        """Hand over to `handle` what has been looked at."""
        self._validator = validator
        self._handle = handle
        self._thread = single_thread("validation")

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Validate on the thread, then answer on the loop, in the order of the calls."""
        loop = asyncio.get_running_loop()
        looked = loop.run_in_executor(self._thread, self._validator.prepare, frame)
        answered: Deferred[Sequence[bytes]] = Deferred()

        def go_on(done: "asyncio.Future[Findings]") -> None:
            try:
                findings = done.result()
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # the handler looks itself
                findings = {}
            self._validator.remember(findings)
            try:
                handled = self._handle(frame, peer)
            except Exception:  # noqa: BLE001  # the connection closes unanswered
                handled = fail(Failure())  # type: ignore[no-untyped-call]
            handled.addBoth(self._forgotten, findings)
            handled.chainDeferred(answered)

        looked.add_done_callback(go_on)
        return answered

    def _forgotten(self, answer: Any, findings: Findings) -> Any:
        self._validator.forget(findings)
        return answer
