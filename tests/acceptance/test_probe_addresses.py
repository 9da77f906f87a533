"""The metrics of a running process."""

import httpx

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict
from tests.eventually import PATIENCE


def test_an_empty_queue_has_depth_zero(running: House) -> None:
    """The queue depth is 0 when all messages are applied, and not its last value."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(order(1201))) == ("AA", "C1201")
    running.settle()
    metrics = httpx.get(f"{running.url}/metrics", timeout=PATIENCE).text

    assert 'bridge_queue_depth{queue="inbox",state="queued"} 0.0' in metrics
    assert 'bridge_queue_depth{queue="inbox",state="claimed"} 0.0' in metrics


def test_counters_contain_no_patient_data(running: House) -> None:
    """Metrics have labels for listener and code, and none for patient, order or control id."""
    with Sender(running.mllp_port) as sender:
        sender.ask(order(1202, mrn="WATCHED-MRN", accession="WATCHED-ACC", msh10="WATCHED-ID"))
    metrics = httpx.get(f"{running.url}/metrics", timeout=PATIENCE).text

    assert 'bridge_acknowledgments_total{code="AA"' in metrics
    assert "WATCHED" not in metrics
