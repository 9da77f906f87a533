"""TLS settings as Twisted context factories: TLS 1.2 or newer, mutual TLS, host names, reload of
changed files. And why a handshake failed, in words for the people who operate the connection.

Errors name the setting, never the content of a file. Files are checked for changes when a
connection begins; open connections keep their context. Files that do not match (half of a pair
is written), or that cannot be read yet, change nothing until they can be used.

Twisted's own check of the server's name is not used: it accepts a certificate without a valid
subjectAltName for any server, because service_identity reports that case by another exception
than Twisted expects (Twisted 24.11 to 26.10 with service-identity 24.1 and later).
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto
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
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    TLSVersion,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.errors import MLLPError, TLSConfigurationError

MAX_SUBJECT = 200
_MAX_NAMES = 10

NO_HANDSHAKE = "the peer closed the connection before the TLS handshake ended"


@dataclass(frozen=True, slots=True)
class HandshakeFailure:
    """
    A failed handshake. `subject` is that of the certificate which was refused, '' if none was.

    `is_trouble` is false if the peer just left: port scans and health checks do that.
    """

    reason: str
    subject: str = ""
    is_trouble: bool = True


class CertificateRefused(MLLPError):
    """We refuse the peer's certificate."""

    def __init__(self, reason: str, subject: str = "") -> None:
        self.reason = reason
        self.subject = subject
        super().__init__(reason)


_UNSUPPORTED: Final = "the peer supports no TLS version of ours: TLS 1.2 or newer is required"
_PLAIN: Final = "the peer does not speak TLS: it sent plain text"
_NOTHING_IN_COMMON: Final = "no cipher or TLS extension in common with the peer"

_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "unsupported protocol": f"unsupported protocol version: {_UNSUPPORTED}",
        "version too low": f"unsupported protocol version: {_UNSUPPORTED}",
        "no protocols available": f"unsupported protocol version: {_UNSUPPORTED}",
        "tlsv1 alert protocol version": (
            "the peer refuses our protocol version: it may support nothing newer than TLS 1.1"
        ),
        "wrong version number": _PLAIN,
        "http request": f"{_PLAIN} (HTTP)",
        "https proxy request": f"{_PLAIN} (HTTP)",
        "packet length too long": _PLAIN,
        "record layer failure": _PLAIN,
        "unknown protocol": _PLAIN,
        "no shared cipher": _NOTHING_IN_COMMON,
        "no suitable signature algorithm": _NOTHING_IN_COMMON,
        "no suitable key share": _NOTHING_IN_COMMON,
        "peer did not return a certificate": "the peer sent no certificate, and one is required",
        "certificate verify failed": "the peer's certificate is not trusted",
        "sslv3 alert handshake failure": (
            "the peer ended the handshake: nothing in common, or it requires a certificate"
        ),
        "tlsv13 alert certificate required": "the peer requires a certificate, and we sent none",
        "tlsv1 alert unknown ca": (
            "the peer does not trust our certificate: its authority is unknown there"
        ),
        "sslv3 alert certificate expired": "the peer says that our certificate has expired",
        "sslv3 alert certificate revoked": "the peer says that our certificate is revoked",
        "sslv3 alert certificate unknown": "the peer does not accept our certificate",
        "sslv3 alert bad certificate": "the peer does not accept our certificate",
        "sslv3 alert unsupported certificate": (
            "the peer does not accept our certificate: it has another purpose"
        ),
        "tlsv1 alert access denied": "the peer denies access with our certificate",
        "tlsv1 alert decrypt error": "the peer could not verify our certificate's signature",
        "tlsv1 unrecognized name": "the peer has no certificate for the name that we asked for",
        "tlsv1 alert internal error": "the peer reports an internal error",
        "unexpected eof while reading": NO_HANDSHAKE,
    }
)
"""Words for the reasons of the TLS library."""

_VERIFY: Mapping[int, str] = MappingProxyType(
    {
        2: "unknown authority",
        7: "its signature is not valid",
        10: "certificate has expired",
        9: "certificate is not valid yet",
        18: "self-signed certificate",
        19: "unknown authority: the chain ends in a self-signed certificate that is not trusted",
        20: "unknown authority",
        21: "unknown authority: the chain is incomplete",
        22: "its chain is too long",
        23: "certificate is revoked",
        24: "an issuer in its chain is no certificate authority",
        25: "its chain is too long",
        26: "certificate has another purpose",
        27: "its authority is not trusted",
        28: "its authority rejects it",
        3: "no revocation list of its authority",
        11: "the revocation list of its authority is not valid yet",
        12: "the revocation list of its authority has expired",
        62: "the certificate is for another name",
        63: "the certificate is for another address",
        64: "the certificate is for another address",
        66: "its key is too short",
        67: "the key of its authority is too short",
        68: "its signature algorithm is too weak",
        79: "an issuer in its chain is no certificate authority",
    }
)
"""Words for OpenSSL's codes of `X509_verify_cert`."""
_EXPIRED, _NOT_YET = 10, 9


def refusal_of(certificate: Any, code: int) -> CertificateRefused:
    """Return why OpenSSL refuses a certificate of pyOpenSSL, with subject and dates."""
    return _refusal(
        certificate.to_cryptography(), _VERIFY.get(code, f"not trusted (code {code})"), code
    )


def _refusal(certificate: x509.Certificate, words: str, code: int = 0) -> CertificateRefused:
    subject = subject_of(certificate)
    about = [common_name(certificate) or subject]
    if code == _EXPIRED:
        about.append(f"since {_moment(certificate.not_valid_after_utc)}")
    elif code == _NOT_YET:
        about.append(f"from {_moment(certificate.not_valid_before_utc)}")
    if issuer := _common_name(certificate.issuer):
        about.append(f"issued by {issuer}")
    return CertificateRefused(f"{words} ({', '.join(filter(None, about))})", subject)


def wrong_name(certificate: Any, wanted: str) -> CertificateRefused:
    """Return the refusal of a certificate of pyOpenSSL that is for other names than `wanted`."""
    found = certificate.to_cryptography()
    names = certificate_names(found)
    listed = ", ".join(names) or "no name"
    return CertificateRefused(
        f"wrong name: {wanted} was expected, and the certificate is for {listed}", subject_of(found)
    )


def certificate_names(certificate: x509.Certificate) -> Sequence[str]:
    """Return the DNS names and addresses of a certificate, else its common name."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = [
            *extension.value.get_values_for_type(x509.DNSName),
            *map(str, extension.value.get_values_for_type(x509.IPAddress)),
        ]
    except (x509.ExtensionNotFound, ValueError):
        names = []
    return [_printable(name) for name in (names or [common_name(certificate)])[:_MAX_NAMES] if name]


def subject_of(certificate: x509.Certificate) -> str:
    """Return the subject of a certificate, such as `CN=ris,O=Hospital`."""
    try:
        return _printable(certificate.subject.rfc4514_string())[:MAX_SUBJECT]
    except ValueError:
        return ""


def common_name(certificate: x509.Certificate) -> str:
    """Return `CN=…` of a certificate, '' if it has none."""
    return _common_name(certificate.subject)


def _common_name(name: x509.Name) -> str:
    try:
        found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return f"CN={_printable(str(found[0].value))}"[:MAX_SUBJECT] if found else ""


def _printable(text: str) -> str:
    """Replace control characters: a peer chooses the names in its certificate."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def describe_handshake(
    error: BaseException | None, refused: CertificateRefused | None = None
) -> HandshakeFailure | None:
    """
    Return a failed handshake in words, None if the error is not about TLS.

    `refused` is our own refusal of the peer's certificate, if there was one.
    """
    if isinstance(error, CertificateRefused):
        refused = error
    if refused is not None:
        return HandshakeFailure(refused.reason, refused.subject)
    if isinstance(error, SSL.Error):
        return _of_openssl([str(entry[-1]) for entry in error.args[0]] if error.args else [])
    if isinstance(error, ssl.SSLCertVerificationError):
        words = _VERIFY.get(error.verify_code, error.verify_message)
        return HandshakeFailure(str(words))
    if isinstance(error, ssl.SSLError):
        return _of_openssl([(error.reason or "").replace("_", " ").lower()])
    return None


def _of_openssl(reasons: Sequence[str]) -> HandshakeFailure:
    for reason in reasons:
        key = reason.lower().replace("ssl/tls alert", "sslv3 alert")
        for name in (key, key.replace("sslv3 alert", "tlsv1 alert")):
            if words := _REASONS.get(name):
                return HandshakeFailure(words, is_trouble=words != NO_HANDSHAKE)
    found = next(filter(None, reasons), "")
    if not found:
        return HandshakeFailure(NO_HANDSHAKE, is_trouble=False)
    return HandshakeFailure(f"TLS: {found}")


def incoming_failure(
    failure: Failure, refused: object, *, timed_out: float | None
) -> HandshakeFailure:
    """Return why the handshake of an incoming connection failed."""
    own = refused if isinstance(refused, CertificateRefused) else None
    if found := describe_handshake(failure.value, own):
        return found
    if timed_out is not None:
        return HandshakeFailure(f"the peer did not finish the TLS handshake within {timed_out:g} s")
    if isinstance(failure.value, ConnectionDone | ConnectionLost):
        return HandshakeFailure(NO_HANDSHAKE, is_trouble=False)
    return HandshakeFailure(f"{NO_HANDSHAKE} ({type(failure.value).__name__})", is_trouble=False)


_Verify = Callable[[Any, Any, int, int, int], bool]


@implementer(IOpenSSLClientConnectionCreator)
class VerifyingClientOptions:
    """Twisted's client options with our own check of the server's name."""

    def __init__(self, options: Any, server_name: str, revoked: Sequence[Any] = ()) -> None:
        """
        `options` are those of `twisted.internet.ssl.optionsForClientTLS` for this name.

        `revoked` are revocation lists. Twisted makes the context with the first connection.
        """
        self._options = options
        self._revoked = revoked
        self._server_name = server_name
        address = isIPAddress(server_name) or isIPv6Address(server_name)
        self._wanted = IPAddress_ID(server_name) if address else DNS_ID(_ascii(server_name))

    def clientConnectionForTLS(self, protocol: Any) -> Any:  # noqa: N802  # Twisted's name
        connection = self._options.clientConnectionForTLS(protocol)
        if self._revoked:
            _refuse_revoked(connection.get_context(), self._revoked)
            self._revoked = ()
        mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
        connection.set_verify(
            mode, certificate_verifier(self._wanted, self._server_name, protocol.failVerification)
        )
        return connection


def certificate_verifier(
    wanted: ServiceID, server_name: str, refuse: Callable[[Failure], object]
) -> _Verify:
    """
    Return OpenSSL's callback for each certificate of a chain; it checks the server's name.

    `refuse` is called with CertificateRefused.
    """

    def verify(_: Any, certificate: Any, code: int, depth: int, trusted: int) -> bool:
        if not trusted:
            refuse(Failure(refusal_of(certificate, code)))  # type: ignore[no-untyped-call]
            return False
        if depth:
            return True
        try:
            verify_service_identity(_names(certificate), [wanted], [])
        except (VerificationError, CertificateError):
            refuse(Failure(wrong_name(certificate, server_name)))  # type: ignore[no-untyped-call]
            return False
        return True  # pyOpenSSL treats any other exception as a refusal

    return verify


def _verify_client(connection: Any, certificate: Any, code: int, _: int, trusted: int) -> bool:
    if not trusted:
        connection.set_app_data(refusal_of(certificate, code))
    return bool(trusted)


def _names(certificate: Any) -> list[CertificatePattern]:
    """
    Return the names of a certificate; the common name if it has no DNS name, as OpenSSL does.

    Authorities of hospitals have issued many such certificates (RFC 6125 §6.4.4).
    """
    names = [*extract_patterns(certificate)]
    common = certificate.get_subject().commonName
    if common and not any(isinstance(name, DNSPattern) for name in names):
        names.append(DNSPattern.from_bytes(_ascii(common).encode("ascii")))
    return names


def _ascii(name: str) -> str:
    return name if name.isascii() else name.encode("idna").decode("ascii")


def server_options(
    certificate: Path, key: Path, client_ca: Path | None = None, client_crl: Path | None = None
) -> CertificateOptions:
    """
    Return the options of a listener: its certificate, followed by its chain, and its key (PEM).

    With `client_ca`, every client must present a certificate that these authorities have issued
    and that the revocation lists in `client_crl` do not contain.
    """
    options = CertificateOptions(
        **_identity(certificate, key),
        trustRoot=_authorities("client_ca", client_ca) if client_ca else None,
        raiseMinimumTo=TLSVersion.TLSv1_2,
    )
    revoked = _revocation_lists("client_crl", client_crl) if client_ca and client_crl else ()
    _try_out(options)
    if revoked:
        _refuse_revoked(options.getContext(), revoked)
    if client_ca:
        mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT | SSL.VERIFY_CLIENT_ONCE
        options.getContext().set_verify(mode, _verify_client)
    return options


def client_options(
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    server_name: str,
    crl: Path | None = None,
) -> Any:
    """
    Return the options of a sender, for `twisted.internet.endpoints.wrapClientTLS`.

    The server must prove to be `server_name`, a host name or an IP address, with a certificate
    that the authorities in `ca` have issued and the revocation lists in `crl` do not contain;
    without `ca`, the system's authorities apply. Certificate and key, together, are presented to
    servers that ask.
    """
    if (certificate is None) != (key is None):
        raise TLSConfigurationError(
            "key" if key is None else "certificate", "is needed as well: they go together"
        )
    identity = _identity(certificate, key) if certificate and key else {}
    trust = _authorities("ca", ca) if ca else platformTrust()  # type: ignore[no-untyped-call]
    revoked = _revocation_lists("crl", crl) if ca and crl else ()
    try:
        options = optionsForClientTLS(
            server_name,
            trustRoot=trust,
            extraCertificateOptions={**identity, "raiseMinimumTo": TLSVersion.TLSv1_2},
        )
        return VerifyingClientOptions(options, server_name, revoked)
    except (ValueError, UnicodeError):
        raise TLSConfigurationError("server_name", "is no host name") from None


def _identity(certificate: Path, key: Path) -> dict[str, Any]:
    """Return the CertificateOptions arguments for our own identity."""
    chain = _certificates("certificate", certificate)
    private = _private_key(key)
    if chain[0].public_key() != private.public_key():
        raise TLSConfigurationError("key", "does not belong to the certificate")
    own, *issuers = [crypto.X509.from_cryptography(one) for one in chain]
    return {
        "privateKey": crypto.PKey.from_cryptography_key(private),
        "certificate": own,
        "extraCertChain": issuers,
    }


def _private_key(path: Path) -> Any:
    data = _read("key", path)
    try:
        key: PrivateKeyTypes = load_pem_private_key(data, password=None)
    except TypeError:
        raise TLSConfigurationError("key", f"is protected by a passphrase: {path}") from None
    except Exception:  # noqa: BLE001  # cryptography documents several, of its own and built-in
        raise TLSConfigurationError("key", f"is no private key in PEM form: {path}") from None
    return key


def _authorities(setting: str, path: Path) -> Any:
    found = [crypto.X509.from_cryptography(one) for one in _certificates(setting, path)]
    return trustRootFromCertificates([Certificate(one) for one in found])  # type: ignore[no-untyped-call]


def _refuse_revoked(context: SSL.Context, lists: Sequence[Any]) -> None:
    store = context.get_cert_store()
    if store is None:
        raise TLSConfigurationError("crl", "is refused by the TLS library")
    for revoked in lists:
        store.add_crl(revoked)
    store.set_flags(crypto.X509StoreFlags.CRL_CHECK)


def _revocation_lists(setting: str, path: Path) -> list[x509.CertificateRevocationList]:
    marker = b"-----END X509 CRL-----"
    parts = [part + marker for part in _read(setting, path).split(marker)[:-1]]
    try:
        found = [x509.load_pem_x509_crl(part.lstrip()) for part in parts]
    except ValueError:
        found = []
    if not found:
        raise TLSConfigurationError(setting, f"holds no revocation list in PEM form: {path}")
    return found


def _certificates(setting: str, path: Path) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(setting, path))
    except ValueError:
        raise TLSConfigurationError(setting, f"holds no certificate in PEM form: {path}") from None


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TLSConfigurationError(setting, f"cannot be read: {error.strerror}: {path}") from None


def _try_out(options: CertificateOptions) -> None:
    """Build the context now: OpenSSL has additional rules, such as the length of keys."""
    try:
        options.getContext()
    except SSL.Error:
        raise TLSConfigurationError("certificate", "is refused by the TLS library") from None


_Stamp = tuple[int, int, int, int]
ErrorCallback = Callable[[TLSConfigurationError], object]


class ReloadingOptions:
    """Options that are rebuilt when their files change and can be used."""

    def __init__(
        self, make: Callable[[], Any], files: Sequence[Path], on_error: ErrorCallback
    ) -> None:
        """
        Build the options. Raises TLSConfigurationError.

        `on_error` gets later errors, one for each change of the files.
        """
        self._make = make
        self._files = tuple(files)
        self._on_error = on_error
        self._seen = self._stamp()
        self._options = make()

    @property
    def options(self) -> Any:
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._options = self._make()
            except TLSConfigurationError as error:
                self._on_error(error)
        return self._options

    def _stamp(self) -> tuple[_Stamp | None, ...]:
        return tuple(map(_stamp, self._files))


class ReloadingServerOptions(ReloadingOptions):
    """The options of a listener, from `tls.server_options`."""

    def getContext(self) -> Any:  # noqa: N802  # Twisted's name
        """Return the context of the next connection."""
        return self.options.getContext()


@implementer(IOpenSSLClientConnectionCreator)
class ReloadingClientOptions(ReloadingOptions):
    """The options of a sender, from `tls.client_options`."""

    def clientConnectionForTLS(self, protocol: Any) -> Any:  # noqa: N802  # Twisted's name
        """Return the TLS side of the next connection."""
        return self.options.clientConnectionForTLS(protocol)


def _stamp(file: Path) -> _Stamp | None:
    """Return values that change with a file's content or (`st_ctime`) its permissions."""
    try:
        seen = file.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino
