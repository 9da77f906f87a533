"""
`bridge check --live`: check whether every peer responds and trusts us. No message is sent.

The check connects, performs the TLS handshake, and writes and removes a file in folders. HTTP
destinations get an OPTIONS request (RFC 9110, 9.3.7), PACSs a C-ECHO or a search: these change
nothing there.

The peers are checked concurrently with a common time limit: a slow peer or resolver delays neither
the other checks nor the end of the run.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from bridge.admin.checks.checks import (
    CheckFinding,
    CheckSeverity,
    active_or_file_settings,
    with_positions,
)
from bridge.contract import TOKEN_HEADER
from bridge.delivery.courier import describe_connection
from bridge.delivery.destination_settings import dicom_receiver
from bridge.delivery.dicom_sender import describe_status, echo
from bridge.transports import TransportError
from bridge.transports.connection_paths import (
    RefusedPath,
    authorization_path,
    folder_at,
    require_permitted,
)
from bridge.transports.http_protocol import read_authorization
from bridge.transports.tls import tls_context
from config import Settings, SettingsError, load
from config.listeners import ListenerSettings
from config.quantities import DicomAddress, DicomWebAddress, FolderAddress, WebAddress
from config.secret_files import read_token
from config.sections import DestinationSettings
from mllp.errors import NotConnected, ReplyLost

PATIENCE: Final = 20.0
"""Seconds for all checks together."""

_LISTEN_SECONDS: Final = 0.3
"""How long to wait for a peer that accepts a connection and then closes it."""

_CERTIFICATE_FAILURES: Final = {
    3: "tls.crl has no revocation list of its authority: add it",
    9: "its certificate is not valid yet: compare the clocks",
    10: "its certificate has expired: it must be renewed there",
    12: "tls.crl has expired: fetch the newest list",
    23: "its certificate was revoked: it must be replaced there",
    62: "its certificate is not for {host}: set tls.server_name to a name in it",
    64: "its certificate is not for {host}: set tls.server_name to a name in it",
    **dict.fromkeys((18, 19, 20, 21), "its authority is not trusted: add it to tls.ca"),
}
"""Explanations by the codes of OpenSSL's X509_verify_cert_error_string."""

_HANDSHAKE_FAILURES: Final = {
    "WRONG_VERSION_NUMBER": "it does not use TLS on this port: remove tls, or set its TLS port",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection in the TLS handshake: check the port",
    "UNSUPPORTED_PROTOCOL": "it does not support TLS 1.2 or newer",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not support TLS 1.2 or newer",
    **dict.fromkeys(
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        "it requires a client certificate: set tls.certificate and tls.key",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE", "TLSV1_ALERT_ACCESS_DENIED"),
        "it refuses tls.certificate: its issuer must be trusted there",
    ),
}


class PeerCheck(NamedTuple):
    place: str
    run: Callable[[], Iterable[CheckFinding]]


def run_checks(checks: Sequence[PeerCheck], patience: float = PATIENCE) -> list[CheckFinding]:
    """Run checks concurrently; return findings in order. A late check gives an error."""
    results: list[list[CheckFinding] | Exception | None] = [None] * len(checks)

    def run(at: int) -> None:
        try:
            results[at] = list(checks[at].run())
        except Exception as error:  # noqa: BLE001  # raised again below
            results[at] = error

    threads = [Thread(target=run, args=(at,), daemon=True) for at in range(len(checks))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    found: list[CheckFinding] = []
    for check, thread, at in zip(checks, threads, range(len(threads)), strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        result = results[at]
        if isinstance(result, Exception):
            raise result
        late = CheckFinding(CheckSeverity.ERROR, check.place, f"no answer within {patience:g} s")
        found += [late] if result is None else result
    return found


def connect(address: tuple[str, int], timeout: float) -> socket.socket:
    """Connect to an address within `timeout` seconds. Raises OSError."""
    return socket.create_connection(address, timeout)


class FirstAction(Enum):
    """The first action of a peer while we send nothing."""

    WAITS = "waits"
    SENDS = "sends"
    CLOSES = "closes"


def first_action(connection: socket.socket) -> FirstAction:
    """Wait a moment; return what the peer did. Raises OSError, also for TLS alerts."""
    before = connection.gettimeout()
    connection.settimeout(_LISTEN_SECONDS)
    try:
        return FirstAction.SENDS if connection.recv(1) else FirstAction.CLOSES
    except TimeoutError:
        return FirstAction.WAITS
    finally:
        connection.settimeout(before)


def explain_failure(error: BaseException, host: str, *, is_set: bool = True) -> str:
    """
    Return the reason of a failed connection, and what to do about it.

    `is_set`: the settings have TLS options for this peer, so the text may name them.
    """
    if isinstance(error, ssl.SSLError):
        text = _explain_tls(error).format(host=host)
        return text if is_set else text.partition(": ")[0]
    if isinstance(error, socket.gaierror):
        return f"no response from {host}: unknown host ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"no response from {host}: timeout"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"no response from {host}: {reason}"


def _explain_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATE_FAILURES.get(
            error.verify_code, f"its certificate: {error.verify_message}"
        )
    reason = error.reason or "no handshake"
    return _HANDSHAKE_FAILURES.get(reason, f"TLS failed ({reason.lower().replace('_', ' ')})")


def root_cause(error: BaseException) -> BaseException:
    """Return the error of the operating system or of OpenSSL behind a library's error."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError):
            return at
        at = at.__cause__ or at.__context__
    return error


_TIMEOUT: Final = 5.0
_UNAUTHORIZED: Final = frozenset({401, 403, 407})
_GONE: Final = frozenset({404, 410})
_OPTIONS_UNSUPPORTED: Final = frozenset({501, 505})
"""Server errors that mean that OPTIONS is not supported."""


def _no_answer(host: str) -> str:
    return (
        f"no answer from {host} within {_TIMEOUT:g} s: it is down or slow, or a firewall blocks it"
    )


def _http_destination(
    settings: Settings,
    destination: DestinationSettings,
    address: WebAddress,
    tls: ssl.SSLContext | None,
) -> Iterator[CheckFinding]:
    """Send a request that changes nothing; `tls` is the context of the handshake."""
    place, host = f"destination {destination.name}", f"{address.host}:{address.port}"
    name = (destination.tls.server_name if destination.tls else None) or address.host
    method, url = _harmless_request(address)
    try:
        status = _status(method, url, tls, name, _headers(settings, destination))
    except TransportError:
        return  # `check_home` reports the reason
    except httpx.TimeoutException:
        message = _no_answer(host)
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    except httpx.RemoteProtocolError:
        message = f"{host} does not respond with HTTP: check the port"
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    except httpx.HTTPError as error:
        yield CheckFinding(CheckSeverity.ERROR, place, explain_failure(root_cause(error), host))
    else:
        yield from _status_findings(place, host, method, status)


def _dicom_destination(
    settings: Settings, destination: DestinationSettings, address: DicomAddress
) -> Iterator[CheckFinding]:
    """Send a C-ECHO to a PACS."""
    place, where = f"destination {destination.name}", f"{address.host}:{address.port}"
    receiver = dicom_receiver(settings, destination, address)
    try:
        status = echo(replace(receiver, connect_timeout=_TIMEOUT, reply_timeout=_TIMEOUT))
    except NotConnected as error:
        message = f"{where}: {describe_connection(error)[1]}: check both AE titles"
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    except ReplyLost:
        message = f"{where} does not reply to a C-ECHO: see the log of the PACS"
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    else:
        if status:
            message = f"{where} refuses a C-ECHO: {status:04X} {describe_status(status)}"
            yield CheckFinding(CheckSeverity.ERROR, place, message)


def _headers(settings: Settings, destination: DestinationSettings) -> dict[str, str]:
    authorization = read_authorization(
        f"destination {destination.name}", authorization_path(settings, destination)
    )
    return {} if authorization is None else {"authorization": authorization.decode("latin-1")}


def _harmless_request(address: WebAddress) -> tuple[str, str]:
    """Return method and URL of a request that changes nothing; of DICOMweb a search (QIDO-RS)."""
    if isinstance(address, DicomWebAddress):
        return "GET", f"{address.url}/studies?StudyInstanceUID=2.25.0&limit=1"
    return "OPTIONS", str(address)


def _status(
    method: str, url: str, tls: ssl.SSLContext | None, name: str, headers: dict[str, str]
) -> int:
    with (
        httpx.Client(verify=tls or True, timeout=_TIMEOUT, trust_env=False) as client,
        client.stream(method, url, headers=headers, extensions={"sni_hostname": name}) as response,
    ):
        return response.status_code  # the body is not needed


def _status_findings(place: str, host: str, method: str, status: int) -> Iterator[CheckFinding]:
    article = "an" if method == "OPTIONS" else "a"
    answers = f"{host} answers {status} to {article} {method} request"
    if status in _UNAUTHORIZED:
        message = f"{host} refuses the credentials ({status}): set or correct authorization_file"
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    elif status in _GONE:
        yield CheckFinding(CheckSeverity.WARNING, place, f"{answers}: check the path")
    elif httpx.codes.is_redirect(status):
        message = (
            f"{host} redirects ({status}), and results do not follow redirects: set the new address"
        )
        yield CheckFinding(CheckSeverity.ERROR, place, message)
    elif httpx.codes.is_server_error(status) and status not in _OPTIONS_UNSUPPORTED:
        yield CheckFinding(CheckSeverity.WARNING, place, f"{answers}: see the log of that server")


_REFUSED: Final = frozenset({401, 403})
_SERVICE_STATUSES: Final = frozenset({200, 400, 413, 415, 422, 429})
"""Statuses of a report service for a request that names no report."""

_SERVER_ERROR: Final = 500
_NOT_MLLP: Final = {
    FirstAction.CLOSES: "{where} closes each connection: check its list of senders, and whether it "
    "allows one connection only",
    FirstAction.SENDS: "{where} sends data first, unlike an MLLP receiver: check the port",
}
_SERVICE: Final = "engine.base_url"


def check_live(home: Path) -> list[CheckFinding]:
    """Check all peers concurrently. Unreadable settings give no findings."""
    try:
        settings = active_or_file_settings(load(home))
    except SettingsError:
        return []  # `check_home` reports the reason
    checks = [
        *_services(settings),
        *(
            PeerCheck(place, partial(_folder, settings, place, listener))
            for listener in settings.listener
            if listener.enabled and isinstance(listener.bind, FolderAddress)
            for place in [f"listener {listener.name}"]
        ),
        *(
            PeerCheck(
                f"destination {destination.name}", partial(_destination, settings, destination)
            )
            for destination in settings.destination
            if destination.enabled
        ),
    ]
    return with_positions(home, run_checks(checks))


def _services(settings: Settings) -> Iterator[PeerCheck]:
    """Return a check of the external report service for each of its tokens."""
    engine = settings.engine
    if engine.is_internal:
        return
    for file in dict.fromkeys(engine.tokens.values()) or [engine.token_file]:
        try:
            token = read_token(settings.path(file))
        except SettingsError:
            continue  # `check_home` reports the reason
        yield PeerCheck(_SERVICE, partial(_service, engine.base_url, token, str(file)))


def _service(base_url: str, token: str, file: str) -> Iterator[CheckFinding]:
    url = f"{base_url}/api/report/status"
    host = urlsplit(base_url).netloc
    try:
        with httpx.stream(
            "POST", url, json={}, headers={TOKEN_HEADER: token}, timeout=_TIMEOUT
        ) as response:
            status = response.status_code  # the body is not needed
            is_html = "html" in response.headers.get("content-type", "")
    except httpx.TimeoutException:
        message = _no_answer(host)
        yield CheckFinding(CheckSeverity.ERROR, _SERVICE, message)
        return
    except httpx.HTTPError as error:
        yield CheckFinding(
            CheckSeverity.ERROR, _SERVICE, explain_failure(root_cause(error), host, is_set=False)
        )
        return
    if status in _REFUSED:
        message = f"the token in {file} is refused ({status}): create a new one there"
        yield CheckFinding(CheckSeverity.ERROR, _SERVICE, message)
    elif is_html or status not in _SERVICE_STATUSES:
        advice = (
            "see the log of that server"
            if status >= _SERVER_ERROR
            else "check that it is the address of a report service"
        )
        received = f"a page ({status})" if is_html and status < _SERVER_ERROR else f"{status}"
        message = f"{host} answers /api/report/status with {received}: {advice}"
        yield CheckFinding(CheckSeverity.ERROR, _SERVICE, message)


def _folder(
    settings: Settings, place: str, section: ListenerSettings | DestinationSettings
) -> Iterator[CheckFinding]:
    try:
        folder = folder_at(settings, section)
    except RefusedPath:
        return  # `check_home` reports the reason
    try:
        folder.probe()
    except OSError as error:
        message = f"{folder.path} cannot be written: {error.strerror}"
        yield CheckFinding(CheckSeverity.ERROR, place, message)


def _destination(settings: Settings, destination: DestinationSettings) -> Iterator[CheckFinding]:
    place, address = f"destination {destination.name}", destination.address
    if isinstance(address, FolderAddress):
        yield from _folder(settings, place, destination)
        return
    try:
        require_permitted(settings, destination)
        context = tls_context(settings, destination)
    except (RefusedPath, OSError, ValueError):
        return  # `check_home` reports the reason
    name = (destination.tls.server_name if destination.tls else None) or address.host
    where, is_connected = f"{address.host}:{address.port}", False
    try:
        with connect((address.host, address.port), _TIMEOUT) as plain:
            is_connected = True
            if context is None:
                action = first_action(plain)
            else:
                with context.wrap_socket(plain, server_hostname=name) as secured:
                    yield from _certificate_expiry(settings, place, secured)
                    action = first_action(secured)
    except TimeoutError as error:
        silent = (
            f"{where} accepts the connection and does not answer the TLS handshake: check the port"
        )
        yield CheckFinding(
            CheckSeverity.ERROR, place, silent if is_connected else explain_failure(error, where)
        )
    except OSError as error:
        host = name if isinstance(error, ssl.SSLError) else where
        yield CheckFinding(CheckSeverity.ERROR, place, explain_failure(error, host))
    else:
        if isinstance(address, DicomAddress):
            yield from _dicom_destination(settings, destination, address)
        elif isinstance(address, WebAddress):
            yield from _http_destination(settings, destination, address, context)
        elif action in _NOT_MLLP:
            yield CheckFinding(CheckSeverity.WARNING, place, _NOT_MLLP[action].format(where=where))


def _certificate_expiry(
    settings: Settings, place: str, secured: ssl.SSLSocket
) -> Iterator[CheckFinding]:
    certificate = secured.getpeercert() or {}
    if "notAfter" not in certificate:
        return
    until = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    left = until - datetime.now(UTC).timestamp()
    if left < settings.alerts.certificate_before:
        yield CheckFinding(
            CheckSeverity.WARNING, place, f"its certificate expires in {left / 86400:.0f} d"
        )
