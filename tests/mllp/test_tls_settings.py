"""Errors in TLS settings name the setting, and not the content of the file."""

from pathlib import Path

import pytest

from mllp import TLSConfigurationError
from mllp.tls import ReloadingOptions, client_options, server_options
from tests.mllp.certificates import Certificates


class TestSettings:
    @pytest.mark.parametrize(
        ("certificate", "key", "message"),
        [
            ("nowhere", "key", r"tls.certificate: cannot be read: No such .*nowhere"),
            ("key", "key", r"tls.certificate: holds no certificate"),
            ("certificate", "certificate", r"tls.key: is no private key"),
            ("certificate", "client_key", r"tls.key: does not belong"),
        ],
    )
    def test_wrong_files(
        self, certificates: Certificates, certificate: str, key: str, message: str
    ) -> None:
        one, other = (Path(getattr(certificates, each, each)) for each in (certificate, key))
        with pytest.raises(TLSConfigurationError, match=message):
            server_options(one, other)

    def test_an_encrypted_key(self, certificates: Certificates, tmp_path: Path) -> None:
        from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415  # only here

        key = form.load_pem_private_key(Path(certificates.key).read_bytes(), None)
        locked = tmp_path / "locked"
        locked.write_bytes(
            key.private_bytes(
                form.Encoding.PEM,
                form.PrivateFormat.PKCS8,
                form.BestAvailableEncryption(b"invented"),
            )
        )

        with pytest.raises(TLSConfigurationError, match=r"tls.key: is protected by a passphrase"):
            server_options(Path(certificates.certificate), locked)

    def test_the_authorities(self, certificates: Certificates) -> None:
        """The error names the setting of the authorities, on client and server."""
        with pytest.raises(TLSConfigurationError, match=r"tls.client_ca: holds no certificate"):
            server_options(
                Path(certificates.certificate), Path(certificates.key), Path(certificates.key)
            )
        with pytest.raises(TLSConfigurationError, match=r"tls.ca: holds no certificate"):
            client_options(Path(certificates.key), None, None, "ris.example")

    def test_half_an_identity(self, certificates: Certificates) -> None:
        """A certificate without its key, or a key without its certificate, is an error."""
        with pytest.raises(TLSConfigurationError, match=r"tls.key: is needed"):
            client_options(None, Path(certificates.certificate), None, "ris.example")
        with pytest.raises(TLSConfigurationError, match=r"tls.certificate: is needed"):
            client_options(None, None, Path(certificates.key), "ris.example")

    def test_no_host_name(self, certificates: Certificates) -> None:
        with pytest.raises(TLSConfigurationError, match=r"tls.server_name: is no host name"):
            client_options(Path(certificates.ca), None, None, "..")

    def test_the_machines_own_authorities(self) -> None:
        """Without `ca` the client uses the authorities of the system."""
        assert client_options(None, None, None, "ris.example")


def test_a_file_that_becomes_readable(tmp_path: Path) -> None:
    """A file becomes valid when its permissions allow to read it."""
    file = tmp_path / "new.pem"
    file.write_bytes(b"old")

    def make() -> bytes:
        if not file.stat().st_mode & 0o400:  # root reads the file in any case
            raise TLSConfigurationError("key", "cannot be read")
        return file.read_bytes()

    errors: list[TLSConfigurationError] = []
    reloading = ReloadingOptions(make, [file], errors.append)
    file.write_bytes(b"new")
    file.chmod(0)

    assert [reloading.options, reloading.options, len(errors)] == [b"old", b"old", 1]
    file.chmod(0o600)
    assert reloading.options == b"new"
