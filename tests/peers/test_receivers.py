"""Receivers used in hospitals get results once, complete, in order, and after a crash."""

import json
from contextlib import suppress

import pytest

from tests.acceptance.orders import order
from tests.acceptance.radiologist import addendum
from tests.eventually import eventually
from tests.peers.conftest import PeerSetup

pytestmark = pytest.mark.slow
PEERS = ["python-hl7", "hl7apy", "txHL7", "mllp-http", "medplum", "node-hl7"]
TEXT = "Düsenträger — 肺に異常なし.\nNo nodule | no mass ^ none & none."
ESCAPED = r"No nodule \F\ no mass \S\ none \T\ none."
LARGE = "Normal. " * 12_000


def messages_of(installation: PeerSetup, peer: str) -> list[str]:
    """Return the messages of a receiver; for node-hl7-server, without the effect of its defect."""
    messages = installation.receivers[peer].messages()
    if peer != "node-hl7":
        return messages
    return list(dict.fromkeys(message for message in messages if message.count("MSH|") == 1))


def wait(installation: PeerSetup, peer: str, mark: str, count: int) -> list[str]:
    """Wait for `count` messages with a text, and return them."""

    def found() -> list[str]:
        return [message for message in messages_of(installation, peer) if mark in message]

    eventually(lambda: len(found()) >= count)
    return found()


def sign(installation: PeerSetup, texts: dict[int, str]) -> None:
    installation.house.send(*(order(number) for number in texts))
    for number, text in texts.items():
        installation.house.draft(f"M{number}", f"A{number}", text)
        installation.house.sign(f"M{number}", f"A{number}")


@pytest.fixture(scope="module")
def results(installation: PeerSetup) -> None:
    """Six reports, the last a large one; the first with two addenda."""
    sign(installation, dict.fromkeys(range(12_000, 12_005), TEXT) | {12_005: LARGE})
    for text in ("First addendum.", "Second addendum."):
        addendum(installation.house, "M12000", "A12000", text)


@pytest.fixture(scope="module")
def settled(installation: PeerSetup, results: None) -> dict[str, list[str]]:
    def states() -> dict[str, list[str]]:
        return {
            peer: [delivery["state"] for delivery in deliveries(installation, peer)]
            for peer in PEERS
        }

    with suppress(AssertionError):  # a test names the receiver whose deliveries have not ended
        eventually(lambda: {s for state in states().values() for s in state} == {"done"})
    return states()


def deliveries(installation: PeerSetup, peer: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(
        installation.house.bridge("deliveries", "list", "--destination", peer, "--json")
    )
    return found


@pytest.mark.parametrize("peer", PEERS)
def test_results(installation: PeerSetup, settled: dict[str, list[str]], peer: str) -> None:
    """Eight results are acknowledged, done, and parsed by the receiver's own parser."""
    assert settled[peer] == ["done"] * 8
    for number in range(12_001, 12_005):
        found = wait(installation, peer, f"|A{number}|", 1)
        assert len(found) == 1, number
        assert "Düsenträger — 肺に異常なし." in found[0]
        assert ESCAPED in found[0]


@pytest.mark.parametrize("peer", PEERS)
def test_a_large_report(installation: PeerSetup, settled: dict[str, list[str]], peer: str) -> None:
    """A report of 96 kB arrives complete."""
    found = wait(installation, peer, "|A12005|", 1)

    assert len(found) == 1
    assert found[0].count("Normal.") == 12_000


@pytest.mark.parametrize("peer", PEERS)
def test_addenda_after_their_report(
    installation: PeerSetup, settled: dict[str, list[str]], peer: str
) -> None:
    """The receiver gets the report, its first addendum and its second, in this order."""
    found = wait(installation, peer, "|A12000|", 3)

    assert len(found) == 3
    assert ["addendum" in item for item in found] == [False, True, True]
    assert "Second addendum." in found[2]
    assert "Second addendum." not in found[1]


@pytest.fixture(scope="module")
def crashed(installation: PeerSetup, settled: dict[str, list[str]]) -> None:
    """Every receiver is killed, two reports are signed, every receiver starts again."""
    for peer in installation.receivers.values():
        peer.kill()
    sign(installation, dict.fromkeys((12_100, 12_101), "While the receiver was down."))
    eventually(lambda: all(len(deliveries(installation, peer)) > 8 for peer in PEERS))
    for peer in installation.receivers.values():
        peer.start()


@pytest.mark.parametrize("peer", PEERS)
def test_after_a_crash(installation: PeerSetup, crashed: None, peer: str) -> None:
    """Reports signed while a receiver is down arrive once each when it is up again."""
    for number in (12_100, 12_101):
        assert len(wait(installation, peer, f"|A{number}|", 1)) == 1
