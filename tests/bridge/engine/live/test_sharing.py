"""Group commit: what shares a transaction succeeds and fails each on its own, on both databases."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import event, insert

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent
from bridge.engine.errors import EngineError, ReportNotFound
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.records.tables import Site, metadata
from bridge.engine.rules.identity import OrderId
from bridge.engine.service import change_feed
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from tests.bridge.engine.service.ward import SITE, START, Ward

Use = Callable[[Work], object]
SITES = metadata.tables[str(Site.__tablename__)]


class BrokenError(Exception):
    """A defect in one piece of work."""


@pytest.fixture
def ward(database: Database) -> Ward:
    """An engine's database with a site and people."""
    return Ward(database)


@pytest.fixture
def workshop(ward: Ward) -> Iterator[DatabaseExecutor]:
    """The way from the loop to that database."""
    workshop = DatabaseExecutor(ward.database, 4)
    yield workshop
    workshop.close()


def order(accession: str) -> Use:
    """Register an order and note it."""

    def use(work: Work) -> str:
        work.audit(AuditEvent("order", SITE, details={"name": accession}))
        return register(work, SITE, OrderInput("M1", accession)).report_id

    return use


def after(first: Use, error: Exception) -> Use:
    """Do something, then fail."""

    def use(work: Work) -> None:
        first(work)
        raise error

    return use


def together(workshop: DatabaseExecutor, *uses: Use) -> list[object]:
    """Ask for all of it in one turn of the loop; return results and errors."""

    async def asking() -> list[object]:
        # The first goes alone and holds the lanes, so that the others meet.
        return await asyncio.gather(
            *(workshop.change(ActorRef(), START, use) for use in uses), return_exceptions=True
        )

    return asyncio.run(asking())


def feed_of(ward: Ward) -> list[str]:
    """Return the accessions that the feed tells of, in its order."""
    with ward.database.read() as connection:
        page = change_feed.read_changes(connection, [SITE], 0, 1000)
    return [each["orders"][0]["Accession"] for each in page.changes]


def trail_of(ward: Ward) -> list[str]:
    """Return what the audit trail tells of, in its order; its chain holds."""
    with ward.database.read() as connection:
        assert ENGINE_CHAIN.verify(connection).broken is None
        rows = connection.execute(
            ENGINE_CHAIN.table.select().order_by(ENGINE_CHAIN.table.c.sequence)
        )
        return [row.details["name"] for row in rows if row.action == "order"]


def test_neighbours_of_a_failure_are_kept_and_it_is_not(
    ward: Ward, workshop: DatabaseExecutor
) -> None:
    """Refusals, defects and broken statements undo their own piece; feed and trail know nothing."""
    uses = [
        order("A"),
        after(order("B"), ReportNotFound()),
        order("C"),
        after(order("D"), BrokenError()),
        lambda work: work.connection.exec_driver_sql("SELECT nothing FROM nowhere"),
        order("E"),
    ]
    a, b, c, d, broken, e = together(workshop, *uses)
    assert all(isinstance(each, str) for each in (a, c, e))
    assert isinstance(b, ReportNotFound)
    assert isinstance(d, BrokenError)
    assert isinstance(broken, Exception)
    assert feed_of(ward) == trail_of(ward) == ["A", "C", "E"]


def test_a_taken_key_is_the_trouble_of_whoever_comes_second(
    ward: Ward, workshop: DatabaseExecutor
) -> None:
    """A unique key that is taken is tried again alone, then refused; the others are kept."""

    def twice(work: Work) -> None:
        order("T")(work)
        work.connection.execute(insert(SITES).values(site_id=SITE, created_at=START))

    outcomes = together(workshop, order("A"), twice, order("B"))
    assert isinstance(outcomes[1], EngineError)
    assert outcomes[1].code == "changed"
    assert feed_of(ward) == ["A", "B"]


def test_pieces_see_what_those_before_them_did(ward: Ward, workshop: DatabaseExecutor) -> None:
    """Two that sign one report at once: one signs, the other is told that it is signed."""
    ward.draft("A")
    uses: list[Use] = [lambda work: sign(work, OrderId(SITE, "M1", "A")).report_id] * 6
    outcomes = together(workshop, *uses)
    codes = [each.code for each in outcomes if isinstance(each, EngineError)]
    assert codes == ["already_signed"] * 5
    assert ward.releases() == [("final", 1)]


def test_many_share_few_commits(ward: Ward, workshop: DatabaseExecutor) -> None:
    """Forty that wait at once are durable with fewer commits than ten, each announced once."""
    commits: list[object] = []
    event.listen(ward.database.engine, "commit", commits.append)
    outcomes = together(workshop, *(order(f"A{number}") for number in range(40)))
    assert len({str(each) for each in outcomes}) == 40
    assert sorted(feed_of(ward)) == sorted(f"A{number}" for number in range(40))
    assert len(commits) < 10


@pytest.mark.parametrize("spoiled", ["A1", "A3"])
def test_minutes_that_cannot_be_written_fail_only_their_piece(
    ward: Ward, workshop: DatabaseExecutor, spoiled: str
) -> None:
    """A deed that no trail takes undoes its own work; its neighbours go alone and are kept."""

    def use(name: str) -> Use:
        def noting(work: Work) -> object:
            work.audit(AuditEvent("order", SITE, details={"name": name, "odd": object()}))
            return register(work, SITE, OrderInput("M1", name)).report_id

        return noting if name == spoiled else order(name)

    outcomes = together(workshop, *(use(f"A{number}") for number in range(5)))
    failed = [f"A{n}" for n, each in enumerate(outcomes) if isinstance(each, Exception)]
    assert failed == [spoiled]
    assert (
        sorted(feed_of(ward))
        == sorted(trail_of(ward))
        == sorted({f"A{number}" for number in range(5)} - {spoiled})
    )


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_who_waits_for_a_lock_leaves_the_party(ward: Ward, workshop: DatabaseExecutor) -> None:
    """A report that another node holds holds up nobody but those who want that report."""
    for name in "AB":
        ward.draft(name)

    async def asking() -> str:
        with ward.work() as other:
            lock_report(other, OrderId(SITE, "M1", "A"))
            held = asyncio.gather(*(_signing(workshop, "A") for _ in range(2)))
            free = asyncio.gather(*(_signing(workshop, f"{n}") for n in "B"))
            await asyncio.wait_for(free, 10)
            assert not held.done()
        codes = await asyncio.wait_for(held, 20)
        return " ".join(sorted(codes))

    assert asyncio.run(asking()) == "already_signed signed"


async def _signing(workshop: DatabaseExecutor, accession: str) -> str:
    try:
        await workshop.change(
            ActorRef(), START, lambda work: sign(work, OrderId(SITE, "M1", accession)).report_id
        )
    except EngineError as refusal:
        return refusal.code
    return "signed"
