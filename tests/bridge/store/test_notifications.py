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
    """Remembers that it heard."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)

    def __call__(self) -> None:
        self.heard.release()

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Wait until it hears."""
        return self.heard.acquire(timeout=seconds)


@pytest.fixture
def receiver() -> Receiver:
    """What listens."""
    return Receiver()


@pytest.fixture
def here(postgres_url: str, receiver: Receiver) -> Iterator[Database]:
    """A database with a listener that is ready."""
    database = Database(postgres_url)
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    assert receiver.wait(), "a listener looks once, when it begins"
    yield database
    listener.stop()
    database.dispose()


@pytest.fixture
def elsewhere(postgres_url: str) -> Iterator[Database]:
    """The same database, as another process has it."""
    database = Database(postgres_url)
    yield database
    database.dispose()


def test_commits_of_others_notify_and_own_ones_do_not(
    here: Database, elsewhere: Database, receiver: Receiver
) -> None:
    """Neither what is not committed nor one's own words."""
    with elsewhere.write() as connection:
        elsewhere.notify(connection, CHANNEL)
        assert not receiver.wait(0.3)
    assert receiver.wait()
    with here.write() as connection:
        here.notify(connection, CHANNEL)
    with elsewhere.write() as connection:
        elsewhere.notify(connection, "another_channel")
    assert not receiver.wait(0.3)


def test_a_listener_whose_connection_is_cut_listens_again(
    here: Database, elsewhere: Database, receiver: Receiver
) -> None:
    """And looks once, for what it may have missed."""
    with elsewhere.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert connection.execute(text(cut)).all()
    assert receiver.wait()
    with elsewhere.write() as connection:
        elsewhere.notify(connection, CHANNEL)
    assert receiver.wait()


def test_sqlite_has_no_notifications(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A listener may be started and stopped all the same."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('quiet') / 'quiet.db'}")
    receiver = Receiver()
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    with database.write() as connection:
        database.notify(connection, CHANNEL)
    listener.stop()
    assert not receiver.wait(0)
    database.dispose()
