"""Offloading of slow frames: evaluated on threads, large messages mapped in the worker process.

Slow frames are large ones, ones that need a database lookup, and ones for definitions with hooks.
Other connections are answered meanwhile. Later frames of the same connection wait: their order is
kept.

A call to the worker process carries the sources of the definition. The process compiles each
version once.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache

from twisted.internet.defer import Deferred

from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener import InboundDefinition, ListenerPolicy
from bridge.workers.hooks import install
from bridge.workers.offload import LARGE, Offload
from mappings.compiler import compile_sources
from mappings.hl7.header import Header, peek
from mappings.hl7.message import Message
from mappings.inbound.acceptance import Acceptance
from mappings.inbound.definition import InboundMapping, Inspection, Subjects
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import PatientNames
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import Sources
from mappings.language.scope import ListenerDefaults
from mllp.contract import Peer, ReplyCallback, as_deferred
from mllp.framing import Frame


class FrameOffload:
    """Passes frames to a listener's handler; slow frames are evaluated on threads."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        least: int = LARGE,
        needs_lookup: Callable[[bytes], bool] | None = None,
        lookup_threads: Executor | None = None,
        hooks: Executor | None = None,
    ) -> None:
        """
        Evaluate frames of at least `least` bytes in `threads`, and frames with `needs_lookup` too.

        Frames with `needs_lookup` use `lookup_threads` if given: they do not wait for large frames.
        Frames of definitions with hooks use `hooks`: a hook does not delay other listeners.
        """
        self._handler = handler
        self._threads = threads
        self._least = least
        self._needs_lookup = needs_lookup
        self._lookup_threads = lookup_threads or threads
        self._hooks = hooks or threads
        self._latest: dict[int, asyncio.Future[None]] = {}

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Handle a frame; frames of one connection are stored in their order."""
        return as_deferred(self.handle_with_callback, frame, peer)

    def handle_with_callback(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        """As a call, with a callback."""
        straight = peer.connection_id not in self._latest
        if straight and not self._takes_long(frame):
            self._handler.handle_with_callback(frame, peer, reply)
        else:
            answered = Deferred.fromFuture(asyncio.ensure_future(self._in_turn(frame, peer)))
            answered.addCallbacks(reply, reply)

    async def _in_turn(self, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop, connection = asyncio.get_running_loop(), peer.connection_id
        before = self._latest.get(connection)
        over: asyncio.Future[None] = loop.create_future()
        self._latest[connection] = over
        try:
            if before is not None:
                await before
            answered = await self.submit(frame, peer)
            return await answered.asFuture(loop)
        finally:
            over.set_result(None)
            if self._latest.get(connection) is over:
                del self._latest[connection]

    async def submit(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """
        Evaluate a frame, on a thread if it is slow; return its future replies once it is submitted
        to the store.
        """
        if not self._takes_long(frame):
            return self._handler(frame, peer)
        loop = asyncio.get_running_loop()
        threads = self._threads_for(frame)
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        answered: Deferred[Sequence[bytes]] = Deferred()
        self._handler.store(frame, prepared, answered.callback)
        return answered

    def _takes_long(self, frame: Frame) -> bool:
        payload, needs_lookup = frame.payload, self._needs_lookup
        if self._handler.takes_long or len(payload) >= self._least:
            return True
        return needs_lookup is not None and needs_lookup(payload)

    def _threads_for(self, frame: Frame) -> Executor:
        if self._handler.takes_long:
            return self._hooks
        return self._threads if len(frame.payload) >= self._least else self._lookup_threads


_CACHED_VERSIONS = 16
"""Compiled versions that the worker process keeps."""


@dataclass(frozen=True, slots=True)
class DefinitionSource:
    """The sources of a definition; equal if name and version are equal."""

    name: str
    version: str
    sources: Sources = field(repr=False, compare=False)

    @classmethod
    def of(cls, mapping: InboundMapping) -> "DefinitionSource":
        """Return the sources of a definition."""
        return cls(mapping.name, mapping.version, mapping.sources)


@lru_cache(maxsize=_CACHED_VERSIONS)
def _compiled(source: DefinitionSource) -> InboundMapping:
    install()  # hooks of this process run in its own workers
    mapping = compile_sources(source.sources, source.name)
    assert isinstance(mapping, InboundMapping)  # noqa: S101  # as in the calling process
    return mapping


# The worker process runs the functions below. They collect unmapped codes in a separate list.


def _inspect(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> tuple[Inspection, Sequence[UnmappedCode]]:
    missed: list[UnmappedCode] = []
    now = defaults._replace(unmapped_codes=missed)
    return _compiled(source).inspect(raw, fallback, peek(raw), now), missed


def _read(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> tuple[Sequence[OrderEvent], Sequence[UnmappedCode]]:
    missed: list[UnmappedCode] = []
    return _compiled(source).read(raw, fallback, defaults._replace(unmapped_codes=missed)), missed


def subjects(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> Subjects:
    """Return the subjects of a message. Raises MalformedMessage."""
    return _compiled(source).subjects(Message.parse(raw, fallback=fallback), defaults)


@dataclass(frozen=True, slots=True)
class OffloadedDefinition:
    """A definition that maps large messages in the worker process."""

    inner: InboundMapping
    offload: Offload = field(repr=False, compare=False)

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
        """The message types, versions and processing ids that it accepts."""
        return self.inner.acceptance

    @property
    def patient_names(self) -> PatientNames:
        """How to handle an order whose patient is known by another name."""
        return self.inner.patient_names

    @property
    def takes_long(self) -> bool:
        """Whether its rules must run on a thread."""
        return self.inner.takes_long

    def accepts(self, header: Header) -> bool:
        """Tell whether message type, trigger event and sender match."""
        return self.inner.accepts(header)

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Return the issues of a message and its patients. Raises MalformedMessage, WorkerError."""
        if len(raw) < LARGE:
            return self.inner.inspect(raw, fallback, head, defaults)
        source = DefinitionSource.of(self.inner)
        found, missed = self.offload.run(_inspect, raw, source, fallback, _bare(defaults))
        _note(defaults, missed)
        return found  # type: ignore[no-any-return]  # the result of `_inspect`

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """Return ORC-1 of the reply to an order control code."""
        return self.inner.order_reply(control, accepted=accepted)

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> Sequence[OrderEvent]:
        """
        Map a message to order events. Raises the errors of `inspect` and of the definition's
        `read`.
        """
        if len(raw) < LARGE:
            return self.inner.read(raw, fallback, defaults)
        source = DefinitionSource.of(self.inner)
        events, missed = self.offload.run(_read, raw, source, fallback, _bare(defaults))
        _note(defaults, missed)
        return events  # type: ignore[no-any-return]  # the result of `_read`


def _bare(defaults: ListenerDefaults) -> ListenerDefaults:
    return defaults._replace(unmapped_codes=None)


def _note(defaults: ListenerDefaults, missed: Sequence[UnmappedCode]) -> None:
    if defaults.unmapped_codes is not None:
        defaults.unmapped_codes.extend(missed)


def with_offload(policy: ListenerPolicy, offload: Offload) -> ListenerPolicy:
    """Offload all definitions of a policy, earlier versions too."""

    def led(definition: InboundDefinition | None) -> InboundDefinition | None:
        if isinstance(definition, InboundMapping):
            return OffloadedDefinition(definition, offload)
        return definition

    recall = policy.recall
    return replace(
        policy,
        definitions=tuple(led(each) or each for each in policy.definitions),
        recall=lambda name, version: led(recall(name, version)),
    )
