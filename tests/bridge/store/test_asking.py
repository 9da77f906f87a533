"""A loop asks PostgreSQL one statement, and hears of the answer."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import text

from bridge.store.asking import Asking
from bridge.store.database import Database
from bridge.store.errors import StatementRefused

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]
SOON = 20.0
LENGTH = "SELECT length(%b::bytea)::bigint FROM generate_series(1, %b::bigint) AS s"
SLEEP = "SELECT pg_sleep(60) WHERE %b::bigint = 1"
DIVIDE = "SELECT 6 / %b::bigint"

Answer = Sequence[bytes] | None


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """A loop."""
    with asyncio.Runner() as runner:
        yield runner


def eight(number: int) -> bytes:
    """Give a bigint as the server has it."""
    return number.to_bytes(8)


async def ask(asking: Asking, *values: bytes) -> Answer:
    """Ask, and wait for the answer."""
    heard: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asking.ask(values, heard.set_result)
    assert not heard.done()
    return await asyncio.wait_for(heard, SOON)


def test_questions_and_answers(database: Database, runner: asyncio.Runner) -> None:
    """One after the other, short ones and such as no socket takes at once."""

    async def story() -> list[Answer]:
        asking = database.asking(LENGTH)
        asking.watch(asyncio.get_running_loop())
        sizes = (3, 8 * 2**20, 0)
        answers = [await ask(asking, b"x" * size, eight(2)) for size in sizes]
        assert asking.is_open
        asking.close()
        assert not asking.is_open
        return answers

    assert runner.run(story()) == [[eight(n)] * 2 for n in (3, 8 * 2**20, 0)]


def test_a_question_the_server_refuses(database: Database, runner: asyncio.Runner) -> None:
    """Nobody knows then, and nobody is asked again: a connection that is new is known to work."""

    async def story() -> Answer:
        asking = database.asking(DIVIDE)
        asking.watch(asyncio.get_running_loop())
        assert await ask(asking, eight(2)) == [eight(3)]
        answer = await ask(asking, eight(0))
        assert not asking.is_open
        return answer

    assert runner.run(story()) is None


def test_only_the_end_of_an_answer_says_that_it_was_committed(
    database: Database, runner: asyncio.Runner
) -> None:
    """What is refused at the commit had all its rows sent before."""
    with database.write() as connection:
        connection.execute(
            text("CREATE TABLE one (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        )

    async def story() -> tuple[Answer, Answer]:
        asking = database.asking("INSERT INTO one VALUES (%b::bigint) RETURNING id")
        asking.watch(asyncio.get_running_loop())
        return await ask(asking, eight(1)), await ask(asking, eight(1))

    try:
        assert runner.run(story()) == ([eight(1)], None)
    finally:
        with database.write() as connection:
            connection.execute(text("DROP TABLE one"))


def test_a_statement_the_server_does_not_understand(database: Database) -> None:
    """Is found out when it is prepared."""
    with pytest.raises(StatementRefused):
        database.asking("SELECT %b::nothing")


@pytest.mark.parametrize("asked", [True, False], ids=["while it is asked", "while it rests"])
def test_a_connection_that_is_cut(database: Database, runner: asyncio.Runner, asked: bool) -> None:
    """Whoever waits is told; it is closed then, whoever waits or not."""

    async def story() -> Answer:
        asking = database.asking(SLEEP)
        asking.watch(asyncio.get_running_loop())
        answer = asyncio.create_task(ask(asking, eight(1))) if asked else None
        await asyncio.sleep(0.1)
        await asyncio.to_thread(_cut, database)
        async with asyncio.timeout(SOON):
            while asking.is_open:  # noqa: ASYNC110  # it rings no bell
                await asyncio.sleep(0.01)
        return await answer if answer is not None else None

    assert runner.run(story()) is None


def _cut(database: Database) -> None:
    statement = text("""
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
    """)
    with database.write() as connection:
        connection.execute(statement)
