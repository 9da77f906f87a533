"""Expiry of the TLS files of listeners and destinations."""

from pathlib import Path

from bridge.admin.installation.data_directory import create_data_directory
from bridge.monitoring.alert_settings import expiring_files
from bridge.monitoring.conditions import DAY
from config import load
from tests.acceptance.certificates import NOW as ISSUED
from tests.acceptance.certificates import Authority


def test_expiry_of_tls_files(tmp_path: Path) -> None:
    """The first certificate of a chain, the last authority and the first revocation list count."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    paper, short = authority.issue("server", days=(-1, 90)), other.issue("between", days=(-1, 9))
    with paper.certificate.open("ab") as chain:
        chain.write(short.certificate.read_bytes())
    with authority.file.open("ab") as trusted:
        trusted.write(short.certificate.read_bytes())
    revoked = authority.revoke("revoked")
    create_data_directory(tmp_path / "home")
    (tmp_path / "home" / "bridge.toml").write_text(
        f"""[[listener]]
name = "a"
bind = "127.0.0.1:0"
mappings = ["orders"]
site = "SITE1"
[listener.tls]
certificate = "{paper.certificate}"
key = "{paper.key}"
client_ca = "{authority.file}"
client_crl = "{revoked}"
[[destination]]
name = "d"
address = "127.0.0.1:9"
tls = {{ ca = "{tmp_path / "gone.pem"}" }}
""",
        "utf-8",
    )
    today = ISSUED.timestamp() * 1000
    found = expiring_files(load(tmp_path / "home"))
    assert {name: round((life.ends - today) / DAY) for name, life in found.items()} == {
        "certificate of listener a": 9,
        "client_ca of listener a": 3650,
        "client_crl of listener a": 30,
    }
