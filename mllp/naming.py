"""
Whether a server has proven its name; whoever's certificate cannot be read for names has not.

Twisted looks as well, but takes a certificate without a single subjectAltName, or with one that is
no name, for any server at all: service_identity says so by another exception than it expects
(Twisted 24.11 to 26.10 with service-identity 24.1 and later). So its word is not asked for.
"""

from collections.abc import Callable
from typing import Any

from OpenSSL import SSL
from service_identity import CertificateError, VerificationError
from service_identity.hazmat import (
    DNS_ID,
    CertificatePattern,
    DNSPattern,
    IPAddress_ID,
    ServiceID,
    verify_service_identity,
)
from service_identity.pyopenssl import extract_patterns
from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

_Verify = Callable[[Any, Any, int, int, int], bool]


@implementer(IOpenSSLClientConnectionCreator)
class Named:
    """Twisted's options of a client, but for who has proven to be the server."""

    def __init__(self, options: Any, server_name: str) -> None:
        """Take the options of `twisted.internet.ssl.optionsForClientTLS` for this very name."""
        self._options = options
        address = isIPAddress(server_name) or isIPv6Address(server_name)
        self._wanted = IPAddress_ID(server_name) if address else DNS_ID(_ascii(server_name))

    def clientConnectionForTLS(self, protocol: Any) -> Any:  # noqa: N802  # Twisted's name
        """Give the TLS side of a connection."""
        connection = self._options.clientConnectionForTLS(protocol)
        mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
        connection.set_verify(mode, verifier(self._wanted, protocol.failVerification))
        return connection


def verifier(wanted: ServiceID, refuse: Callable[[Failure], object]) -> _Verify:
    """Make what OpenSSL asks of each certificate of a chain; only the server's own has a name."""

    def verify(_: Any, certificate: Any, __: int, depth: int, trusted: int) -> bool:
        if depth or not trusted:
            return bool(trusted)
        try:
            verify_service_identity(_names(certificate), [wanted], [])
        except (VerificationError, CertificateError):
            refuse(Failure())  # type: ignore[no-untyped-call]
            return False
        return True  # whatever else is raised, pyOpenSSL takes for a no

    return verify


def _names(certificate: Any) -> list[CertificatePattern]:
    """
    Give what a certificate is for; its common name where it has no DNS name, as OpenSSL does.

    Many a hospital's own authority has issued such ones (RFC 6125 §6.4.4).
    """
    names = [*extract_patterns(certificate)]
    common = certificate.get_subject().commonName
    if common and not any(isinstance(each, DNSPattern) for each in names):
        names.append(DNSPattern.from_bytes(_ascii(common).encode("ascii")))
    return names


def _ascii(name: str) -> str:
    return name if name.isascii() else name.encode("idna").decode("ascii")
