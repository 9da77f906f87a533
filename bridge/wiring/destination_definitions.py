"""The definitions of a destination, with the words of its settings laid over them."""

from collections.abc import Mapping
from dataclasses import replace

from bridge.errors import BridgeError
from bridge.wiring.active_definitions import SourceFinder, file_sources
from config import Settings
from config.sections import DestinationSettings, Rendering
from mappings.compiler import compile_sources, definition_names
from mappings.language.definition_files import overlay_settings
from mappings.language.errors import MappingErrors
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

STATUS_MAPPING = "status"
"""The definition of messages that are no results, where a destination wants to be told."""
DOCUMENT_MAPPING = "mdm"
"""The definition of addenda where a destination wants them as documents of their own."""

RESULTS = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})
_AS_DOCUMENTS = "mdm"
_EVERYWHERE = frozenset({"version", "times"})
"""Words that concern messages without a text too."""


class NotOutbound(BridgeError):  # noqa: N818  # named for what happened
    """A destination names a definition that writes no messages."""

    def __init__(self, destination: str, mapping: str) -> None:
        super().__init__(f"destination {destination}: {mapping} is no mapping of outgoing messages")


class NotRendered(BridgeError):  # noqa: N818  # named for what happened
    """A word of a destination's settings and its mapping do not go together."""

    def __init__(self, destination: str, mistakes: str) -> None:
        super().__init__(f"destination {destination}: {mistakes}")


def compile_outbound(
    settings: Settings, chosen: DestinationSettings, find: SourceFinder | None = None
) -> tuple[OutboundMapping, ...]:
    """
    Compile what a destination is sent, the first that has an event first.

    Definitions are those that `find` gives, or the files of HOME. Raises MappingErrors,
    NotOutgoing and NotRendered.
    """
    find = find or file_sources(settings)
    words = rendering_options(chosen)
    mappings = []
    if words.get("addenda") == _AS_DOCUMENTS:
        del words["addenda"]
        documents = _compiled(find, chosen, DOCUMENT_MAPPING, words)
        mappings.append(documents.restricted_to({ResultEvent.ADDENDUM, ResultEvent.RETRACTION}))
    mappings.append(_compiled(find, chosen, chosen.mapping, words))
    if STATUS_MAPPING in destination_definition_names(chosen)[1:]:
        general = {word: value for word, value in words.items() if word in _EVERYWHERE}
        mappings.append(_compiled(find, chosen, STATUS_MAPPING, general))
    return tuple(mappings)


def destination_definition_names(chosen: DestinationSettings) -> tuple[str, ...]:
    """Name the definitions that a destination needs, its own first."""
    names = [chosen.mapping]
    if chosen.addenda == _AS_DOCUMENTS:
        names.append(DOCUMENT_MAPPING)
    if frozenset(chosen.events) - RESULTS and chosen.mapping != STATUS_MAPPING:
        names.append(STATUS_MAPPING)
    return tuple(names)


def rendering_options(chosen: Rendering) -> dict[str, object]:
    """Give the words that the settings say."""
    said = {word: getattr(chosen, word) for word in Rendering.model_fields}
    return {word: value for word, value in said.items() if value not in (None, {})}


def _compiled(
    find: SourceFinder, chosen: DestinationSettings, name: str, words: Mapping[str, object]
) -> OutboundMapping:
    sources = find(name)
    if name not in definition_names(sources):
        words = {}
    owner = f"destination {chosen.name}"
    sources, whole = overlay_settings(sources, name, words, owner)
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
    if not words:
        return made
    return replace(made, base=(name, compile_sources(find(name), name).version))
