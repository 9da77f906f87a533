"""Destinations from settings: definitions, reply policy, and a sender for each kind of address."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS

from bridge.active_settings import SourceFinder, file_sources
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.dicom_objects import DicomDocuments, DocumentForm
from bridge.delivery.dicom_sender import DicomReceiver, DicomSender
from bridge.delivery.reply_policy import acknowledges, require_acknowledgment
from bridge.delivery.stow_sender import StowSender
from bridge.errors import BridgeError
from bridge.queue.commitments import Commitments
from bridge.queue.states import RetryPolicy
from bridge.transports import MessageSender
from bridge.transports.connection_paths import authorization_path, folder_at, require_permitted
from bridge.transports.folders import FolderSender
from bridge.transports.http_protocol import read_authorization
from bridge.transports.http_sender import HttpReceiver, HttpSender
from bridge.transports.tls import (
    checked_tls_context,
    destination_tls_options,
    log_reload_failure,
    tls_files_of,
)
from config import Settings
from config.quantities import (
    Address,
    DicomAddress,
    DicomWebAddress,
    FolderAddress,
    WebAddress,
)
from config.sections import DestinationDicom, DestinationSettings, Rendering
from mappings.compiler import compile_sources, definition_names
from mappings.language.definition_files import overlay_settings
from mappings.language.diagnostics import MappingErrors
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent
from mllp.client import FurtherReplyHandler, MLLPClient, no_further_replies
from mllp.tls import ReloadingOptions

STATUS_MAPPING = "status"
"""The definition of order status messages, for destinations that list such events."""
DOCUMENT_MAPPING = "mdm"
"""The definition of addenda for destinations that receive them as documents."""

RESULTS = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})
_AS_DOCUMENTS = "mdm"
_ALL_MESSAGES = frozenset({"version", "times"})
"""Options that also apply to messages without report text."""


class NotOutbound(BridgeError):
    """A destination uses a definition that does not write messages."""

    def __init__(self, destination: str, mapping: str) -> None:
        super().__init__(
            f"destination {destination}: {mapping} is not a mapping of outgoing messages"
        )


class NotRendered(BridgeError):
    """A rendering option of a destination is not possible with its mapping."""

    def __init__(self, destination: str, mistakes: str) -> None:
        super().__init__(f"destination {destination}: {mistakes}")


def compile_outbound(
    settings: Settings, destination: DestinationSettings, find: SourceFinder | None = None
) -> tuple[OutboundMapping, ...]:
    """
    Compile the definitions of a destination. The first one with an event writes its message.

    `find` returns the sources, by default the files of the data directory. Raises MappingErrors,
    NotOutbound and NotRendered.
    """
    find = find or file_sources(settings)
    options = rendering_options(destination)
    if destination.is_pacs:
        return (_compiled(find, destination, destination.mapping, options),)
    mappings = []
    if options.get("addenda") == _AS_DOCUMENTS:
        del options["addenda"]
        documents = _compiled(find, destination, DOCUMENT_MAPPING, options)
        mappings.append(documents.restricted_to({ResultEvent.ADDENDUM, ResultEvent.RETRACTION}))
    mappings.append(_compiled(find, destination, destination.mapping, options))
    if STATUS_MAPPING in destination_definition_names(destination)[1:]:
        common = {name: value for name, value in options.items() if name in _ALL_MESSAGES}
        mappings.append(_compiled(find, destination, STATUS_MAPPING, common))
    return tuple(mappings)


def destination_definition_names(destination: DestinationSettings) -> tuple[str, ...]:
    """Return the names of the definitions of a destination, its own first."""
    names = [destination.mapping]
    if destination.is_pacs:
        return tuple(names)
    if destination.addenda == _AS_DOCUMENTS:
        names.append(DOCUMENT_MAPPING)
    if frozenset(destination.events) - RESULTS and destination.mapping != STATUS_MAPPING:
        names.append(STATUS_MAPPING)
    return tuple(names)


def rendering_options(destination: Rendering) -> dict[str, object]:
    """
    Return the options that are laid over the definition of a destination.

    A PACS gets objects instead of segments. Of its definition, the text with its sections applies.
    """
    if isinstance(destination, DestinationSettings) and destination.is_pacs:
        has_pdf = DocumentForm.PDF in pacs_documents(destination).forms
        return {
            "sections": destination.sections or "dicom",
            "orders": "combined",
            "addenda": "whole",
            "content": ["text", "pdf"] if has_pdf else ["text"],
        }
    options = {name: getattr(destination, name) for name in Rendering.model_fields}
    return {name: value for name, value in options.items() if value not in (None, {})}


def pacs_documents(destination: DestinationSettings) -> DicomDocuments:
    """Return what a PACS gets of a report."""
    chosen = destination.dicom or DestinationDicom()
    return DicomDocuments(
        forms=tuple(map(DocumentForm, chosen.forms)),
        charset=chosen.charset,
        organization=chosen.organization,
        language=chosen.language,
        series_description=chosen.series_description,
        series_number=chosen.series_number,
    )


def _compiled(
    find: SourceFinder, destination: DestinationSettings, name: str, options: Mapping[str, object]
) -> OutboundMapping:
    sources = find(name)
    if name not in definition_names(sources):
        options = {}
    owner = f"destination {destination.name}"
    sources, overlaid = overlay_settings(sources, name, options, owner)
    try:
        compiled = compile_sources(sources, overlaid)
    except MappingErrors as errors:
        own = [issue for issue in errors.issues if issue.file == f"{owner}.yaml"]
        if not own:
            raise
        mistakes = "; ".join(f"{issue.path}: {issue.message}" for issue in own)
        raise NotRendered(destination.name, mistakes) from None
    if not isinstance(compiled, OutboundMapping):
        raise NotOutbound(destination.name, name)
    if not options:
        return compiled
    return replace(compiled, base=(name, compile_sources(find(name), name).version))


class MissingMessage(BridgeError):
    """A destination lists an event for which its definitions have no message."""

    def __init__(self, destination: str, event: ResultEvent) -> None:
        super().__init__(f"destination {destination}: its mapping has no message for {event}")


def make_destinations(
    settings: Settings, find: SourceFinder | None = None
) -> list[CompiledDestination]:
    """Compile the enabled destinations. Raises as `make_destination`."""
    return [
        make_destination(settings, destination, find)
        for destination in settings.destination
        if destination.enabled
    ]


def make_destination(
    settings: Settings, destination: DestinationSettings, find: SourceFinder | None = None
) -> CompiledDestination:
    """Compile a destination. Raises MissingMessage, and as `compile_outbound`."""
    events = frozenset(ResultEvent(event) for event in destination.events)
    compiled = CompiledDestination(
        name=destination.name,
        mappings=compile_outbound(settings, destination, find),
        sites=frozenset(destination.sites),
        events=events,
        replies=dict(destination.replies),
        fields=dict(destination.fields),
        time_zone=destination.time_zone,
        retry=RetryPolicy(destination.retry_first, destination.retry_max),
        breaker_after=destination.breaker_after,
        address=str(destination.address),
        documents=pacs_documents(destination) if destination.is_pacs else None,
    )
    for event in sorted(events):
        if compiled.mapping_for(event) is None:
            raise MissingMessage(destination.name, event)
    return compiled


def make_sender(
    settings: Settings,
    destination: DestinationSettings,
    reactor: Any,
    further_reply: FurtherReplyHandler = no_further_replies,
    commitments: Commitments | None = None,
) -> MessageSender:
    """
    Return the sender of a destination.

    `further_reply` gets the replies over MLLP that are not about the message in flight.
    `commitments` stores the requests for storage commitment of a PACS. Raises
    TLSConfigurationError, TransportError, RefusedPath.
    """
    require_permitted(settings, destination)
    match destination.address:
        case DicomAddress() as address:
            wants_commitment = destination.dicom is not None and destination.dicom.commitment
            return DicomSender(
                dicom_receiver(settings, destination, address),
                commitments if wants_commitment else None,
            )
        case DicomWebAddress() as address:
            return StowSender(_http_receiver(settings, destination, f"{address.url}/studies"))
        case FolderAddress():
            return _folder(settings, destination)
        case WebAddress() as address:
            return HttpSender(
                _http_receiver(settings, destination, str(address)), matches=acknowledges
            )
        case address:
            return _mllp(settings, destination, address, reactor, further_reply)


def _mllp(
    settings: Settings,
    destination: DestinationSettings,
    address: Address,
    reactor: Any,
    further_reply: FurtherReplyHandler,
) -> MLLPClient:
    random = SystemRandom()
    policy = RetryPolicy(destination.retry_first, destination.retry_max)
    plain: Any = HostnameEndpoint(reactor, address.host, address.port)
    options = destination_tls_options(settings, destination)
    return MLLPClient(
        plain if options is None else wrapClientTLS(options, plain),
        clock=reactor,
        reply_timeout=destination.ack_timeout,
        connect_timeout=destination.connect_timeout,
        reply_matches=require_acknowledgment,
        further_reply=further_reply,
        backoff=lambda attempt: policy.delay(attempt, random),
    )


def _folder(settings: Settings, destination: DestinationSettings) -> FolderSender:
    return FolderSender(
        folder_at(settings, destination),
        clock=lambda: datetime.now(UTC),
        answer_within=destination.ack_timeout if destination.answer_files else None,
        matches=acknowledges,
    )


def dicom_receiver(
    settings: Settings, destination: DestinationSettings, address: DicomAddress
) -> DicomReceiver:
    """Return how to connect to a PACS. Raises TLSConfigurationError."""
    chosen = destination.dicom or DestinationDicom()
    return DicomReceiver(
        address.host,
        address.port,
        address.called_title,
        chosen.calling_ae_title,
        destination.connect_timeout,
        destination.ack_timeout,
        _tls_context(settings, destination),
        destination.tls.server_name or "" if destination.tls else "",
    )


def _http_receiver(settings: Settings, destination: DestinationSettings, url: str) -> HttpReceiver:
    authorization = read_authorization(
        f"destination {destination.name}", authorization_path(settings, destination)
    )
    return HttpReceiver(
        url,
        destination.connect_timeout,
        destination.ack_timeout,
        _tls_context(settings, destination),
        destination.tls.server_name or "" if destination.tls else "",
        authorization,
    )


def _tls_context(
    settings: Settings, destination: DestinationSettings
) -> Callable[[], ssl.SSLContext | None]:
    """Return a function that returns the TLS context for the next connection."""
    context = ReloadingOptions(
        partial(checked_tls_context, settings, destination),
        tls_files_of(settings, destination),
        log_reload_failure,
    )
    return lambda: context.options
