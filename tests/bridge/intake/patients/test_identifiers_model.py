"""
No order is shown under a patient who is not its own, whatever happens to the patient numbers.

Hypothesis drives a model in plain Python, and a whole bridge with a real engine. An order belongs
to the number with which it was sent, and this number leads to its survivor until the merge is
undone. An order whose visit moves belongs to the visit's new patient. Undoing the last merge
restores the state before it. Of a merge and its undo, the one that was sent later takes precedence,
whichever arrives first.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, permutations
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from bridge.admin.orders.merges import undo_pointer
from bridge.intake.process.scheduled_steps import StepWriter
from bridge.store.database import Database
from bridge.store.records import patient_records
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.messages import IDS
from tests.conftest import empty
from tests.databases import fresh_file

T = TypeVar("T")


@dataclass(frozen=True)
class Person:
    mrn: str
    name: str
    birth: str

    @property
    def identity(self) -> tuple[str, str]:
        return self.name, self.birth

    @property
    def pid(self) -> str:
        return f"PID|1||{self.mrn}^^^NORTH^MR||{self.name}||{self.birth}|F\r"


PEOPLE = {
    person.mrn: person
    for person in (
        Person("7020", "SURVIVOR^EVA", "19800203"),
        Person("7021", "FREED^IDA", "19610607"),
        Person("7022", "SURVIVOR^EVA", "19800203"),
        Person("7023", "FREED^IDA", "19610607"),
    )
}
NUMBERS = st.sampled_from(sorted(PEOPLE))
UNDOING = st.sampled_from(["A43", "A37", "operator"])
STUDIES = st.sampled_from(["", "", "1.2.3", "1.2.4"])


def pairs(numbers: list[str]) -> st.SearchStrategy[tuple[str, str]]:
    """A survivor and the number that is merged into it."""
    return st.permutations(numbers).map(lambda drawn: (drawn[0], drawn[1]))


def pv1_of(visit: str) -> str:
    return "PV1|1|O" + "|" * 17 + f"{visit}\r"


def mrg_of(prior: str) -> str:
    return f"MRG|{prior}^^^NORTH^MR||||||{PEOPLE[prior].name}\r"


@dataclass
class ModelOrder:
    number: str
    """The number to which it belongs; it leads to the patient under whom it is shown."""
    sent_with: str
    study: str
    visit: str = ""
    path: frozenset[str] = frozenset()
    """The merged numbers that led to its survivor when it was shown first."""
    waits: bool = False
    """Its message contradicts the survivor and is parked."""
    shown_at: int = 0
    signed_at: int | None = None


@dataclass(frozen=True)
class Pointer:
    into: str
    at: int
    sent: int


@dataclass(frozen=True)
class Change:
    """A merge or an undo as it was sent, and when."""

    trigger: str
    segments: tuple[str, ...]
    prior: str
    named: str
    """The survivor that the message named."""
    sent: int

    @property
    def merges(self) -> bool:
        return self.trigger not in {"A43", "A37"}


class Identifiers(RuleBasedStateMachine):
    address = ""
    """The address of a PostgreSQL database; without one, each example has a new SQLite file."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        folder = Path(self.folder.name)
        if self.address:
            empty(self.address)
        self.database = Database(self.address or fresh_file(folder / "bridge.db"))
        self.runner = asyncio.Runner()
        self.open = open_hospital(folder, self.database)
        self.hospital = self.runner.run(self.open.__aenter__())
        self.orders: dict[str, ModelOrder] = {}
        self.pointers: dict[str, Pointer] = {}
        self.changes: list[Change] = []
        self.separated: dict[tuple[str, str], int] = {}
        self.sent: list[bytes] = []
        self.is_burst = False
        self.visits: dict[str, str] = {}
        self.times, self.numbers = count(1), count(1)

    @override
    def teardown(self) -> None:
        self.runner.run(self.open.__aexit__(None, None, None))
        self.runner.close()
        self.database.dispose()
        self.folder.cleanup()

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return self.runner.run(run())

    def _send(self, payload: bytes) -> None:
        self.sent.append(payload)
        send = self.hospital.hand_over if self.is_burst else self.hospital.send
        ack = self._run(lambda: send(payload))
        assert ack.code == "AA", (ack, self.hospital.rows("SELECT state, code FROM message"))
        self.hospital.time.leap += 1000

    def _event(self, trigger: str, *segments: str, sent: int = 0) -> int:
        """Send an event now, or one that was sent at another time (ms); return this time."""
        sent = sent or self.hospital.time()
        head = self._head(f"ADT^{trigger}", sent) + f"EVN|{trigger}\r"
        self._send((head + "".join(segments)).encode())
        return sent

    def _head(self, message_type: str, sent: int) -> str:
        at = datetime.fromtimestamp(sent // 1000, UTC)
        return (
            f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|{at:%Y%m%d%H%M%S}+0000||{message_type}"
            f"|S{next(IDS)}|P|2.5.1\r"
        )

    def _change(self, trigger: str, prior: str, named: str, *segments: str, sent: int = 0) -> int:
        """Send a merge or an undo."""
        sent = self._event(trigger, *segments, sent=sent)
        self.changes.append(Change(trigger, segments, prior, named, sent))
        return sent

    def _survivor(self, number: str) -> str:
        while number in self.pointers:
            number = self.pointers[number].into
        return number

    def _contradicts(self, number: str) -> bool:
        return PEOPLE[number].identity != PEOPLE[self._survivor(number)].identity

    def _path(self, number: str) -> frozenset[str]:
        found: set[str] = set()
        while number in self.pointers:
            found.add(number)
            number = self.pointers[number].into
        return frozenset(found)

    @rule(data=st.data(), study=STUDIES, of_visit=st.booleans(), late=st.sampled_from([0, 0, 9]))
    def order(self, data: st.DataObject, study: str, of_visit: bool, late: int) -> None:
        """A new order, or one that arrives late. It waits if its number leads to another person."""
        self._order(data.draw(self._numbers()), study, of_visit=of_visit, late=late * 1000)

    def _numbers(self) -> st.SearchStrategy[str]:
        return st.sampled_from([*sorted(self.pointers), *sorted(PEOPLE)])

    @precondition(lambda self: len(self._free()) > 1 and self._explains_all())
    @rule(data=st.data(), study=STUDIES)
    def send_at_once(self, data: st.DataObject, study: str) -> None:
        """Messages about two patients arrive faster than they are applied."""
        survivor, prior = data.draw(pairs(self._free()))
        way = data.draw(st.sampled_from(["", "A43", "A37"]))
        self.is_burst = True
        self._order(prior, study)
        self._order(survivor, study)
        self._merge("A40", survivor, prior)
        self._order(prior, study)
        if way:
            self._undo(prior, way)
            self._order(prior, study)
        self.is_burst = False
        self._run(self.hospital.applied)

    def _order(self, number: str, study: str, *, of_visit: bool = False, late: int = 0) -> None:
        accession = f"F{next(self.numbers)}"
        head = self._head("ORM^O01", self.hospital.time() - late)
        group = (
            f"ORC|NW|P{accession}|{accession}\rOBR|1|P{accession}|{accession}|X^CT Head^L"
            f"||||||||||||||{accession}||||||CT\r"
        )
        study_segment = f"ZDS|{study}\r" if study else ""
        visit = f"V{number}" if of_visit and f"V{number}" not in self.visits else ""
        pv1 = pv1_of(visit) if visit else ""
        self._send((head + PEOPLE[number].pid + pv1 + group + study_segment).encode())
        order = ModelOrder(number, number, study, visit, waits=self._contradicts(number))
        self._show(order)
        self.orders[accession] = order

    def _show(self, order: ModelOrder) -> None:
        order.path, order.shown_at = self._path(order.number), next(self.times)

    def _free(self) -> list[str]:
        return sorted(PEOPLE.keys() - self.pointers.keys())

    @precondition(lambda self: len(self._free()) > 1)
    @rule(trigger=st.sampled_from(["A40", "A34", "A18", "A30"]), data=st.data())
    def merge(self, trigger: str, data: st.DataObject) -> None:
        """A merge of two numbers that lead nowhere yet."""
        self._merge(trigger, *data.draw(pairs(self._free())))

    @precondition(lambda self: self._renumbered())
    @rule(data=st.data(), trigger=st.sampled_from(["A46", "A47"]))
    def renumber(self, data: st.DataObject, trigger: str) -> None:
        """A person gets another number."""
        self._merge(trigger, *data.draw(st.sampled_from(self._renumbered())))

    def _renumbered(self) -> list[tuple[str, str]]:
        return [
            (now, prior)
            for now, prior in permutations(self._free(), 2)
            if PEOPLE[now].identity == PEOPLE[prior].identity
        ]

    @precondition(lambda self: self._same_person())
    @rule(data=st.data())
    def merge_into_merged(self, data: st.DataObject) -> None:
        """A merge into a number that leads to another number of the same person."""
        survivor = data.draw(st.sampled_from(self._same_person()))
        others = sorted({*self._free()} - {self._survivor(survivor)})
        if others:
            self._merge("A40", survivor, data.draw(st.sampled_from(others)))

    def _same_person(self) -> list[str]:
        return [number for number in sorted(self.pointers) if not self._contradicts(number)]

    @precondition(lambda self: self.pointers)
    @rule(data=st.data())
    def merge_again(self, data: st.DataObject) -> None:
        """The merge is sent once more, as another message."""
        prior = data.draw(st.sampled_from(sorted(self.pointers)))
        survivor = self._survivor(prior)
        sent = self._change("A40", prior, survivor, PEOPLE[survivor].pid, mrg_of(prior))
        self.pointers[prior] = replace(self.pointers[prior], sent=sent)

    @rule(data=st.data())
    def link(self, data: st.DataObject) -> None:
        """Two numbers are linked (A24) and unlinked (A37) without a merge of them."""
        one, other = data.draw(pairs(sorted(PEOPLE)))
        if self._survivor(one) != self._survivor(other):
            self._event("A24", PEOPLE[one].pid, "PV1|1|O\r", PEOPLE[other].pid)
            sent = self._event("A37", PEOPLE[one].pid, PEOPLE[other].pid)
            self._separate(sent, (one, other), (other, one))

    @precondition(lambda self: len(self._free()) > 1)
    @rule(data=st.data(), trigger=st.sampled_from(["A45", "A44"]))
    def move_visit(self, data: st.DataObject, trigger: str) -> None:
        """A visit or account belongs to another patient, or again. Texts that were begun stay."""
        patient, prior = data.draw(pairs(self._free()))
        visits = [f"V{number}" for number in PEOPLE]
        own = [visit for visit in visits if self.visits.get(visit, visit[1:]) == prior]
        if not own:
            return
        visit = data.draw(st.sampled_from(own))
        if trigger == "A45":
            mrg = f"MRG|{prior}^^^NORTH^MR||||{visit}\r"
            self._event("A45", PEOPLE[patient].pid, mrg, pv1_of(visit))
        else:
            pid = PEOPLE[patient].pid.strip() + "|" * 10 + f"{visit}\r"
            self._event("A44", pid, f"MRG|{prior}^^^NORTH^MR||{visit}\r")
        self.visits[visit] = patient
        for order in self.orders.values():
            is_own = order.visit == visit and self._survivor(order.number) == prior
            if is_own and not order.waits and order.signed_at is None:
                order.number, order.path = patient, frozenset()

    def _merge(self, trigger: str, survivor: str, prior: str) -> None:
        sent = self._change(trigger, prior, survivor, PEOPLE[survivor].pid, mrg_of(prior))
        self.pointers[prior] = Pointer(survivor, next(self.times), sent)

    def _separate(self, sent: int, *pairs: tuple[str, str]) -> None:
        for pair in pairs:
            self.separated[pair] = max(sent, self.separated.get(pair, 0))

    @precondition(lambda self: len(self._free()) > 1)
    @rule(data=st.data(), way=st.sampled_from(["A43", "A37"]))
    def undo_overtakes_merge(self, data: st.DataObject, way: str) -> None:
        """The merge was sent first and arrives last. It has no effect."""
        survivor, prior = data.draw(pairs(self._free()))
        merged = self.hospital.time()
        self.hospital.time.leap += 1000
        self._send_undo(prior, survivor, way)
        self._change("A40", prior, survivor, PEOPLE[survivor].pid, mrg_of(prior), sent=merged)

    @precondition(lambda self: self._overtaken())
    @rule(data=st.data())
    def arrives_late(self, data: st.DataObject) -> None:
        """A merge or undo arrives once more, as another message, after later ones of the two."""
        change = data.draw(st.sampled_from(self._overtaken()))
        self._event(change.trigger, *change.segments, sent=change.sent)

    def _overtaken(self) -> list[Change]:
        return [change for change in self.changes if self._is_overtaken(change)]

    def _is_overtaken(self, change: Change) -> bool:
        if not change.merges:
            both = (change.prior, change.named) if change.trigger == "A37" else (change.prior,)
            own = [self.pointers[number] for number in both if number in self.pointers]
            return all(pointer.sent > change.sent for pointer in own)
        if self._contradicts(change.named) or self._survivor(change.named) == change.prior:
            return False  # it waits, or is refused
        pointer = self.pointers.get(change.prior)
        if pointer is not None and pointer.into == change.named:
            return True
        return self.separated.get((change.prior, change.named), 0) > change.sent

    @precondition(lambda self: self.pointers)
    @rule(data=st.data(), way=UNDOING)
    def undo(self, data: st.DataObject, way: str) -> None:
        """Any merge is undone, by a message or by an operator."""
        self._undo(data.draw(st.sampled_from(sorted(self.pointers))), way)

    def _undo(self, prior: str, way: str) -> None:
        survivor = self._survivor(prior)
        if way == "operator":
            self._run(lambda: self._undo_as_operator(prior))
        else:
            sent = self._send_undo(prior, survivor, way)
            self._separate(sent, (prior, self.pointers[prior].into))
        self._undone(prior, survivor)

    def _send_undo(self, prior: str, survivor: str, way: str) -> int:
        if way == "A43":
            segments = (PEOPLE[prior].pid, f"MRG|{survivor}^^^NORTH^MR\r")
        else:
            segments = (PEOPLE[prior].pid, PEOPLE[survivor].pid)
        sent = self._change(way, prior, survivor, *segments)
        self._separate(sent, (prior, survivor))
        if way == "A37":
            self._separate(sent, (survivor, prior))
        return sent

    async def _undo_as_operator(self, prior: str) -> None:
        patient = (SITE, prior)
        with self.database.read() as connection:
            pointer = patient_records.merge_pointers(connection, [patient])[patient]
        await undo_pointer(self.database, self.hospital.client, pointer, StepWriter())
        self.hospital.worker.notify()
        await self.hospital.applied()

    def _undone(self, prior: str, survivor: str) -> None:
        """
        What was signed under the survivor's name since the merge stays with the survivor, and what
        came since the merge and names another person than that of the freed number.
        """
        own = [
            order
            for order in self.orders.values()
            if not order.waits and self._passes(order.number, prior)
        ]
        merged_at = self.pointers.pop(prior).at
        for order in own:
            is_signed = order.signed_at is not None and order.signed_at > merged_at
            names_other = PEOPLE[order.sent_with].identity != PEOPLE[prior].identity
            came_through = prior in order.path and order.shown_at > merged_at
            if is_signed or (names_other and came_through):
                order.number = survivor

    def _passes(self, number: str, prior: str) -> bool:
        while number in self.pointers and number != prior:
            number = self.pointers[number].into
        return number == prior

    @precondition(lambda self: len(self._free()) > 1 and self._shows_all())
    @rule(data=st.data(), way=UNDOING)
    def merge_and_undo(self, data: st.DataObject, way: str) -> None:
        """Undoing the last merge restores the state before it."""
        survivor, prior = data.draw(pairs(self._free()))
        before = self._run(self._state)
        self._merge("A40", survivor, prior)
        self._undo(prior, way)
        assert self._run(self._state) == before

    @rule(number=NUMBERS, trigger=st.sampled_from(["A28", "A31", "A08"]))
    def correct(self, number: str, trigger: str) -> None:
        """A correction with the person's own data changes nobody else."""
        self._event(trigger, PEOPLE[number].pid)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """The sender did not get an acknowledgment."""
        self._send(data.draw(st.sampled_from(self.sent[-1:] * 5 + self.sent)))

    def _unsigned(self) -> list[str]:
        """Return the orders that share a report with no other, those of merged numbers first."""
        found = [
            accession
            for accession, order in self.orders.items()
            if not order.waits and not order.study and order.signed_at is None
        ]
        return sorted(found, key=lambda accession: self.orders[accession].number in self._free())

    @precondition(lambda self: self._unsigned())
    @rule(data=st.data())
    def sign(self, data: st.DataObject) -> None:
        """A radiologist signs a report."""
        accession = data.draw(st.sampled_from(self._unsigned()))
        order = self.orders[accession]
        mrn = self._survivor(order.number)
        self._run(lambda: self.hospital.read_and_sign(accession, "Normal.", mrn))
        self.hospital.time.leap += 1000
        order.signed_at = next(self.times)

    async def _listed(self) -> dict[str, Any]:
        rows = (await self.hospital.client.worklist(SITE)).items
        return {
            listed["Accession"]: {**listed, "status": row["status"], "together": len(row["orders"])}
            for row in rows
            for listed in row["orders"]
        }

    async def _state(self) -> dict[str, Any]:
        """Return what a merge can change, without identifiers that need not be the same."""
        orders = (
            "SELECT accession, mrn, state, tags, echo, kind, signal FROM bridge_order AS o"
            " LEFT JOIN order_signal AS s ON s.order_id = o.id ORDER BY accession, kind, signal"
        )
        return {
            "worklist": await self._listed(),
            "orders": [
                (*row[:3], json.loads(row[3]), *row[4:]) for row in self.hospital.rows(orders)
            ],
            "pointers": self.hospital.rows("SELECT prior_mrn, mrn FROM merged_patient ORDER BY 1"),
            "visits": self.hospital.rows("SELECT * FROM visit_transfer ORDER BY 1, 2, 3, 4"),
        }

    def _explains_all(self) -> bool:
        """A merge can explain who a waiting order is about, which is not undone."""
        return not any(order.waits for order in self.orders.values())

    def _shows_all(self) -> bool:
        return bool(self.orders) and self._explains_all()

    @invariant()
    def orders_have_their_own_patient(self) -> None:
        found = self._run(self._listed)
        shown = {
            accession: (listed["PatientMRN"], listed["PatientName"], listed["PatientBirthDate"])
            for accession, listed in found.items()
        }
        for order in self.orders.values():
            if order.waits and not self._contradicts(order.sent_with):
                order.waits = False
                self._show(order)
        expected = {}
        for accession, order in self.orders.items():
            survivor = PEOPLE[self._survivor(order.number)]
            if not order.waits:
                expected[accession] = (survivor.mrn, *survivor.identity)
        assert shown == expected
        index = self.hospital.rows(
            "SELECT accession, mrn FROM bridge_order WHERE state <> 'cancelled'"
        )
        assert dict(index) == {accession: mrn for accession, (mrn, *_) in expected.items()}


EXAMPLES = {"sqlite": 20, "postgresql": 5}


@pytest.mark.hypothesis  # the plugin marks functions with `given` only
def test_identifiers(database_url: str) -> None:
    """Any sequence of orders, merges, moves, undos, repetitions and late messages."""
    dialect = database_url.partition(":")[0].partition("+")[0]

    class OnDatabase(Identifiers):
        address = database_url if dialect == "postgresql" else ""

    run_state_machine_as_test(
        OnDatabase,
        settings=settings(
            max_examples=EXAMPLES[dialect],
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=(Phase.explicit, Phase.generate),
        ),
    )
