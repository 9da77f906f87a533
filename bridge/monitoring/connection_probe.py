"""
Connection probe: tests a connection step by step.

It sends no message, because a receiver could not tell a test from a real one. The results contain
codes, durations, and the subject and expiry of a certificate.
"""

import asyncio
import os
import socket
import ssl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from bridge.executors import ThreadLimit, Threads
from mllp.tls import describe_handshake

_CLOSE_SECONDS = 0.3  # a peer that accepts no messages closes the connection within this time


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One step of a probe; `code` is its result, `took` is in ms, `expires` is a time in ms."""

    name: str
    ok: bool
    code: str = ""
    took: int = 0
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The peer of a probe; without `tls` the connection is plain. `limit` is in seconds."""

    host: str
    port: int
    limit: float
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    needs_client_certificate: bool = False
    """Whether the peer shall refuse us, because we have no certificate for it."""


async def probe_connection(target: ProbeTarget) -> list[ProbeStep]:
    """Resolve the name, connect, do the TLS handshake, and check that the connection stays open."""
    steps: list[ProbeStep] = []
    began = time.monotonic()
    try:
        async with asyncio.timeout(target.limit):
            address = await _resolve(target)
            steps.append(_done("resolve", began, address))
            began = time.monotonic()
            await _connect(target, steps, began)
    except TimeoutError:
        steps.append(_failed(steps, began, "timeout"))
    except ssl.SSLCertVerificationError as error:
        code = f"certificate: {error.verify_message}"
        steps.append(ProbeStep("tls", False, code, _elapsed_ms(began)))
    except ssl.SSLError as error:
        steps.append(_refused(target, steps, began, error))
    except OSError as error:
        code = os.strerror(error.errno) if error.errno and error.errno > 0 else "not found"
        steps.append(_failed(steps, began, code.lower()))
    return steps


# A network folder may block for minutes.
FOLDER_TESTS = ThreadLimit(Threads.EXTERNAL, "checks", 2, 16)


async def probe_folder(path: Path) -> list[ProbeStep]:
    """Test that a folder exists and is writable."""
    return await FOLDER_TESTS.run(_folder, path)


def probe_port(host: str, port: int) -> ProbeStep:
    """Test that the process can listen on a port."""
    began = time.monotonic()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return ProbeStep("free", False, (error.strerror or "").lower(), _elapsed_ms(began))
    return ProbeStep("free", True, "", _elapsed_ms(began))


async def _resolve(target: ProbeTarget) -> str:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


async def _connect(target: ProbeTarget, steps: list[ProbeStep], began: float) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        steps.append(_done("connect", began))
        if target.tls is not None:
            began = time.monotonic()
            name = target.server_name or target.host
            await writer.start_tls(target.tls, server_hostname=name)
            steps.append(_done("tls", began, _version(writer)))
            steps.append(_certificate(writer))
        began = time.monotonic()
        stays = await _stays_open(reader)
        why = "" if stays else "closed by the other side"
        steps.append(ProbeStep("stays", stays, why, _elapsed_ms(began)))
    finally:
        writer.transport.abort()


async def _stays_open(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await asyncio.wait_for(reader.read(1), _CLOSE_SECONDS))
    except TimeoutError:
        return True


def _version(writer: asyncio.StreamWriter) -> str:
    found: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return (found.version() or "") if found else ""


def _certificate(writer: asyncio.StreamWriter) -> ProbeStep:
    """Return the subject and the expiry of the peer's certificate."""
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    shown = found.getpeercert(binary_form=True)
    if not shown:
        return ProbeStep("certificate", False, "none was shown")
    certificate = x509.load_der_x509_certificate(shown)
    expires = round(certificate.not_valid_after_utc.timestamp() * 1000)
    return ProbeStep("certificate", True, certificate.subject.rfc4514_string()[:200], 0, expires)


def _folder(path: Path) -> list[ProbeStep]:
    began = time.monotonic()
    if not path.is_dir():
        return [ProbeStep("folder", False, "there is no such folder", _elapsed_ms(began))]
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        return [
            ProbeStep("folder", True),
            ProbeStep("write", False, (error.strerror or "").lower(), _elapsed_ms(began)),
        ]
    return [ProbeStep("folder", True), ProbeStep("write", True, "", _elapsed_ms(began))]


def _done(name: str, began: float, code: str = "") -> ProbeStep:
    return ProbeStep(name, True, code, _elapsed_ms(began))


def _refused(
    target: ProbeTarget, steps: list[ProbeStep], began: float, error: ssl.SSLError
) -> ProbeStep:
    """
    Return the step of a TLS error.

    Under TLS 1.3 a server that requires a certificate refuses the client after the handshake.
    """
    described = describe_handshake(error)
    code = described.reason if described else "tls"
    after = any(step.name == "tls" for step in steps)
    expected = target.needs_client_certificate and _wants_certificate(error)
    name = "stays" if after else "tls"
    if expected:
        return ProbeStep(name, True, "it requires a client certificate", _elapsed_ms(began))
    return ProbeStep(name, False, code, _elapsed_ms(began))


def _wants_certificate(error: ssl.SSLError) -> bool:
    """True if the peer ended the connection because we sent no certificate."""
    reason = (error.reason or "").upper()
    return "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason


def _failed(steps: list[ProbeStep], began: float, code: str) -> ProbeStep:
    """Return the failure of the step after the last successful one."""
    following = {"resolve": "connect", "connect": "tls"}
    name = following.get(steps[-1].name, "stays") if steps else "resolve"
    return ProbeStep(name, False, code, _elapsed_ms(began))


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
