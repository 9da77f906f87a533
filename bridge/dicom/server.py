"""
The DICOM port: who may associate, with which services, within which limits.

A service brings its presentation contexts and the functions for its requests; the server decides
whether the peer may use it. Each association has two threads of pynetdicom, so `max_associations`
limits memory and processor. Connections that will be refused have a few places of their own, so
that they cannot occupy those of the peers.
"""

import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from socketserver import BaseServer
from typing import Any, Final, Protocol

import pydicom.config
import structlog
from pynetdicom import AE, _config, build_context, evt
from pynetdicom.association import Association
from pynetdicom.dimse_primitives import C_CANCEL
from pynetdicom.events import Event
from pynetdicom.fsm import InvalidEventError
from pynetdicom.presentation import PresentationContext
from pynetdicom.sop_class import (  # type: ignore[attr-defined]
    ModalityWorklistInformationFind,
    Verification,
)
from pynetdicom.transport import RequestHandler, ThreadedAssociationServer
from typing_extensions import override

from bridge.dicom.activity import OTHER
from bridge.dicom.connections import (
    CUT,
    MemoryBudget,
    PduLimits,
    PduStream,
    TlsConnection,
    plain_connection,
    set_limits,
)
from bridge.dicom.encoding import SYNTAXES
from bridge.dicom.refusals import Refused
from bridge.dicom.statuses import (
    MISTYPED_ARGUMENT,
    NO_SUCH_CLASS,
    NO_SUCH_SOP_CLASS,
    NOT_AUTHORIZED,
    OUT_OF_RESOURCES,
    PENDING,
    PENDING_UNSUPPORTED_KEYS,
    RESOURCE_LIMIT,
    SUCCESS,
    UNRECOGNIZED_OPERATION,
)
from bridge.metrics import Metrics
from bridge.network_source import parse_address, source_of
from bridge.redaction import describe
from config.dicom import DicomPeer, DicomSettings
from mllp.tls import HandshakeFailure, ReloadingOptions, describe_handshake
from parsers.dicom_file import IMPLEMENTATION_CLASS, IMPLEMENTATION_VERSION

VERIFICATION: Final = (build_context(Verification, [*SYNTAXES]),)
"""What each peer may use."""
_REFUSALS: Final = 16
"""Connections that are refused at a time, with the reason; more are closed at once."""
_POLL_SECONDS: Final = 0.2
_END_SECONDS: Final = 2.0
"""How long a stop waits for the threads of associations."""

_PERMANENT, _TRANSIENT = 1, 2
_USER, _PRESENTATION = 1, 3
_REJECTIONS: Final = {
    "called title": (_PERMANENT, _USER, 7),
    "calling title": (_PERMANENT, _USER, 3),
    "address": (_PERMANENT, _USER, 3),
    "limit": (_TRANSIENT, _PRESENTATION, 2),
    "limit of the address": (_TRANSIENT, _PRESENTATION, 2),
}
"""Result, source and reason of A-ASSOCIATE-RJ (PS3.8 table 9-21)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The application at the other end of an association."""

    title: str
    address: str
    settings: DicomPeer


class DimseService(Protocol):
    """A service: its word in `may`, its presentation contexts, and its functions by event."""

    @property
    def name(self) -> str: ...

    @property
    def contexts(self) -> Sequence[PresentationContext]: ...

    @property
    def handle(self) -> Mapping[Any, Callable[[Event, Peer], Any]]: ...


class DicomServer:
    """
    The port of the settings.

    `on_refusal` gets reason, address and AE title of refused connections, and whether it is that of
    a peer; `on_association` AE title and address of accepted ones. The title is empty if none was
    read.
    """

    def __init__(
        self,
        settings: DicomSettings,
        services: Sequence[DimseService],
        metrics: Metrics,
        tls: ReloadingOptions | None,
        on_refusal: Callable[[str, str, str, bool], object],
        on_handshake: Callable[[str, HandshakeFailure], object],
        on_association: Callable[[str, str], object],
    ) -> None:
        """`tls` makes the `ssl.SSLContext` of a connection. The callbacks run on any thread."""
        self.settings, self.metrics, self.tls = settings, metrics, tls
        self.on_handshake = on_handshake
        self._on_refusal, self._on_association = on_refusal, on_association
        self._services = services
        self._operations: Mapping[str, Collection[str]] = {
            str(context.abstract_syntax): {_request_name(event) for event in service.handle}
            for service in services
            for context in service.contexts
        }
        self._peers = _enabled(settings.peer)
        self._memory = MemoryBudget(settings.object_memory)
        self._known: dict[Association, Peer] = {}
        self._sources: dict[Association, tuple[str, bool]] = {}
        self._entering = 0
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> int:
        """Open the port; return its number. Raises OSError."""
        _quiet()
        settings = self.settings
        if settings.bind is None:
            raise ValueError("dicom.bind is not set")
        entity = AE(settings.ae_title)
        entity.implementation_class_uid = IMPLEMENTATION_CLASS
        entity.implementation_version_name = IMPLEMENTATION_VERSION
        entity.maximum_pdu_size = settings.max_pdu
        entity.maximum_associations = settings.max_associations + _REFUSALS + 1
        entity.acse_timeout = settings.request_timeout
        entity.network_timeout = settings.idle_timeout
        entity.dimse_timeout = settings.message_timeout
        server = _Server(self, entity, _address(settings.bind.host, settings.bind.port))
        for event, handler in self._handlers():
            server.bind(event, handler)
        self._server = server
        self.metrics.dicom_associations.set_function(lambda: len(self._live()))
        self._thread = threading.Thread(
            target=server.serve_forever, args=(_POLL_SECONDS,), name="DICOM port"
        )
        self._thread.start()
        return int(server.server_address[1])

    def stop(self) -> None:
        """Close the port, and end all associations. Blocking."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        ending = self._live()
        for association in ending:
            association.abort()
        end = time.monotonic() + _END_SECONDS
        for association in ending:
            association.join(max(0.0, end - time.monotonic()))
            _close_connection(association)

    def use_peers(self, peers: Sequence[DicomPeer]) -> None:
        """
        Admit these peers from now on.

        Associations in progress get the new settings with their next request. Those of a peer that
        is removed or disabled, or that may not use their address any more, are aborted.
        """
        found, ending = _enabled(peers), []
        with self._lock:
            self._peers = found
            for association, peer in self._known.items():
                settings = found.get(peer.title)
                if settings is not None and settings.permits(parse_address(peer.address)):
                    self._known[association] = replace(peer, settings=settings)
                else:
                    ending.append(association)
        for association in ending:
            association.abort(block=False)

    def admit(self, address: str) -> bool:
        """True if a new connection may be read; it may still be refused, with a reason."""
        self._live()
        with self._lock:
            refused = sum(not counts for _, counts in self._sources.values()) + self._entering
            if refused < _REFUSALS or self._fits(address) is None:
                self._entering += 1
                return True
        self._count_refusal("too many connections", address)
        return False

    def entered(self) -> None:
        """Note that a connection has become an association, or has ended before."""
        with self._lock:
            self._entering -= 1

    def count_limit(self, address: str, reason: str) -> None:
        self._count_refusal(reason, address)

    def _live(self) -> list[Association]:
        """Forget associations whose threads have ended; return the others."""
        with self._lock:
            for association in [*self._sources]:
                has_started = association.ident is not None
                if has_started and not association.is_alive() and not association.dul.is_alive():
                    del self._sources[association]
                    self._known.pop(association, None)
                    _close_connection(association)
            return [*self._sources]

    def _fits(self, address: str) -> str | None:
        """Return the limit that a further association from an address exceeds."""
        parsed = parse_address(address)
        if not any(peer.permits(parsed) for peer in self._peers.values()):
            return "address"
        counts = Counter(source for source, counts in self._sources.values() if counts)
        if counts.total() >= self.settings.max_associations:
            return "limit"
        if counts[source_of(address)] >= self.settings.max_associations_per_source:
            return "limit of the address"
        return None

    def _handlers(self) -> list[tuple[Any, Callable[[Event], Any]]]:
        found: list[tuple[Any, Callable[[Event], Any]]] = [
            (evt.EVT_CONN_OPEN, self._opened),
            (evt.EVT_REQUESTED, self._requested),
            (evt.EVT_DIMSE_RECV, self._received),
            (evt.EVT_DIMSE_SENT, _note_answer),
            (evt.EVT_C_ECHO, self._echo),
        ]
        for service in self._services:
            found += [
                (event, self._guarded(service, function))
                for event, function in service.handle.items()
            ]
        return found

    def _guarded(
        self, service: DimseService, function: Callable[[Event, Peer], Any]
    ) -> Callable[[Event], Any]:
        def handle(event: Event) -> Any:
            peer = self._known.get(event.assoc)
            if peer is None or service.name not in peer.settings.may:
                if event.event is evt.EVT_C_STORE:
                    return NOT_AUTHORIZED
                refused = (NOT_AUTHORIZED, None)
                return iter([refused]) if event.event is evt.EVT_C_FIND else refused
            if _is_cut(event.request):
                return self._refuse_size(event, peer)
            return function(event, peer)

        return handle

    def _refuse_size(self, event: Event, peer: Peer) -> Any:
        """Return the answer to a request whose data set was cut at a limit."""
        is_composite = event.event in (evt.EVT_C_STORE, evt.EVT_C_FIND)
        status = OUT_OF_RESOURCES if is_composite else RESOURCE_LIMIT
        answer = Refused(status, "the data set is too large, here or now").data_set()
        name = _request_name(event.event)
        self.metrics.dicom_requests.labels(peer.title, name, f"{status:04X}").inc()
        if event.event is evt.EVT_C_STORE:
            return answer
        return iter([(answer, None)]) if event.event is evt.EVT_C_FIND else (answer, None)

    def _received(self, event: Event) -> None:
        """
        Refuse a request that its presentation context does not support (PS3.7 annex C).

        pynetdicom would abort the association, or not answer.
        """
        message, association = event.message, event.assoc
        request: Any = message.message_to_primitive()
        number = message.context_id
        contexts = {one.context_id: one for one in association.accepted_contexts}
        context = contexts.get(number)
        is_request = request.MessageID is not None and request.MessageIDBeingRespondedTo is None
        if number is None or context is None or not is_request or isinstance(request, C_CANCEL):
            return
        status = self._unsupported(request, str(context.abstract_syntax))
        if status is None:
            return
        answer = type(request)()
        answer.MessageIDBeingRespondedTo = request.MessageID
        for name in ("SOPClassUID", "SOPInstanceUID"):
            given = getattr(request, f"Affected{name}", None)
            given = given or getattr(request, f"Requested{name}", None)
            if given:
                setattr(answer, f"Affected{name}", given)
        answer.Status = status
        association.dimse.send_msg(answer, number)
        del message.command_set.MessageID  # pynetdicom does nothing with an incomplete request
        peer = self._known.get(association)
        if peer is not None:
            reason = f"{request.msg_type} {status:04X}"
            self.metrics.dicom_requests.labels(peer.title, *reason.split()).inc()
            self._on_refusal(reason, peer.address, peer.title, True)

    def _unsupported(self, request: Any, syntax: str) -> int | None:
        """Return the status of a request that a context does not support; None for others."""
        name = request.msg_type
        if name != _ECHO:
            if name not in self._operations.get(syntax, ()):
                return UNRECOGNIZED_OPERATION
            own = getattr(request, "AffectedSOPClassUID", None)
            own = own or getattr(request, "RequestedSOPClassUID", None)
            if own and own != syntax:
                return NO_SUCH_SOP_CLASS if name.startswith("C-") else NO_SUCH_CLASS
        return None if request.is_valid_request else MISTYPED_ARGUMENT

    def _opened(self, event: Event) -> None:
        """Give the connection a place: one of the associations, or one of the refused."""
        address = event.assoc.requestor.address
        with self._lock:
            self._sources[event.assoc] = source_of(address), self._fits(address) is None

    def _requested(self, event: Event) -> None:
        """Accept the services that a peer may use, or reject the association."""
        association = event.assoc
        request: Any = association.requestor.primitive
        address = association.requestor.address
        title = str(request.calling_ae_title).strip()
        reason = self._refusal(str(request.called_ae_title).strip(), title, address, association)
        if reason:
            self._count_refusal(reason, address, title)
            association.acse.send_reject(*_REJECTIONS[reason])
            association.kill()
            return
        may = self._known[association].settings.may
        services = [service for service in self._services if service.name in may]
        offered = [context for service in services for context in service.contexts]
        association.acceptor.supported_contexts = [*VERIFICATION, *offered]
        self._allow_data_sets(association, request)
        self.metrics.dicom_accepted.labels(title).inc()
        self._on_association(title, address)

    def _refusal(self, called: str, calling: str, address: str, association: Association) -> str:
        """Return the reason to reject an association; '' if it is that of a peer from now on."""
        if called != self.settings.ae_title:
            return "called title"
        with self._lock:
            settings = self._peers.get(calling)
            if settings is None:
                return "calling title"
            if not settings.permits(parse_address(address)):
                return "address"
            if not self._sources.get(association, ("", False))[1]:
                if reason := self._fits(address):
                    return reason
                self._sources[association] = source_of(address), True
            self._known[association] = Peer(calling, address, settings)
            return ""

    def _allow_data_sets(self, association: Association, request: Any) -> None:
        """
        Set the limits of data sets by presentation context.

        It must be done before the acceptance is sent: a request may follow it at once.
        """
        limits: dict[str, int] = {
            Verification: 0,  # has no data set
            ModalityWorklistInformationFind: self.settings.max_identifier,
        }
        stream = _stream_of(association)
        if stream is not None:
            for context in request.presentation_context_definition_list:
                limit = limits.get(context.abstract_syntax or "", self.settings.max_object)
                stream.max_data_sets[context.context_id] = limit
            stream.is_associated = True

    def _echo(self, event: Event) -> int:
        peer = self._known.get(event.assoc)
        if peer is not None:
            self.metrics.dicom_requests.labels(peer.title, _ECHO, f"{SUCCESS:04X}").inc()
        return SUCCESS

    def _count_refusal(self, reason: str, address: str, title: str = "") -> None:
        peer = title if title in self._peers else OTHER  # anybody can send any title
        self.metrics.dicom_refused.labels(peer, reason).inc()
        self._on_refusal(reason, address, title, peer != OTHER)

    def limits(self) -> PduLimits:
        """Return the limits of a new connection."""
        settings = self.settings
        return PduLimits(
            settings.max_pdu + 64,
            settings.request_timeout,
            settings.message_timeout,
            self._memory,
            settings.max_identifier,
        )


_ECHO: Final = "C-ECHO"
"""Answered in each context."""


def _request_name(event: Any) -> str:
    """Return the request of an event of pynetdicom, as N-CREATE."""
    return str(event.name).removeprefix("EVT_").replace("_", "-")


_DATA_SETS: Final = (
    "DataSet", "Identifier", "AttributeList", "ModificationList", "EventInformation",
)  # fmt: skip


def _is_cut(request: Any) -> bool:
    """True if the data set of a request was cut at a limit."""
    streams = (getattr(request, name, None) for name in _DATA_SETS)
    return any(stream is not None and stream.getvalue().endswith(CUT) for stream in streams)


def _enabled(peers: Sequence[DicomPeer]) -> dict[str, DicomPeer]:
    return {peer.ae_title: peer for peer in peers if peer.enabled}


def _stream_of(association: Association) -> PduStream | None:
    """Return what counts the bytes of an association; None if its connection has ended."""
    connection = association.dul.socket
    found: PduStream | None = getattr(connection and connection.socket, "stream", None)
    return found


def _note_answer(event: Event) -> None:
    """Let the peer send a further request after the last response to one."""
    stream = _stream_of(event.assoc)
    if stream is not None and event.message.command_set.get("Status") not in _PENDING:
        stream.note_answer()


_PENDING: Final = frozenset({PENDING, PENDING_UNSUPPORTED_KEYS})


def _close_connection(association: Association) -> None:
    """Close the socket of an association that has ended: pynetdicom keeps that of a refused one."""
    connection = association.dul.socket
    if connection is not None and connection.socket is not None:
        connection.socket.close()


class _Server(ThreadedAssociationServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, owner: DicomServer, entity: AE, address: Any) -> None:
        self.owner = owner
        super().__init__(
            entity,
            address,
            entity.ae_title,
            [*VERIFICATION],
            request_handler=_Handler,
        )

    @override
    def get_request(self) -> Any:
        accepted, address = self.socket.accept()  # type: ignore[union-attr]  # it is open
        return plain_connection(accepted), address

    @override
    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self.owner.admit(str(client_address[0]))

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread
            self.owner.entered()
            raise

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        structlog.get_logger("dicom").error("connection failed", exc_info=True)

    @override
    def shutdown(self) -> None:
        """Stop the loop, and close the port; pynetdicom's own method needs its own start."""
        BaseServer.shutdown(self)
        self.server_close()


class _Handler(RequestHandler):
    @override
    def handle(self) -> None:
        owner = self.server.owner  # type: ignore[attr-defined]  # of _Server
        address = str(self.client_address[0])
        try:
            if owner.tls is not None:
                self.request = _secure(self.request, owner, owner.tls.options, address)
            set_limits(
                self.request, owner.limits(), lambda reason: owner.count_limit(address, reason)
            )
            super().handle()
        except _NoHandshake:
            self.server.shutdown_request(self.request)
        finally:
            owner.entered()


class _NoHandshake(Exception):
    """The TLS handshake of a connection failed."""


def _secure(
    accepted: socket.socket, owner: DicomServer, context: ssl.SSLContext, address: str
) -> ssl.SSLSocket:
    seconds = owner.settings.request_timeout
    accepted.settimeout(seconds)
    context.sslsocket_class = TlsConnection
    try:
        return context.wrap_socket(accepted, server_side=True)
    except TimeoutError:
        failure = HandshakeFailure(
            f"the peer did not finish the TLS handshake within {seconds:g} s"
        )
    except (OSError, ValueError) as error:
        failure = describe_handshake(error) or HandshakeFailure(
            "the peer closed the connection before the TLS handshake ended", is_trouble=False
        )
    owner.on_handshake(address, failure)
    raise _NoHandshake


def _address(host: str, port: int) -> Any:
    """Return the address to bind to, with the members that IPv6 needs."""
    return (host, port, 0, 0) if ":" in host else (host, port)


def note_failed_thread(failed: threading.ExceptHookArgs) -> None:
    """
    Log that a thread ended by an error, without values.

    pynetdicom's threads end so if a peer leaves while its request is being accepted; this is no
    failure.
    """
    error = failed.exc_value
    if error is not None and not isinstance(error, InvalidEventError):
        structlog.get_logger("dicom").error("thread failed", error=describe(error))


def _quiet() -> None:
    """Keep pynetdicom from logging: its lines quote data sets. `_config` is its documented seam."""
    _config.LOG_HANDLER_LEVEL = "none"
    _config.LOG_REQUEST_IDENTIFIERS = _config.LOG_RESPONSE_IDENTIFIERS = False
    pydicom.config.settings.writing_validation_mode = pydicom.config.IGNORE
    logging.getLogger("pynetdicom").setLevel(logging.CRITICAL + 1)
