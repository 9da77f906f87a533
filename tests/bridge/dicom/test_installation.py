"""What `bridge check` and the alerts say about the DICOM port."""

from pathlib import Path

import pytest

from bridge.admin.checks.checks import check_home
from bridge.handshake_counts import DICOM, DICOM_PORT, DICOM_REFUSAL
from bridge.monitoring.channels import StoredHandshake
from bridge.monitoring.conditions import AlertThresholds, SystemSnapshot, find_conditions
from tests.databases import create_migrated_home

PEER = '[[dicom.peer]]\nae_title = "CT1"\naddresses = ["10.1.0.0/16"]\n'


def findings(home: Path, text: str) -> dict[str, str]:
    create_migrated_home(home)
    (home / "bridge.toml").write_text(text, "utf-8")
    found = check_home(home)
    return {finding.place.rpartition(": ")[2]: finding.message for finding in found}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("bind = '127.0.0.1:11112'\n", "dicom.bind", "nobody may open an association"),
        (f"bind = '127.0.0.1:8575'\n{PEER}", "dicom", "is used by the web server"),
        (
            f"bind = '127.0.0.1:11112'\ntls = {{ certificate = 'x.pem', key = 'x.key' }}\n{PEER}",
            "dicom",
            "x.pem",
        ),
        (
            f"bind = '127.0.0.1:11112'\n{PEER.replace('10.1.0.0/16', '0.0.0.0/0')}",
            "dicom.peer",
            "any address may use it",
        ),
    ],
)
def test_findings(tmp_path: Path, text: str, place: str, message: str) -> None:
    """A port in use, unusable files and open doors are found before the start."""
    assert message in findings(tmp_path / "home", f"[dicom]\n{text}")[place]


def test_a_missing_token(tmp_path: Path) -> None:
    """A token that cannot be read is found."""
    found = findings(tmp_path / "home", f'{PEER}token_file = "ct1.token"\n')
    assert any(place.endswith("ct1.token") for place in found)


def test_alerts() -> None:
    """
    Refused connections are an alert at once, which names the peers; failed handshakes after the
    third one.
    """
    refused = [
        StoredHandshake(DICOM_REFUSAL, peer, address, reason, "", True, count, 1, last)
        for peer, address, reason, count, last in (
            ("other", "10.9.9.9", "calling title", 2, 5),
            ("CT1", "10.9.9.7", "C-STORE A900", 40, 4),
            ("CT1", "10.9.9.7", "limit", 1, 3),
        )
    ]
    failed = StoredHandshake(DICOM, DICOM_PORT, "10.9.9.8", "not trusted", "", True, 3, 1, 2)
    snapshot = SystemSnapshot(
        now=10,
        started_at=0,
        queues={},
        last_message={},
        paused={},
        certificates={},
        handshakes=[*refused, failed],
    )
    found = {item.key: item for item in find_conditions(snapshot, AlertThresholds())}
    assert found.keys() == {"refused:DICOM port", "tls:DICOM port"}
    text = found["refused:DICOM port"].text
    assert "43 connections or messages (CT1 41, other 2)" in text
    assert "10.9.9.9: calling title" in text
    assert "AE title" in found["refused:DICOM port"].action
