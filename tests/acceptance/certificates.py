"""A certificate authority for tests. It issues, revokes and backdates certificates."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass
class Credential:
    certificate: Path
    key: Path
    serial: int

    def files(self) -> dict[str, str]:
        return {"certificate": str(self.certificate), "key": str(self.key)}


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(named(name), self.key.public_key(), -30, 3650, ca=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        start: int,
        end: int,
        names: Sequence[str] | None = None,
        *,
        ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(named(self.name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + timedelta(days=start))
            .not_valid_after(NOW + timedelta(days=end))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            hosts = x509.SubjectAlternativeName([*map(x509.DNSName, names)])
            builder = builder.add_extension(hosts, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(
        self,
        file: str,
        host: str = "localhost",
        days: tuple[int, int] = (-1, 30),
        names: Sequence[str] | None = None,
    ) -> Credential:
        """Issue a certificate for `names` or `host`; `days` is its validity relative to now."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [host] if names is None else names
        made = self._signed(named(host), key.public_key(), *days, hosts)
        credential = Credential(
            self.folder / f"{file}.pem", self.folder / f"{file}.key", made.serial_number
        )
        credential.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        credential.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return credential

    def revoke(self, file: str, *credentials: Credential) -> str:
        builder = x509.CertificateRevocationListBuilder().issuer_name(named(self.name))
        builder = builder.last_update(NOW - timedelta(days=1)).next_update(NOW + timedelta(days=30))
        for credential in credentials:
            entry = x509.RevokedCertificateBuilder().serial_number(credential.serial)
            builder = builder.add_revoked_certificate(entry.revocation_date(NOW).build())
        path = self.folder / f"{file}.crl"
        made = builder.sign(self.key, hashes.SHA256())
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return str(path)

    def client(self, own: Credential | None = None) -> ssl.SSLContext:
        """Return a client context that trusts this authority and presents `own`."""
        context = ssl.create_default_context(cafile=str(self.file))
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context


def server(own: Credential) -> ssl.SSLContext:
    """Return the server context of a receiver that presents `own`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    return context
