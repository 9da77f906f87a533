"""What a process tells those who watch it: health, readiness, metrics."""

import httpx

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict
from tests.eventually import PATIENCE


def test_an_empty_queue_is_shown_empty(running: House) -> None:
    """When all is applied, the depth of the queue is shown as nothing, not as it was last."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(order(1201))) == ("AA", "C1201")
    running.settle()
    shown = httpx.get(f"{running.url}/metrics", timeout=PATIENCE).text

    assert 'bridge_queue_depth{queue="inbox",state="queued"} 0.0' in shown
    assert 'bridge_queue_depth{queue="inbox",state="claimed"} 0.0' in shown


def test_counters_name_nobody(running: House) -> None:
    """Metrics count by listener and code, and never by patient, order or control id."""
    with Sender(running.mllp_port) as sender:
        sender.ask(order(1202, mrn="WATCHED-MRN", accession="WATCHED-ACC", msh10="WATCHED-ID"))
    shown = httpx.get(f"{running.url}/metrics", timeout=PATIENCE).text

    assert 'bridge_acknowledgments_total{code="AA"' in shown
    assert "WATCHED" not in shown
