"""
Definitions that read large messages in the worker process.

A call carries the definition's sources, and the worker process compiles each version once. Other
messages are read in this process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from bridge.intake.listening import Definition, Listening
from bridge.workers.hooks import install
from bridge.workers.offload import LARGE, Offload
from mappings.acceptance import Acceptance
from mappings.codes import Missed
from mappings.compiler import compile_sources
from mappings.events import OrderEvent
from mappings.hl7.header import Header, peek
from mappings.hl7.message import Message
from mappings.inbound import InboundMapping, Inspection, Subjects
from mappings.nodes import Sources
from mappings.orders import PatientNames
from mappings.scope import Defaults

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
    raw: bytes, recipe: Recipe, fallback: str, defaults: Defaults
) -> tuple[Inspection, Sequence[Missed]]:
    missed: list[Missed] = []
    now = defaults._replace(missed=missed)
    return _made(recipe).inspect(raw, fallback, peek(raw), now), missed


def _read(
    raw: bytes, recipe: Recipe, fallback: str, defaults: Defaults
) -> tuple[Sequence[OrderEvent], Sequence[Missed]]:
    missed: list[Missed] = []
    return _made(recipe).read(raw, fallback, defaults._replace(missed=missed)), missed


def subjects(raw: bytes, recipe: Recipe, fallback: str, defaults: Defaults) -> Subjects:
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

    def inspect(self, raw: bytes, fallback: str, head: Header, defaults: Defaults) -> Inspection:
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

    def read(self, raw: bytes, fallback: str, defaults: Defaults) -> Sequence[OrderEvent]:
        """Read what stored bytes ask for. Raises as `inspect`, and what the definition does."""
        if len(raw) < LARGE:
            return self.inner.read(raw, fallback, defaults)
        recipe = Recipe.of(self.inner)
        events, missed = self.offload.run(_read, raw, recipe, fallback, _bare(defaults))
        _note(defaults, missed)
        return events  # type: ignore[no-any-return]  # it is what `_read` gives


def _bare(defaults: Defaults) -> Defaults:
    return defaults._replace(missed=None)


def _note(defaults: Defaults, missed: Sequence[Missed]) -> None:
    if defaults.missed is not None:
        defaults.missed.extend(missed)


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
