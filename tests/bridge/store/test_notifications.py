"""LISTEN and NOTIFY between Database objects, as between processes."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import NotificationListener
from tests.eventually import PATIENCE

pytestmark = pytest.mark.postgres

CHANNEL = "test_channel"


class Receiver:
    def __init__(self) -> None:
        self.notifications = threading.Semaphore(0)

    def __call__(self) -> None:
        self.notifications.release()

    def wait(self, seconds: float = PATIENCE) -> bool:
        return self.notifications.acquire(timeout=seconds)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def listening(postgres_url: str, receiver: Receiver) -> Iterator[Database]:
    database = Database(postgres_url)
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    assert receiver.wait(), "a listener notifies once at its start"
    yield database
    listener.stop()
    database.dispose()


@pytest.fixture
def other(postgres_url: str) -> Iterator[Database]:
    """The same database in another process."""
    database = Database(postgres_url)
    yield database
    database.dispose()


def test_commits_of_others_notify_and_own_ones_do_not(
    listening: Database, other: Database, receiver: Receiver
) -> None:
    """Other nodes' commits notify. Rolled back changes, other channels and own commits do not."""
    with other.write() as connection:
        other.notify(connection, CHANNEL)
        assert not receiver.wait(0.3)
    assert receiver.wait()
    with listening.write() as connection:
        listening.notify(connection, CHANNEL)
    with other.write() as connection:
        other.notify(connection, "another_channel")
    assert not receiver.wait(0.3)


def test_a_listener_whose_connection_is_cut_listens_again(
    listening: Database, other: Database, receiver: Receiver
) -> None:
    """The listener reconnects, and notifies once for missed commits."""
    with other.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert connection.execute(text(cut)).all()
    assert receiver.wait()
    with other.write() as connection:
        other.notify(connection, CHANNEL)
    assert receiver.wait()


def test_sqlite_has_no_notifications(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """On SQLite a listener can be started and stopped without effect."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('quiet') / 'quiet.db'}")
    receiver = Receiver()
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    with database.write() as connection:
        database.notify(connection, CHANNEL)
    listener.stop()
    assert not receiver.wait(0)
    database.dispose()
