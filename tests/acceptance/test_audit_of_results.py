"""The audit export contains deliveries to receivers beside the actions of users."""

import json

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sink


def test_a_delivered_result_is_audited(running: House, ris: Sink) -> None:
    """Signatures and deliveries are AuditEvents about the same report."""
    running.send(order(4700))
    running.draft("M4700", "A4700", "Normal.")
    running.sign("M4700", "A4700")
    assert ris.about("|A4700|")
    row = running.row("A4700")
    assert row is not None
    report = row["reportId"]

    lines = running.bridge("audit", "export", "--report", report).splitlines()
    events = [json.loads(line) for line in lines]

    assert {event["resourceType"] for event in events} == {"AuditEvent"}
    sent = [event for event in events if event["id"].startswith("delivery-")]
    assert sent, "one for each destination that accepted it"
    assert {event["outcome"] for event in sent} == {"0"}
    assert len(events) > len(sent), "launch and signature"
    assert "M4700" not in "\n".join(lines)
    only = running.bridge("audit", "export", "--report", report, "--action", "sent")
    assert [json.loads(line)["id"] for line in only.splitlines()] == [each["id"] for each in sent]
