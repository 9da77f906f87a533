"""Definitions in the worker process: large messages are inspected and read there.

A call carries the sources of the definition. The process compiles each version once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from bridge.workers.hooks import install
from bridge.workers.offload import Offload
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping, PreCheck, Subjects
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import AbsentTags
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import Sources
from mappings.language.scope import ListenerDefaults

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
) -> tuple[PreCheck, Sequence[UnmappedCode]]:
    unmapped: list[UnmappedCode] = []
    message = Message.parse(raw, fallback=fallback)
    collecting = defaults._replace(unmapped_codes=unmapped)
    return _compiled(source).pre_check(message, collecting), unmapped


def _read(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> tuple[Sequence[OrderEvent], Sequence[UnmappedCode]]:
    unmapped: list[UnmappedCode] = []
    message = Message.parse(raw, fallback=fallback)
    collecting = defaults._replace(unmapped_codes=unmapped)
    return _compiled(source).apply(message, collecting), unmapped


def _subjects(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> Subjects:
    return _compiled(source).subjects(Message.parse(raw, fallback=fallback), defaults)


def _absent_tags(
    raw: bytes, source: DefinitionSource, fallback: str, defaults: ListenerDefaults
) -> AbsentTags:
    return _compiled(source).absent_tags(Message.parse(raw, fallback=fallback), defaults)


def inspect(
    offload: Offload,
    definition: InboundMapping,
    raw: bytes,
    fallback: str,
    defaults: ListenerDefaults,
) -> PreCheck:
    """Inspect a message in the worker process. Raises MalformedMessage, WorkerError."""
    source = DefinitionSource.of(definition)
    found, unmapped = offload.run(_inspect, raw, source, fallback, _without_codes(defaults))
    _add_codes(defaults, unmapped)
    return found  # type: ignore[no-any-return]  # the result of `_inspect`


def read(
    offload: Offload,
    definition: InboundMapping,
    raw: bytes,
    fallback: str,
    defaults: ListenerDefaults,
) -> Sequence[OrderEvent]:
    """
    Map a message in the worker process.

    Raises the errors of `inspect` and of the definition's `apply`.
    """
    source = DefinitionSource.of(definition)
    events, unmapped = offload.run(_read, raw, source, fallback, _without_codes(defaults))
    _add_codes(defaults, unmapped)
    return events  # type: ignore[no-any-return]  # the result of `_read`


def subjects(
    offload: Offload,
    definition: InboundMapping,
    raw: bytes,
    fallback: str,
    defaults: ListenerDefaults,
) -> Subjects:
    """Read the subjects of a message in the worker process. Raises the errors of `inspect`."""
    source = DefinitionSource.of(definition)
    found: Subjects = offload.run(_subjects, raw, source, fallback, _without_codes(defaults))
    return found


def absent_tags(
    offload: Offload,
    definition: InboundMapping,
    raw: bytes,
    fallback: str,
    defaults: ListenerDefaults,
) -> AbsentTags:
    """Read the tags that a message lacks in the worker process. Raises the errors of `inspect`."""
    source = DefinitionSource.of(definition)
    found: AbsentTags = offload.run(_absent_tags, raw, source, fallback, _without_codes(defaults))
    return found


def _without_codes(defaults: ListenerDefaults) -> ListenerDefaults:
    return defaults._replace(unmapped_codes=None)


def _add_codes(defaults: ListenerDefaults, unmapped: Sequence[UnmappedCode]) -> None:
    if defaults.unmapped_codes is not None:
        defaults.unmapped_codes.extend(unmapped)
