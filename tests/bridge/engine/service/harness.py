"""The use cases of the engine for tests: one site, three users, and a clock that tests set."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.contract.responses import StatusRecordBody
from bridge.engine.records.tables import Account, Site, SiteMembership
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service import change_feed, report_status
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.work import ActorRef, Work, transaction
from bridge.store.database import Database
from tests.bridge.engine.registrations import create_draft, register
from tests.eventually import eventually

SITE = "SITE1"
START = 1_800_000_000_000
PATIENT = {"PatientName": "EXAMPLE^ADA", "PatientBirthDate": "19700102"}


T = TypeVar("T")


class ServiceHarness:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = START
        self.ann, self.bob, self.admin = self._add_users()

    def _add_users(self) -> tuple[int, int, int]:
        with self.database.session() as session:
            session.add(Site(site_id=SITE, name="Example Clinic", created_at=START))
            session.flush()
            ids = []
            for name, role in (
                ("ann", SiteRole.USER),
                ("bob", SiteRole.USER),
                ("admin", "administrator"),
            ):
                account = Account(email=f"{name}@example.org", created_at=START)
                session.add(account)
                session.flush()
                ids.append(account.id or 0)
                keys: dict[str, Any] = {"site_id": SITE, "account_id": ids[-1]}
                session.add(
                    SiteMembership(**keys, created_at=START, role=SiteRole(role), name=name.title())
                )
        return ids[0], ids[1], ids[2]

    @contextmanager
    def work(self) -> Iterator[Work]:
        with transaction(self.database, ActorRef(self.admin), self.now) as work:
            yield work

    def do(self, service: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a use case in its own transaction."""
        with self.work() as work:
            return service(work, *args, **options)

    def await_lock(self, call: Future[Any]) -> None:
        """Wait until a call ends or waits for a lock; SQLite does not report lock waits."""
        query = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )

        def is_waiting() -> bool:
            with self.database.read() as connection:
                return bool(connection.execute(query).scalar_one())

        if self.database.dialect == "postgresql":
            eventually(lambda: call.done() or is_waiting())

    def later(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    def delay(self, seconds: int) -> None:
        with self.database.session() as session:
            site = session.get(Site, SITE)
            assert site is not None
            site.sign_delay = seconds
            session.add(site)

    def identity(self, accession: str, mrn: str = "M1") -> OrderKey:
        return OrderKey(SITE, mrn, accession)

    def order(self, accession: str, mrn: str = "M1", **tags: str) -> OrderKey:
        self.do(register, SITE, OrderInput(mrn, accession, tags=PATIENT | tags))
        return self.identity(accession, mrn)

    def draft(
        self, accession: str, mrn: str = "M1", text: str = "Clear lungs.", **tags: str
    ) -> OrderKey:
        order = OrderInput(mrn, accession, tags=PATIENT | tags)
        self.do(create_draft, SITE, order, SiteUser(self.ann, "ann@example.org", "Ann"), text)
        return self.identity(accession, mrn)

    def on_report(
        self, identity: OrderKey, service: Callable[..., T], *args: Any, **options: Any
    ) -> T:
        with self.work() as work:
            return service(work, lock_report(work, identity).report, *args, **options)

    def group(self, identity: OrderKey) -> list[OrderKey]:
        """Return the orders of the report of an order, the anchor first."""
        orders = self.record(identity).orders
        return [OrderKey(order.site, order.mrn, order.accession) for order in orders]

    def record(self, identity: OrderKey) -> StatusRecordBody:
        with self.work() as work:
            return report_status.query_status(work.connection, [identity], self.now)[0]

    def status(self, identity: OrderKey) -> str:
        return self.record(identity).status.value

    def content(self, identity: OrderKey) -> str:
        with self.work() as work:
            return report_status.read_report(work.session, identity).content_text

    def changes(self, after: int = 0) -> list[dict[str, Any]]:
        with self.database.read() as connection:
            return [
                dict(change)
                for change in change_feed.read_changes(connection, [SITE], after, 1000).changes
            ]

    def events(self, after: int = 0) -> list[str]:
        return [change["event"] for change in self.changes(after)]

    def releases(self) -> list[tuple[str, int]]:
        """The kind and sequence of each release, in order."""
        return [
            (change["release"]["kind"], change["release"]["sequence"])
            for change in self.changes()
            if change["release"]
        ]
