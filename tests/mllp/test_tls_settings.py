"""Errors in TLS settings name the setting, and not the content of the file."""

from pathlib import Path

import pytest

from mllp import TLSConfigurationError
from mllp.tls import ReloadingOptions, client_options, server_options
from tests.mllp.certificates import Papers


class TestSettings:
    """One mistake each."""

    def test_missing(self, papers: Papers) -> None:
        """A file that is not there."""
        with pytest.raises(
            TLSConfigurationError, match=r"tls.certificate: cannot be read: No such .*nowhere"
        ):
            server_options(papers.folder / "nowhere", Path(papers.key))

    def test_no_certificate(self, papers: Papers) -> None:
        """A key where a certificate should be."""
        with pytest.raises(TLSConfigurationError, match=r"tls.certificate: holds no certificate"):
            server_options(Path(papers.key), Path(papers.key))

    def test_no_key(self, papers: Papers) -> None:
        """A certificate where a key should be."""
        with pytest.raises(TLSConfigurationError, match=r"tls.key: is no private key"):
            server_options(Path(papers.certificate), Path(papers.certificate))

    def test_anothers_key(self, papers: Papers) -> None:
        """A key that belongs to another certificate."""
        with pytest.raises(TLSConfigurationError, match=r"tls.key: does not belong"):
            server_options(Path(papers.certificate), Path(papers.client_key))

    def test_a_locked_key(self, papers: Papers, tmp_path: Path) -> None:
        """A key under a passphrase."""
        from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415  # only here

        key = form.load_pem_private_key(Path(papers.key).read_bytes(), None)
        locked = tmp_path / "locked"
        locked.write_bytes(
            key.private_bytes(
                form.Encoding.PEM,
                form.PrivateFormat.PKCS8,
                form.BestAvailableEncryption(b"invented"),
            )
        )

        with pytest.raises(TLSConfigurationError, match=r"tls.key: is protected by a passphrase"):
            server_options(Path(papers.certificate), locked)

    def test_the_authorities(self, papers: Papers) -> None:
        """The setting's own name, on either side."""
        with pytest.raises(TLSConfigurationError, match=r"tls.client_ca: holds no certificate"):
            server_options(Path(papers.certificate), Path(papers.key), Path(papers.key))
        with pytest.raises(TLSConfigurationError, match=r"tls.ca: holds no certificate"):
            client_options(Path(papers.key), None, None, "ris.example")

    def test_half_an_identity(self, papers: Papers) -> None:
        """A certificate without its key, or the other way round."""
        with pytest.raises(TLSConfigurationError, match=r"tls.key: is needed"):
            client_options(None, Path(papers.certificate), None, "ris.example")
        with pytest.raises(TLSConfigurationError, match=r"tls.certificate: is needed"):
            client_options(None, None, Path(papers.key), "ris.example")

    def test_no_host_name(self, papers: Papers) -> None:
        """A name that no certificate can bear."""
        with pytest.raises(TLSConfigurationError, match=r"tls.server_name: is no host name"):
            client_options(Path(papers.ca), None, None, "..")

    def test_the_machines_own_authorities(self) -> None:
        """Without `ca` the system's authorities apply."""
        assert client_options(None, None, None, "ris.example")


def test_files_that_may_be_read_again_are_used(tmp_path: Path) -> None:
    """A new file that we may not read yet is used once we may: only its rights have changed."""
    file = tmp_path / "new.pem"
    file.write_bytes(b"old")

    def make() -> bytes:
        if not file.stat().st_mode & 0o400:  # whoever is root may read it all the same
            raise TLSConfigurationError("key", "cannot be read")
        return file.read_bytes()

    told: list[TLSConfigurationError] = []
    reloading = ReloadingOptions(make, [file], told.append)
    file.write_bytes(b"new")
    file.chmod(0)

    assert [reloading.options, reloading.options, len(told)] == [b"old", b"old", 1]
    file.chmod(0o600)
    assert reloading.options == b"new"
