"""Validation over the wire and at the command line."""

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
class Gate:
    """A house and its ports: one that refuses, one that warns."""

    house: House
    refuse: int
    warn: int


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One service with two validating listeners."""
    house = House(tmp_path_factory.mktemp("gate") / "home")
    ports = {each: house.listener(each, validate=each) for each in ("refuse", "warn")}
    house.make()
    house.start()
    yield Gate(house, **ports)
    assert house.stop() == 0


def nameless(number: int) -> bytes:
    """An order without PID-5, which the structure requires and the mapping does not."""
    return order(number, name="")


def test_refuse(gate: Gate) -> None:
    """AE with the code and place of what is missing; a valid one is taken."""
    with Sender(gate.refuse) as sender:
        sender.post(nameless(8001), order(8002))
        first, second = sender.reply(), sender.reply()
    assert verdict(first) == ("AE", "C8001")
    assert first is not None
    assert "PID^1^5" in segment(first, b"ERR").replace("&", "^")
    assert "|101" in segment(first, b"ERR")
    assert verdict(second) == ("AA", "C8002")


def test_warn(gate: Gate) -> None:
    """Taken, counted, and told in the log by code and place."""
    with Sender(gate.warn) as sender:
        assert verdict(sender.ask(nameless(8003))) == ("AA", "C8003")
    metrics = httpx.get(f"{gate.house.url}/metrics", timeout=PATIENCE).text
    assert 'bridge_validation_findings_total{error="101",listener="warn"} 1.0' in metrics
    assert "against the structure" in gate.house.log()


def test_at_the_command_line(gate: Gate, tmp_path: Path) -> None:
    """`mapping try --validate` names each finding and exits 1."""
    file = tmp_path / "order.hl7"
    file.write_bytes(nameless(8004))
    out = gate.house.bridge("mapping", "try", "orders", str(file), "--validate", "--json", expect=1)
    found = json.loads(out[: out.rindex("]") + 1])[0]["validation"]
    assert ("101", "PID-5") in [(each["code"], each["place"]) for each in found]
    assert "structure error" in gate.house.bridge(
        "mapping", "try", "orders", str(file), "--validate", expect=1
    )
    gate.house.bridge("mapping", "try", "orders", str(file))
