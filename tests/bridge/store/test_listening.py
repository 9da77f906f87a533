"""LISTEN and NOTIFY between Database objects as between processes; each knows its own mark."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.postgresql.notifications import NotificationListener

pytestmark = pytest.mark.postgres

CHANNEL = "test_channel"
SOON = 20.0


class Ear:
    """Remembers that it heard."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)

    def __call__(self) -> None:
        self.heard.release()

    def wait(self, seconds: float = SOON) -> bool:
        """Wait until it hears."""
        return self.heard.acquire(timeout=seconds)


@pytest.fixture
def ear() -> Ear:
    """What listens."""
    return Ear()


@pytest.fixture
def here(postgres_url: str, ear: Ear) -> Iterator[Database]:
    """A database with a listener that is ready."""
    database = Database(postgres_url)
    listener = NotificationListener(database, CHANNEL, ear)
    listener.start()
    assert ear.wait(), "a listener looks once, when it begins"
    yield database
    listener.stop()
    database.dispose()


@pytest.fixture
def elsewhere(postgres_url: str) -> Iterator[Database]:
    """The same database, as another process has it."""
    database = Database(postgres_url)
    yield database
    database.dispose()


def test_others_are_heard_at_their_commit_and_oneself_never(
    here: Database, elsewhere: Database, ear: Ear
) -> None:
    """Neither what is not committed nor one's own words."""
    with elsewhere.write() as connection:
        elsewhere.notify(connection, CHANNEL)
        assert not ear.wait(0.3)
    assert ear.wait()
    with here.write() as connection:
        here.notify(connection, CHANNEL)
    with elsewhere.write() as connection:
        elsewhere.notify(connection, "another_channel")
    assert not ear.wait(0.3)


def test_a_listener_whose_connection_is_cut_listens_again(
    here: Database, elsewhere: Database, ear: Ear
) -> None:
    """And looks once, for what it may have missed."""
    with elsewhere.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert connection.execute(text(cut)).all()
    assert ear.wait()
    with elsewhere.write() as connection:
        elsewhere.notify(connection, CHANNEL)
    assert ear.wait()


def test_on_sqlite_nobody_is_heard_and_nothing_runs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A listener may be started and stopped all the same."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('quiet') / 'quiet.db'}")
    ear = Ear()
    listener = NotificationListener(database, CHANNEL, ear)
    listener.start()
    with database.write() as connection:
        database.notify(connection, CHANNEL)
    listener.stop()
    assert not ear.wait(0)
    database.dispose()
