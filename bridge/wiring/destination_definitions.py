"""The definitions of a destination, with the rendering options of its settings applied."""

from collections.abc import Mapping
from dataclasses import replace

from bridge.errors import BridgeError
from bridge.wiring.active_definitions import SourceFinder, file_sources
from config import Settings
from config.sections import DestinationSettings, Rendering
from mappings.compiler import compile_sources, definition_names
from mappings.language.definition_files import overlay_settings
from mappings.language.diagnostics import MappingErrors
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

STATUS_MAPPING = "status"
"""The definition of order status messages, for destinations that list such events."""
DOCUMENT_MAPPING = "mdm"
"""The definition of addenda for destinations that receive them as documents."""

RESULTS = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})
_AS_DOCUMENTS = "mdm"
_EVERYWHERE = frozenset({"version", "times"})
"""Options that also apply to messages without report text."""


class NotOutbound(BridgeError):  # noqa: N818  # named for what happened
    """A destination uses a definition that does not write messages."""

    def __init__(self, destination: str, mapping: str) -> None:
        super().__init__(f"destination {destination}: {mapping} is no mapping of outgoing messages")


class NotRendered(BridgeError):  # noqa: N818  # named for what happened
    """A rendering option of a destination is not possible with its mapping."""

    def __init__(self, destination: str, mistakes: str) -> None:
        super().__init__(f"destination {destination}: {mistakes}")


def compile_outbound(
    settings: Settings, chosen: DestinationSettings, find: SourceFinder | None = None
) -> tuple[OutboundMapping, ...]:
    """
    Compile the definitions of a destination. The first one with an event writes its message.

    `find` returns the sources, by default the files of the data directory. Raises MappingErrors,
    NotOutbound and NotRendered.
    """
    find = find or file_sources(settings)
    options = rendering_options(chosen)
    mappings = []
    if options.get("addenda") == _AS_DOCUMENTS:
        del options["addenda"]
        documents = _compiled(find, chosen, DOCUMENT_MAPPING, options)
        mappings.append(documents.restricted_to({ResultEvent.ADDENDUM, ResultEvent.RETRACTION}))
    mappings.append(_compiled(find, chosen, chosen.mapping, options))
    if STATUS_MAPPING in destination_definition_names(chosen)[1:]:
        general = {word: value for word, value in options.items() if word in _EVERYWHERE}
        mappings.append(_compiled(find, chosen, STATUS_MAPPING, general))
    return tuple(mappings)


def destination_definition_names(chosen: DestinationSettings) -> tuple[str, ...]:
    """Return the names of the definitions of a destination, its own first."""
    names = [chosen.mapping]
    if chosen.addenda == _AS_DOCUMENTS:
        names.append(DOCUMENT_MAPPING)
    if frozenset(chosen.events) - RESULTS and chosen.mapping != STATUS_MAPPING:
        names.append(STATUS_MAPPING)
    return tuple(names)


def rendering_options(chosen: Rendering) -> dict[str, object]:
    """Return the rendering options that are set."""
    said = {word: getattr(chosen, word) for word in Rendering.model_fields}
    return {word: value for word, value in said.items() if value not in (None, {})}


def _compiled(
    find: SourceFinder, chosen: DestinationSettings, name: str, options: Mapping[str, object]
) -> OutboundMapping:
    sources = find(name)
    if name not in definition_names(sources):
        options = {}
    owner = f"destination {chosen.name}"
    sources, whole = overlay_settings(sources, name, options, owner)
    try:
        made = compile_sources(sources, whole)
    except MappingErrors as errors:
        own = [each for each in errors.issues if each.file == f"{owner}.yaml"]
        if not own:
            raise
        mistakes = "; ".join(f"{each.path}: {each.message}" for each in own)
        raise NotRendered(chosen.name, mistakes) from None
    if not isinstance(made, OutboundMapping):
        raise NotOutbound(chosen.name, name)
    if not options:
        return made
    return replace(made, base=(name, compile_sources(find(name), name).version))
