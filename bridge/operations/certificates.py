"""When certificates expire. Reads files; knows no settings."""

from collections.abc import Mapping
from pathlib import Path

from cryptography import x509


def expiries(files: Mapping[str, Path]) -> dict[str, int]:
    """Give, for what each file belongs to, when its first certificate expires (ms)."""
    found = {}
    for owner, file in files.items():
        try:
            certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
        except (OSError, ValueError):
            continue  # `bridge check` and the start say what is wrong with it
        found[owner] = round(certificate.not_valid_after_utc.timestamp() * 1000)
    return found
