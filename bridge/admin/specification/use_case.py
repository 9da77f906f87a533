"""The specification of a listener or destination, of the active or of an earlier version."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from bridge.active_settings import active_sources, current, find_connection, is_record
from bridge.admin.audit_events import audited
from bridge.admin.channel_operations import NoSuchChannel
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.specification.destination import WrittenDefinition, destination_specification
from bridge.admin.specification.document import as_html, as_pdf, as_text
from bridge.admin.specification.listener import DefinitionSources, listener_specification
from bridge.admin.specification.model import ExampleMessage, Specification, changes
from bridge.admin.specification.rendering import document_of
from bridge.delivery.destination_settings import (
    compile_outbound,
    destination_definition_names,
    rendering_options,
)
from bridge.report_engine import PdfWriterMissing
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.tables import MAPPING_EXAMPLES
from config import Settings, load
from config.listeners import ListenerSettings
from config.sections import ChannelKind, DestinationSettings
from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.language.definition_files import overlay_settings
from mappings.language.diagnostics import Sources

ACTIVE: Final = "active"
_READER: Final = "orders"
"""The definition that reads the made-up order of a destination's examples."""
_MAX_EXAMPLES: Final = 2
_SHORTEST_VERSION: Final = 6
_MAX_VERSIONS: Final = 50
"""Versions of a definition that are offered; others can be named."""


class SpecificationFormat(StrEnum):
    JSON = "json"
    HTML = "html"
    PDF = "pdf"
    TEXT = "text"


def specification(
    settings: Settings,
    database: Database,
    kind: ChannelKind,
    name: str,
    version: str = ACTIVE,
    *,
    with_address: bool = False,
) -> Specification:
    """
    Return the specification of a channel.

    `version` is that of one of its definitions, or its first characters; the others are the active
    ones. Raises NoSuchItem, and InvalidState if its definitions have errors.
    """
    section = find_connection(current(settings, database), kind, name)
    if section is None:
        raise NoSuchItem
    finder = _Sources(settings, database, _names(section), version)
    if isinstance(section, ListenerSettings):
        stored = _stored_examples(database, section)
        return listener_specification(
            section, finder.inbound(section.mappings), stored, with_address=with_address
        )
    return _of_destination(settings, section, finder, with_address=with_address)


def _of_destination(
    settings: Settings, section: DestinationSettings, finder: "_Sources", *, with_address: bool
) -> Specification:
    compiled = compile_outbound(settings, section, finder.sources)
    options = rendering_options(section)
    definitions = []
    for mapping in compiled:
        name, version = mapping.identity
        sources, outlined = finder.sources(name), name
        if name == section.mapping:
            sources, outlined = overlay_settings(
                sources, name, options, f"destination {section.name}"
            )
        definitions.append(
            WrittenDefinition(mapping, sources, outlined, name, version, finder.since(name))
        )
    (reader,) = finder.inbound([_READER])
    return destination_specification(
        section, definitions, reader.mapping, reader.sources, with_address=with_address
    )


def _names(section: ListenerSettings | DestinationSettings) -> Sequence[str]:
    if isinstance(section, ListenerSettings):
        return section.mappings
    return destination_definition_names(section)


class _Sources:
    """The files of definitions: the active ones, and those of one version."""

    def __init__(
        self, settings: Settings, database: Database, names: Sequence[str], version: str
    ) -> None:
        self._active = active_sources(settings, database)
        self._chosen: dict[str, Sources] = {}
        with database.read() as connection:
            self._activations = {
                name: activation
                for name, activation in mapping_versions.active_versions(connection).items()
                if not is_record(name)
            }
            if version == ACTIVE:
                return
            for name in names:
                for known in mapping_versions.versions(connection, name):
                    if known == version or (
                        len(version) >= _SHORTEST_VERSION and known.startswith(version)
                    ):
                        found = mapping_versions.find(connection, name, known)
                        if found is not None:
                            self._chosen[name] = {**self._active(name), **found.sources}
                        break
        if not self._chosen:
            raise NoSuchItem(f"its definitions have no version {version[:_SHOWN]}")

    def sources(self, name: str) -> Sources:
        return self._chosen.get(name) or self._active(name)

    def since(self, name: str) -> int | None:
        """Return since when the active version is active; None for another one."""
        activation = None if name in self._chosen else self._activations.get(name)
        return None if activation is None else activation.at

    def inbound(self, names: Sequence[str]) -> list[DefinitionSources]:
        found = []
        for name in names:
            sources = self.sources(name)
            mapping = compile_sources(sources, name)
            if not isinstance(mapping, InboundMapping):
                raise InvalidState(f"{name} does not read messages")
            found.append(DefinitionSources(mapping, sources, self.since(name)))
        return found


_SHOWN: Final = 16


def _stored_examples(database: Database, section: ListenerSettings) -> list[ExampleMessage]:
    """Return de-identified examples of the definitions of a listener."""
    example = MAPPING_EXAMPLES.c
    statement = (
        select(example.name, example.label, example.payload)
        .where(example.name.in_(section.mappings))
        .where(example.listener.in_(["", section.name]))
        .order_by(example.id)
        .limit(_MAX_EXAMPLES)
    )
    with database.read() as connection:
        rows = connection.execute(statement).all()
    found = []
    for row in rows:
        try:
            message = Message.parse(bytes(row.payload), fallback=section.charset)
        except MessageRefusal:
            continue
        text = "\n".join(segment.text() for segment in message.segments)
        found.append(ExampleMessage(f"{row.name}: {row.label} (de-identified)", text))
    return found


def activated_versions(database: Database, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the versions of definitions that were active: of each the latest, newest first."""
    found: list[dict[str, Any]] = []
    with database.read() as connection:
        for name in names:
            seen: dict[str, int] = {}
            for activation in mapping_versions.history(connection, name):
                seen.setdefault(activation.version, activation.at)
            found += [
                {"definition": name, "version": version, "at": at, "is_active": not place}
                for place, (version, at) in enumerate(list(seen.items())[:_MAX_VERSIONS])
            ]
    return found


def rendered(
    settings: Settings,
    database: Database,
    kind: ChannelKind,
    name: str,
    wanted: SpecificationFormat,
    version: str = ACTIVE,
    compare: str = "",
    *,
    with_address: bool = False,
) -> bytes | Mapping[str, Any]:
    """
    Return a specification in a format, with its changes since the version `compare` if given.

    JSON also has the versions that can be chosen, and `changes`, None without a comparison. Raises
    as `specification`, and InvalidState if the writer of PDF is missing.
    """
    found = specification(settings, database, kind, name, version, with_address=with_address)
    since = None
    if compare:
        before = specification(settings, database, kind, name, compare, with_address=with_address)
        since = changes(before, found)
    if wanted is SpecificationFormat.JSON:
        listed = None if since is None else [_change_json(change) for change in since]
        versions = activated_versions(database, [used.name for used in found.definitions])
        return {**found.as_json(), "versions": versions, "changes": listed}
    document = document_of(found, since, compare)
    if wanted is SpecificationFormat.PDF:
        try:
            return as_pdf(document)
        except PdfWriterMissing as error:
            raise InvalidState(str(error)) from None
    text = as_html(document) if wanted is SpecificationFormat.HTML else as_text(document)
    return text.encode()


def _change_json(change: Any) -> dict[str, str]:
    return {
        "place": change.place,
        "fact": change.fact,
        "before": change.before,
        "after": change.after,
        "kind": change.kind.value,
    }


def interface_specification(
    home: Path,
    name: str,
    kind: ChannelKind | None,
    wanted: SpecificationFormat,
    version: str = ACTIVE,
    compare: str = "",
    *,
    with_address: bool = False,
) -> bytes | Mapping[str, Any]:
    """
    Return a specification for a command; audited.

    Without a kind it is that of the listener of this name, else of the destination. Raises
    NoSuchChannel if there is neither.
    """
    settings = load(home)
    with bridge_database(home) as database:
        active = current(settings, database)
        kinds = [kind] if kind else list(ChannelKind)
        found = next((of for of in kinds if find_connection(active, of, name)), None)
        if found is None:
            raise NoSuchChannel(kinds[0], name)
        with audited(home, database, "export", ("specification", f"{found} {name}")):
            return rendered(
                settings,
                database,
                found,
                name,
                wanted,
                version,
                compare,
                with_address=with_address,
            )
