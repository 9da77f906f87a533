"""
Checks of peers, run concurrently with a common time limit.

A slow peer or resolver delays neither the other checks nor the end.
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

_LISTENS: Final = 0.3
"""Seconds in which a peer that refuses the connection or our certificate closes it."""

_CERTIFICATES: Final = {
    3: "tls.crl has no list of its authority: add it",
    9: "its certificate is not valid yet: compare the clocks",
    10: "its certificate has expired: it needs a new one there",
    12: "tls.crl has expired: fetch the newest list",
    23: "its certificate was revoked: it needs a new one there",
    62: "its certificate is not for {host}: set tls.server_name to what it is for",
    64: "its certificate is not for {host}: set tls.server_name to what it is for",
    **dict.fromkeys((18, 19, 20, 21), "its authority is not trusted: add it to tls.ca"),
}
"""Explanations by the codes of OpenSSL's X509_verify_cert_error_string."""

_HANDSHAKES: Final = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there: remove tls, or ask for its TLS port",
    "UNEXPECTED_EOF_WHILE_READING": "it hung up on the TLS handshake: is that its TLS port?",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS 1.2 or newer",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no TLS 1.2 or newer",
    **dict.fromkeys(
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        "it wants a certificate of ours: set tls.certificate and tls.key",
    ),
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE", "TLSV1_ALERT_ACCESS_DENIED"),
        "it does not take our certificate: have it trust who issued tls.certificate",
    ),
}


class PeerCheck(NamedTuple):
    """A check of a peer, and the place of its findings."""

    place: str
    ask: Callable[[], Iterable[CheckFinding]]


def run_checks(checks: Sequence[PeerCheck], patience: float = PATIENCE) -> list[CheckFinding]:
    """Run checks concurrently; return findings in order. A late check gives an error."""
    results: list[list[CheckFinding] | Exception | None] = [None] * len(checks)

    def ask(at: int) -> None:
        try:
            results[at] = list(checks[at].ask())
        except Exception as error:  # noqa: BLE001  # raised again below
            results[at] = error

    threads = [Thread(target=ask, args=(at,), daemon=True) for at in range(len(checks))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    found: list[CheckFinding] = []
    for check, thread, at in zip(checks, threads, range(len(threads)), strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        answer = results[at]
        if isinstance(answer, Exception):
            raise answer
        late = CheckFinding(CheckSeverity.ERROR, check.place, f"no answer within {patience:g} s")
        found += [late] if answer is None else answer
    return found


def connect(address: tuple[str, int], limit: float) -> socket.socket:
    """Connect to an address. Raises OSError."""
    return socket.create_connection(address, limit)


class FirstAction(Enum):
    """The first action of a peer while we send nothing."""

    LISTENS = "listens"
    SPEAKS = "speaks"
    LEAVES = "leaves"


def first_action(wire: socket.socket) -> FirstAction:
    """Return the first action of a peer. Raises OSError, also for TLS alerts."""
    before = wire.gettimeout()
    wire.settimeout(_LISTENS)
    try:
        return FirstAction.SPEAKS if wire.recv(1) else FirstAction.LEAVES
    except TimeoutError:
        return FirstAction.LISTENS
    finally:
        wire.settimeout(before)


def explain_failure(error: BaseException, host: str, *, is_set: bool = True) -> str:
    """
    Return the reason of a failed connection, and what to do about it.

    `is_set`: the peer has TLS settings that can be changed.
    """
    if isinstance(error, ssl.SSLError):
        text = _of_tls(error).format(host=host)
        return text if is_set else text.partition(": ")[0]
    if isinstance(error, socket.gaierror):
        return f"nobody answers at {host}: no such host is known ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"nobody answers at {host}: no answer in time"
    reason = getattr(error, "strerror", None) or type(error).__name__
    return f"nobody answers at {host}: {reason}"


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATES.get(error.verify_code, f"its certificate: {error.verify_message}")
    what = error.reason or "no handshake"
    return _HANDSHAKES.get(what, f"TLS failed ({what.lower().replace('_', ' ')})")


def root_cause(error: BaseException) -> BaseException:
    """Return the error of the operating system or of OpenSSL behind a library's error."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError):
            return at
        at = at.__cause__ or at.__context__
    return error
