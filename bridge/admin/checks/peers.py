"""
Checks of peers, run concurrently with a common time limit.

A slow peer or resolver delays neither the other checks nor the end of the run.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from threading import Thread
from typing import Final, NamedTuple

from bridge.admin.checks.findings import CheckFinding, CheckSeverity

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
