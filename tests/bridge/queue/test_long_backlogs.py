"""A long backlog of one lane does not block the event loop."""

import pytest

from bridge.queue.inbox import Inbox
from bridge.store.database import Database
from bridge.store.errors import Busy
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival

BACKLOG = 2500
"""More messages than one transaction orders."""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_claim_at_once_is_one_transaction(store: Database, intake: Intake) -> None:
    """If many messages wait for one blocked patient, a thread orders them."""
    inbox = Inbox(store, "node")
    intake.enqueue(arrival(patient="1"))
    (first,) = inbox.claim(NOW, 25)
    intake.enqueue(*(arrival(patient="1") for _ in range(BACKLOG)), arrival(patient="2"))

    with pytest.raises(Busy), store.write_lock.hold_without_waiting():
        inbox.claim_without_blobs(NOW, 25)

    (free,) = inbox.claim(NOW, 25)
    assert free.message_id == first.message_id + BACKLOG + 1
