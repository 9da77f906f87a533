"""
Checks of listeners and destinations: each is built as at a start of the service, then discarded.

No port is opened and no connection is made.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from bridge import active_settings
from bridge.active_settings import SourceFinder, file_sources
from bridge.delivery import destination_settings
from bridge.delivery.destination_settings import destination_definition_names
from bridge.errors import BridgeError
from bridge.intake.process.scheduled_steps import compile_definition
from bridge.intake.receive.listener_policy import UnknownCharset, compile_inbound
from bridge.intake.validation.structure import make_validator
from bridge.metrics import Metrics
from bridge.store.records.mapping_versions import MappingVersion
from bridge.transports.connection_paths import (
    RefusedPath,
    authorization_path,
    peer_token_path,
    require_permitted,
)
from bridge.transports.http_protocol import read_authorization
from bridge.transports.tls import (
    destination_tls_options,
    listener_tls_context,
    listener_tls_options,
)
from config import Settings, SettingsError
from config.dicom import DicomPeer
from config.listeners import ListenerSettings
from config.quantities import FolderAddress
from config.secret_files import read_token
from config.sections import ChannelKind, ConnectionKind, DestinationSettings, PeerKind
from mappings.hl7.charset import is_codec
from mllp.errors import TLSConfigurationError

Part = Callable[[], object]
"""Builds and discards one part of a connection. Raises an error if the part cannot work."""


class MissingSite(BridgeError):
    """Neither a listener nor its definition yields a SiteID."""

    def __init__(self, listener: str, mapping: str) -> None:
        super().__init__(
            f"listener {listener}: no SiteID: set `site`, or set it in mapping {mapping}"
        )


class AddressInUse(BridgeError):
    """The port or folder of a listener is used by another listener or by HTTP."""

    def __init__(self, listener: str, address: str, owner: str) -> None:
        super().__init__(f"listener {listener}: {address} is used by {owner}")


class NeedsPostgreSQL(BridgeError):
    """Several nodes can share a port only if they share a database."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"listener {listener}: share_port needs PostgreSQL (database.url)")


class UnusableFiles(BridgeError):
    """Files that the settings name cannot be used."""

    def __init__(self, owner: str, problem: str) -> None:
        super().__init__(f"{owner}: {problem}")


def used_definitions(settings: Settings) -> list[str]:
    """Return the names of the definitions that listeners, destinations and the worklist use."""
    names = connection_definitions(settings)
    if settings.dicom.bind is not None:
        names.append(settings.dicom.worklist)
    return list(dict.fromkeys(names))


def connection_definitions(settings: Settings) -> list[str]:
    """Return the names of the definitions that listeners and destinations use."""
    names = [name for listener in settings.listener for name in listener.mappings]
    names += [
        name
        for destination in settings.destination
        for name in destination_definition_names(destination)
    ]
    return list(dict.fromkeys(names))


def verify_definition(settings: Settings, name: str, find: SourceFinder) -> None:
    """
    Compile a definition for each listener and destination that uses it.

    Raises MappingErrors, UnknownCharset, NotInbound, NotOutbound, NotRendered, MissingMessage and
    NotAWorklist.
    """
    for listener in settings.listener:
        if name in listener.mappings:
            compile_inbound(settings, listener, find)
    for destination in settings.destination:
        if name in destination_definition_names(destination):
            destination_settings.make_destination(settings, destination, find)
    if settings.dicom.bind is not None and name == settings.dicom.worklist:
        compile_definition(find, name)


def worklist_parts(settings: Settings) -> list[Part]:
    """Return the part that makes the steps of orders; none without a worklist."""
    if settings.dicom.bind is None:
        return []
    return [partial(compile_definition, file_sources(settings), settings.dicom.worklist)]


def verify_records(
    settings: Settings, records: Sequence[MappingVersion], find: SourceFinder
) -> None:
    """Check records of the console. Raises as `verify_definition`, and BridgeError."""
    for record in records:
        listener = active_settings.listener_of_record(record.name)
        if listener:
            compile_inbound(settings, _listener(settings, listener), find)
            continue
        connection = active_settings.connection_of_record(record.name)
        if connection is not None and active_settings.table_of(record) is not None:
            for part in connection_parts(settings, *connection, find):
                part()


def connection_parts(
    settings: Settings, kind: ConnectionKind, name: str, find: SourceFinder | None = None
) -> list[Part]:
    """Return the parts of a connection. Each raises BridgeError, also for unusable files."""
    if kind is PeerKind.DICOM:
        found = peer_parts(settings, next(one for one in settings.dicom.peer if one.name == name))
    elif kind is ChannelKind.LISTENER:
        listener = _listener(settings, name)
        found = listener_parts(settings, listener, find)
        found.append(partial(_require_free_address, settings, listener))
    else:
        destination = next(section for section in settings.destination if section.name == name)
        found = destination_parts(settings, destination, find)
    return [partial(_build, f"{kind} {name}", part) for part in found]


def listener_parts(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None = None
) -> list[Part]:
    """Return the parts of a listener; if it may not use a path, only that check."""
    if (refused := _refused(settings, listener)) is not None:
        return [refused]
    found: list[Part] = [
        partial(_require_charset, listener),
        partial(_require_site, settings, listener, find),
        partial(make_validator, settings, listener, Metrics()),
        partial(_require_authorization, settings, listener),
    ]
    if listener.tls is not None:
        found.append(partial(listener_tls_options, settings, listener.tls))
    return found


def destination_parts(
    settings: Settings, destination: DestinationSettings, find: SourceFinder | None = None
) -> list[Part]:
    """Return the parts of a destination; if it may not use a path or host, only that check."""
    if (refused := _refused(settings, destination)) is not None:
        return [refused]
    return [
        partial(destination_settings.make_destination, settings, destination, find),
        partial(destination_tls_options, settings, destination),
        partial(_require_authorization, settings, destination),
    ]


class UnusableToken(BridgeError):
    """The token of a DICOM peer cannot be used."""

    def __init__(self, peer: str, problem: str) -> None:
        super().__init__(f"DICOM peer {peer}: token_file: {problem}")


class SharedToken(BridgeError):
    """Two DICOM peers have the same token."""

    def __init__(self, peer: str, other: str) -> None:
        super().__init__(f"DICOM peer {peer}: token_file: {other} has the same token")


def peer_parts(settings: Settings, peer: DicomPeer) -> list[Part]:
    """Return the parts of a DICOM peer: its token."""
    if peer.token_file is None:
        return []
    return [partial(_token_of, settings, peer), partial(_require_own_token, settings, peer)]


def _require_own_token(settings: Settings, peer: DicomPeer) -> None:
    """Require that no other peer has the same token; those that cannot be read are skipped."""
    with suppress(UnusableToken, RefusedPath):
        own = _token_of(settings, peer)
        for other in settings.dicom.peer:
            if other.enabled and other.token_file is not None and other.name != peer.name:
                with suppress(UnusableToken, RefusedPath):
                    if _token_of(settings, other) == own:
                        raise SharedToken(peer.name, other.name)


def _token_of(settings: Settings, peer: DicomPeer) -> str:
    try:
        return read_token(peer_token_path(settings, peer))
    except SettingsError as error:
        raise UnusableToken(peer.name, str(error)) from None


class PortTaken(BridgeError):
    """The DICOM port is that of another part of the service."""

    def __init__(self, port: int, owner: str) -> None:
        super().__init__(f"dicom.bind: port {port} is used by {owner}")


def dicom_parts(settings: Settings) -> list[Part]:
    """Return the parts of the DICOM port; none if the role is off."""
    found: list[Part] = []
    for peer in settings.dicom.peer:
        if peer.token_file is not None:
            found.append(partial(read_token, settings.path(peer.token_file)))
            found.append(partial(_require_own_token, settings, peer))
    if settings.dicom.bind is None:
        return found
    found.append(partial(_require_free_port, settings, settings.dicom.bind.port))
    if settings.dicom.tls is not None:
        tls = partial(listener_tls_context, settings, settings.dicom.tls)
        found.append(partial(_build, "dicom.tls", tls))
    return found


def _require_free_port(settings: Settings, port: int) -> None:
    taken = {
        f"listener {listener.name}": listener.bind.port
        for listener in settings.listener
        if listener.enabled and not isinstance(listener.bind, FolderAddress)
    } | {"the web server (http.bind)": settings.http.bind.port}
    for owner, used in taken.items():
        if port and used == port:
            raise PortTaken(port, owner)


def _listener(settings: Settings, name: str) -> ListenerSettings:
    found = next((listener for listener in settings.listener if listener.name == name), None)
    if found is None:
        raise active_settings.NoSuchListener(name)
    return found


def _build(owner: str, part: Part) -> None:
    try:
        part()
    except TLSConfigurationError as error:
        raise UnusableFiles(owner, str(error)) from None


def _require_authorization(
    settings: Settings, section: ListenerSettings | DestinationSettings
) -> None:
    read_authorization(section.name, authorization_path(settings, section))


def _refused(settings: Settings, section: ListenerSettings | DestinationSettings) -> Part | None:
    """Return a part that fails if a connection may not use a path: no other part reads it then."""
    try:
        require_permitted(settings, section)
    except RefusedPath:
        return partial(require_permitted, settings, section)
    return None


def _require_site(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None
) -> None:
    for definition in compile_inbound(settings, listener, find):
        if not listener.site and definition.plan.tags["SiteID"].of_listener:
            raise MissingSite(listener.name, definition.name)


def _require_charset(listener: ListenerSettings) -> None:
    """
    Require a known charset.

    `compile_inbound` checks it too, but only if no definition has mistakes.
    """
    if not is_codec(listener.charset):
        raise UnknownCharset(listener.name)


def _require_free_address(settings: Settings, listener: ListenerSettings) -> None:
    if listener.share_port and settings.database_url().startswith("sqlite:"):
        raise NeedsPostgreSQL(listener.name)
    for owner, address in _addresses(settings, listener):
        if listener.enabled and address == _address_key(listener):
            raise AddressInUse(listener.name, str(listener.bind), owner)


def _addresses(settings: Settings, excluded: ListenerSettings) -> Iterator[tuple[str, str]]:
    for listener in settings.listener:
        if listener.enabled and listener.name != excluded.name:
            yield f"listener {listener.name}", _address_key(listener)
    if settings.http.bind.port:
        yield "the web server (http.bind)", f"{settings.http.bind.port}"
    if settings.dicom.bind is not None and settings.dicom.bind.port:
        yield "the DICOM port (dicom.bind)", f"{settings.dicom.bind.port}"


def _address_key(listener: ListenerSettings) -> str:
    """Return the folder or port that two listeners cannot both use. Port 0 never conflicts."""
    bind = listener.bind
    if isinstance(bind, FolderAddress):
        return str(bind)
    return f"{bind.port}" if bind.port else f"any for {listener.name}"
