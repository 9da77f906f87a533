"""Large frames: judged on threads and mapped in the worker process, so that other connections are
answered meanwhile.

These are large frames, frames for which the database is asked, and those of definitions with hooks.
Frames behind one on its own connection wait for it: the order of a connection is kept.

A call carries the definition's sources, and the worker process compiles each version once. Other
messages are read in this process.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache

from twisted.internet.defer import Deferred

from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener import Definition, Listening
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
from mllp.contract import Peer, Tell, promised
from mllp.framing import Frame


class FrameOffload:
    """Stands before the handler of a listener."""

    def __init__(
        self,
        handler: IntakeHandler,
        threads: Executor,
        *,
        least: int = LARGE,
        asks: Callable[[bytes], bool] | None = None,
        asking: Executor | None = None,
        hooks: Executor | None = None,
    ) -> None:
        """
        Judge frames of `least` bytes and more in `threads`, and others that `asks` names.

        Those go to `asking`, where it is given: they wait for no large one. Frames of definitions
        with hooks go to `hooks`, so that no other listener waits for a hook.
        """
        self._handler = handler
        self._threads = threads
        self._least = least
        self._asks = asks
        self._asking = asking or threads
        self._hooks = hooks or threads
        self._latest: dict[int, asyncio.Future[None]] = {}

    def __call__(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Answer a frame; those of one connection are stored in their order."""
        return promised(self.direct, frame, peer)

    def direct(self, frame: Frame, peer: Peer, tell: Tell) -> None:
        """Answer a frame, as a call does, by telling."""
        straight = peer.connection_id not in self._latest
        if straight and not self._takes_long(frame):  # nearly always
            self._handler.direct(frame, peer, tell)
        else:
            answered = Deferred.fromFuture(asyncio.ensure_future(self._in_turn(frame, peer)))
            answered.addCallbacks(tell, tell)

    async def _in_turn(self, frame: Frame, peer: Peer) -> Sequence[bytes]:
        loop, connection = asyncio.get_running_loop(), peer.connection_id
        before = self._latest.get(connection)
        over: asyncio.Future[None] = loop.create_future()
        self._latest[connection] = over
        try:
            if before is not None:
                await before
            answered = await self.hand_over(frame, peer)
            return await answered.asFuture(loop)
        finally:
            over.set_result(None)
            if self._latest.get(connection) is over:
                del self._latest[connection]

    async def hand_over(self, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        """Judge a frame, in a thread where that takes long; it is on its way to be stored then."""
        if not self._takes_long(frame):
            return self._handler(frame, peer)
        loop = asyncio.get_running_loop()
        threads = self._threads_for(frame)
        prepared = await loop.run_in_executor(threads, self._handler.prepare, frame, peer)
        answered: Deferred[Sequence[bytes]] = Deferred()
        self._handler.keep(frame, prepared, answered.callback)
        return answered

    def _takes_long(self, frame: Frame) -> bool:
        payload, asks = frame.payload, self._asks
        if self._handler.takes_long or len(payload) >= self._least:
            return True
        return asks is not None and asks(payload)

    def _threads_for(self, frame: Frame) -> Executor:
        if self._handler.takes_long:
            return self._hooks
        return self._threads if len(frame.payload) >= self._least else self._asking


_REMEMBERED = 16  # versions


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a definition is compiled from; equal where name and version are."""

    name: str
    version: str
    sources: Sources = field(repr=False, compare=False)

    @classmethod
    def of(cls, mapping: InboundMapping) -> "Recipe":
        """Give a definition's."""
        return cls(mapping.name, mapping.version, mapping.sources)


@lru_cache(maxsize=_REMEMBERED)
def _made(recipe: Recipe) -> InboundMapping:
    install()  # in the worker process
    made = compile_sources(recipe.sources, recipe.name)
    assert isinstance(made, InboundMapping)  # noqa: S101  # it was one where it was asked for
    return made


# The worker process runs these: the message first, and a new list for codes without an entry.


def _inspect(
    raw: bytes, recipe: Recipe, fallback: str, defaults: ListenerDefaults
) -> tuple[Inspection, Sequence[UnmappedCode]]:
    missed: list[UnmappedCode] = []
    now = defaults._replace(unmapped_codes=missed)
    return _made(recipe).inspect(raw, fallback, peek(raw), now), missed


def _read(
    raw: bytes, recipe: Recipe, fallback: str, defaults: ListenerDefaults
) -> tuple[Sequence[OrderEvent], Sequence[UnmappedCode]]:
    missed: list[UnmappedCode] = []
    return _made(recipe).read(raw, fallback, defaults._replace(unmapped_codes=missed)), missed


def subjects(raw: bytes, recipe: Recipe, fallback: str, defaults: ListenerDefaults) -> Subjects:
    """Return what a message is about. Raises Malformed."""
    return _made(recipe).subjects(Message.parse(raw, fallback=fallback), defaults)


@dataclass(frozen=True, slots=True)
class OffloadedDefinition:
    """A definition that reads large messages in the worker process."""

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
        """Which messages it takes."""
        return self.inner.acceptance

    @property
    def patient_names(self) -> PatientNames:
        """What becomes of an order whose patient is known by another name."""
        return self.inner.patient_names

    @property
    def takes_long(self) -> bool:
        """Whether its rules are for a thread."""
        return self.inner.takes_long

    def accepts(self, header: Header) -> bool:
        """Whether type, trigger and sender are its own."""
        return self.inner.accepts(header)

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Say what is wrong with a message. Raises Malformed, WorkerError."""
        if len(raw) < LARGE:
            return self.inner.inspect(raw, fallback, head, defaults)
        recipe = Recipe.of(self.inner)
        found, missed = self.offload.run(_inspect, raw, recipe, fallback, _bare(defaults))
        _note(defaults, missed)
        return found  # type: ignore[no-any-return]  # it is what `_inspect` gives

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """Give ORC-1 of the reply to an order control code."""
        return self.inner.order_reply(control, accepted=accepted)

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> Sequence[OrderEvent]:
        """Read what stored bytes ask for. Raises as `inspect`, and what the definition does."""
        if len(raw) < LARGE:
            return self.inner.read(raw, fallback, defaults)
        recipe = Recipe.of(self.inner)
        events, missed = self.offload.run(_read, raw, recipe, fallback, _bare(defaults))
        _note(defaults, missed)
        return events  # type: ignore[no-any-return]  # it is what `_read` gives


def _bare(defaults: ListenerDefaults) -> ListenerDefaults:
    return defaults._replace(unmapped_codes=None)


def _note(defaults: ListenerDefaults, missed: Sequence[UnmappedCode]) -> None:
    if defaults.unmapped_codes is not None:
        defaults.unmapped_codes.extend(missed)


def offloaded(listening: Listening, offload: Offload) -> Listening:
    """Give a listener's policy whose definitions, earlier versions too, are offloaded."""

    def led(definition: Definition | None) -> Definition | None:
        if isinstance(definition, InboundMapping):
            return OffloadedDefinition(definition, offload)
        return definition

    recall = listening.recall
    return replace(
        listening,
        definitions=tuple(led(each) or each for each in listening.definitions),
        recall=lambda name, version: led(recall(name, version)),
    )
