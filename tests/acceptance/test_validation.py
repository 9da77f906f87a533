"""Validation at a listener and at the command line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, segment, verdict
from tests.eventually import PATIENCE


@dataclass
class Validating:
    """An installation and the ports of two listeners: one refuses, one warns."""

    house: House
    refuse: int
    warn: int


@pytest.fixture(scope="module")
def validating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Validating]:
    """One service with two validating listeners."""
    house = House(tmp_path_factory.mktemp("validation") / "home")
    ports = {each: house.listener(each, validate=each) for each in ("refuse", "warn")}
    house.make()
    house.start()
    yield Validating(house, **ports)
    assert house.stop() == 0


def nameless(number: int) -> bytes:
    """An order without PID-5, which the structure requires and the mapping does not."""
    return order(number, name="")


def test_refuse(validating: Validating) -> None:
    """`refuse`: AE with code and place of the missing field; a valid message is accepted."""
    with Sender(validating.refuse) as sender:
        sender.post(nameless(8001), order(8002))
        first, second = sender.reply(), sender.reply()
    assert verdict(first) == ("AE", "C8001")
    assert first is not None
    assert "PID^1^5" in segment(first, b"ERR").replace("&", "^")
    assert "|101" in segment(first, b"ERR")
    assert verdict(second) == ("AA", "C8002")


def test_warn(validating: Validating) -> None:
    """`warn`: the listener accepts the message, counts the finding and logs it."""
    with Sender(validating.warn) as sender:
        assert verdict(sender.ask(nameless(8003))) == ("AA", "C8003")
    metrics = httpx.get(f"{validating.house.url}/metrics", timeout=PATIENCE).text
    assert 'bridge_validation_findings_total{error="101",listener="warn"} 1.0' in metrics
    assert "against the structure" in validating.house.log()


def test_at_the_command_line(validating: Validating, tmp_path: Path) -> None:
    """`mapping try --validate` names each finding and exits 1."""
    file = tmp_path / "order.hl7"
    file.write_bytes(nameless(8004))
    out = validating.house.bridge(
        "mapping", "try", "orders", str(file), "--validate", "--json", expect=1
    )
    found = json.loads(out[: out.rindex("]") + 1])[0]["validation"]
    assert ("101", "PID-5") in [(each["code"], each["place"]) for each in found]
    assert "structure error" in validating.house.bridge(
        "mapping", "try", "orders", str(file), "--validate", expect=1
    )
    validating.house.bridge("mapping", "try", "orders", str(file))
