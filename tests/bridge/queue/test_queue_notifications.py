"""Changes of the queues notify the other nodes; a replay notifies this node as well."""

from collections.abc import Callable, Iterator

import pytest

from bridge.queue import operations
from bridge.queue.claims import MessageOutcome
from bridge.queue.deliveries import DeliveryOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, release
from tests.eventually import eventually

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

Marks = Callable[[], list[str]]


@pytest.fixture
def marks(store: Database) -> Iterator[Marks]:
    driver = store.dedicated_connection()
    driver.autocommit = True
    driver.execute(f"LISTEN {CHANNEL}")
    received: list[str] = []
    driver.add_notify_handler(lambda each: received.append(each.payload))

    def wait() -> list[str]:
        eventually(lambda: driver.execute("SELECT 1") and received)
        found = list(received)
        received.clear()
        return found

    yield wait
    driver.close()


def test_messages(store: Database, intake: Intake, inbox: Inbox, marks: Marks) -> None:
    """Released and cancelled messages notify others, replayed ones everybody."""
    (number,) = enqueue(intake, "1")
    inbox.claim(NOW, 10)
    inbox.release([number], NOW)
    assert marks() == [store.notification_id]

    operations.cancel_message(store, number)
    assert marks() == [store.notification_id]

    operations.replay_message(store, number)
    assert marks() == [""]

    inbox.claim(NOW, 10)
    inbox.settle([MessageOutcome(number, QueueEvent.GIVEN_UP, code="name")], NOW)
    with store.write() as connection:
        operations.replay_parked(store, connection, "name", arrival(patient="1").lanes)
    assert marks() == [""]


def test_deliveries(store: Database, marks: Marks) -> None:
    """New, released, retried and skipped deliveries notify others."""
    outbox = Outbox(store, "node-1")
    with store.write() as connection:
        outbox.enqueue(connection, [release()], NOW)
    assert marks() == [store.notification_id]

    (claimed,) = outbox.claim("ris-results", NOW, 10)
    outbox.release([claimed.delivery_id], NOW)
    assert marks() == [store.notification_id]

    outbox.claim("ris-results", NOW, 10)
    outbox.settle([DeliveryOutcome(claimed.delivery_id, QueueEvent.GIVEN_UP)], NOW)
    operations.retry_delivery(store, claimed.delivery_id)
    assert marks() == [store.notification_id]

    operations.skip_delivery(store, claimed.delivery_id)
    assert marks() == [store.notification_id]
