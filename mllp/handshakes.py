"""
Why a TLS handshake failed, in words for the people who operate the connection.

Words contain names and dates of certificates, and no
message data.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure

from mllp.errors import MLLPError

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
    return "".join(each if each.isprintable() else "?" for each in text)


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
