"""`bridge serve` is two processes: one receives messages, its child does everything else."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.forked import started
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.serving import Serving, is_running
from tests.acceptance.wire import Sender, verdict
from tests.eventually import PATIENCE, eventually


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    url = "" if database_url.startswith("sqlite") else database_url
    made = House(tmp_path / "home", database=url)
    made.make()
    yield made
    made.kill()


def test_the_service_process_is_killed(house: House) -> None:
    """Messages are acknowledged while it is gone; it is started again and applies them."""
    service = house.start()
    killed = service.child()
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(1)))[0] == "AA"
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: not is_running(killed))
        assert verdict(sender.ask(order(2)))[0] == "AA"
        eventually(service.child)
    eventually(lambda: "service process ended" in house.log())
    eventually(service.is_ready)
    house.settle()

    assert service.child() != killed
    assert {row["clinicalInfo"][0]["Accession"] for row in house.worklist()} == {"A1", "A2"}
    assert house.stop() == 0


def test_the_process_that_receives_is_killed(house: House) -> None:
    """The service process ends, too; another start applies what was acknowledged."""
    house.program = started
    service = house.start()
    child = service.child()
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(1)))[0] == "AA"
    service.kill()
    eventually(lambda: not is_running(child))
    house.start()
    house.settle()

    assert [row["clinicalInfo"][0]["Accession"] for row in house.worklist()] == ["A1"]


def test_both_stop(house: House) -> None:
    """SIGTERM to both, as systemd sends it, finishes the work in progress and exits 0."""
    service = house.start()
    child = service.child()
    os.kill(child, signal.SIGTERM)

    assert service.is_ready()
    assert house.stop() == 0
    assert not is_running(child)


def test_an_acknowledgment_after_the_effect(house: House) -> None:
    """A sender waits for the other process with `acknowledge = "applied"`."""
    house.listener_extra = 'acknowledge = "applied"'
    house.configure()
    house.start()
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(1)))[0] == "AA"
        rows = house.worklist()

    assert [row["clinicalInfo"][0]["Accession"] for row in rows] == ["A1"]


def test_metrics_of_both(house: House) -> None:
    """One page has what was received and what was applied."""
    house.start()
    house.send(order(1))

    assert house.metric('bridge_mllp_frames_total{listener="orders"}') == 1
    labels = 'code="",listener="orders",outcome="accepted"'
    assert house.metric(f"bridge_messages_applied_total{{{labels}}}") == 1


def test_the_service_process_cannot_start(house: House) -> None:
    """The whole service does not start, and no port is open."""
    house.program = started
    (house.home / "secrets" / "link.keys").write_text("no key", "utf-8")
    failed = Serving(house.home, house.url, (), {}, house.program)

    assert failed.process.wait(PATIENCE) == 2  # as `bridge check` and each other command
    assert "link.keys" in failed.log()
    assert "listening" not in failed.log()
