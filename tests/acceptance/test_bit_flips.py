"""Bit flips on disk while work is queued: the service reports each and sends no changed byte."""

import os
import random
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Connection, text

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.serving import is_running
from tests.acceptance.wire import Sender, Sink, accept, sink, verdict
from tests.conftest import empty
from tests.eventually import PATIENCE, eventually

ORDERS, REPORTS = 8, 4
LARGE = b"OBX|1|ED|PDF||^AP^^Base64^" + b"QUJD" * 2**16 + b"||||||F\r"
REPORTED = re.compile(r"damage|SQLITE_CORRUPT|SQLITE_NOTADB|SQLITE_ERROR|file is not a database")
DATABASE, LOG = "bridge.db", "bridge-messages.db"
FLIPS = 6
SEED = 7


@dataclass
class Waiting:
    """A stopped service with queued orders and results, and the messages of its receiver."""

    house: House
    ris: Sink
    open: bool = False
    results: list[bytes] = field(default_factory=list)
    """Results that were sent and not acknowledged."""

    def answer(self, message: bytes, attempts: int) -> bytes | None:
        """Cut the connection, until the receiver is open."""
        return accept(message, attempts) if self.open else None

    def wait(self, large: bytes = b"", *, in_log: bool = False) -> None:
        """
        Queue results, then orders, and stop. One of the orders contains `large`.

        With `in_log` the orders are in the message log of SQLite only.
        """
        self.house.destination("ris", self.ris.port, breaker_after=0)
        self.house.make()
        self.house.start()
        for number in range(REPORTS):
            self.house.draft(f"R{number}", f"R{number}", f"Read {number}.")
            self.house.sign(f"R{number}", f"R{number}")
        eventually(lambda: len(set(self.ris.received)) == REPORTS)
        assert self.house.stop() == 0
        self.results = sorted(set(self.ris.received))
        self.ris.received.clear()
        intake = self.house.start("--role", "intake", beside=True)  # without a report engine
        child = intake.child()
        if in_log:
            os.kill(child, signal.SIGSTOP)
        with Sender(self.house.mllp_port) as sender:
            for number in range(ORDERS):
                message = order(number) + (large if number == 1 else b"")
                assert verdict(sender.ask(message)) == ("AA", f"C{number}")
        if in_log:
            intake.kill()
            os.kill(child, signal.SIGKILL)
            eventually(lambda: not is_running(child))
        else:
            assert intake.stop() == 0
        self.open = True

    def listed(self) -> dict[str, str]:
        return {
            listed["Accession"]: listed["PatientMRN"]
            for row in self.house.worklist()
            for listed in row["orders"]
        }


@pytest.fixture
def waiting(database_url: str, tmp_path: Path) -> Iterator[Waiting]:
    """A service on each database, with a receiver that does not acknowledge yet."""
    url = "" if database_url.startswith("sqlite") else database_url
    if url:
        empty(url)
    with sink() as ris:
        made = Waiting(House(tmp_path / "home", database=url), ris)
        ris.answer = made.answer
        try:
            yield made
        finally:
            made.house.kill()


def flip(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def flip_bodies(connection: Connection, chance: random.Random) -> None:
    """Flip a bit in each body but the last one of messages and of deliveries."""
    for table, key, body, kept in (
        ("message_body", "message_id", "payload", 1),
        ("payload_chunk", "number", "content", 0),
        ("delivery_body", "delivery_id", "payload", 1),
    ):
        rows = connection.execute(
            text(f"SELECT {key}, {body} FROM {table} WHERE length({body}) > 0 ORDER BY {key}")  # noqa: S608  # our own names
        ).all()
        for row in rows[: len(rows) - kept]:
            change = text(f"UPDATE {table} SET {body} = :body WHERE {key} = :key")  # noqa: S608  # our own names
            connection.execute(change, {"body": flip(bytes(row[1]), chance), "key": row[0]})


@pytest.mark.slow
def test_bodies(waiting: Waiting) -> None:
    """The service parks, lists and logs changed messages and results. It processes the others."""
    house, seed = waiting.house, SEED
    waiting.wait(LARGE)
    engine = sqlalchemy.create_engine(house.database or f"sqlite:///{house.home / 'bridge.db'}")
    with engine.begin() as connection:
        flip_bodies(connection, random.Random(seed))
    engine.dispose()
    house.start()
    house.settle()
    eventually(lambda: waiting.ris.received)
    eventually(lambda: house.bridge("deliveries", "list").count("content_damaged") == REPORTS - 1)
    parked = house.bridge("messages", "list", "--state", "parked")
    changed = house.bridge("messages", "list", "--state", "parked").count("content_damaged")
    orders = [accession for accession in waiting.listed() if accession.startswith("A")]

    assert orders == [f"A{ORDERS - 1}"], f"seed {seed}"
    assert len(waiting.ris.received) == 1
    assert waiting.ris.received[0] in waiting.results
    assert changed == ORDERS - 1, parked
    assert house.bridge("exceptions", "list").count("content_damaged") == ORDERS - 1
    assert house.log().count("ContentDamagedError") >= ORDERS - 1
    assert house.log().count("is damaged and not sent") == REPORTS - 1
    assert "has changed since" in house.bridge("messages", "replay", "1", expect=1)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_bodies_in_the_log(waiting: Waiting) -> None:
    """The service parks, lists and logs changed messages, and applies the one that is intact."""
    house = waiting.house
    waiting.wait(in_log=True)
    chance = random.Random(SEED)
    with closing(sqlite3.connect(house.home / LOG, isolation_level=None)) as log:
        rows = log.execute("SELECT id, payload FROM arrival ORDER BY id").fetchall()
        for number, payload in rows[:-1]:
            changed = flip(payload, chance), number
            log.execute("UPDATE arrival SET payload = ? WHERE id = ?", changed)
    assert len(rows) == ORDERS
    house.start()
    house.settle()

    assert [accession for accession in waiting.listed() if accession.startswith("A")] == [
        f"A{ORDERS - 1}"
    ]
    parked = house.bridge("messages", "list", "--state", "parked")
    assert parked.count("content_damaged") == ORDERS - 1
    assert house.bridge("exceptions", "list").count("content_damaged") == ORDERS - 1


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("file", [DATABASE, LOG])
def test_pages(waiting: Waiting, tmp_path: Path, file: str) -> None:
    """After a flip, the data is right or the damage is reported; no changed data is sent."""
    waiting.wait(in_log=file == LOG)
    shutil.copytree(waiting.house.home, tmp_path / "before")
    seed = SEED
    for number in range(FLIPS):
        shutil.rmtree(waiting.house.home)
        shutil.copytree(tmp_path / "before", waiting.house.home)
        waiting.ris.received.clear()
        flipped = flip_file(waiting.house.home / file, random.Random(f"{seed} {number}"))
        assert outcome(waiting), f"seed {seed}, number {number}: {flipped} is not reported"


def flip_file(path: Path, chance: random.Random) -> str:
    """Flip one bit of a used page; return where it is, and the bytes around it before."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    place = chance.choice([at for at, byte in enumerate(data) if byte])
    bit = chance.randrange(8)
    around = bytes(data[max(0, place - 64) : place + 64])
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"the flip of bit {bit} at byte {place % size} of page {place // size + 1} in {around!r}"


def outcome(waiting: Waiting) -> str:
    """Start; return `right`, or how the service reported the flip; empty if it did not."""
    house = waiting.house
    try:
        house.start()
    except AssertionError:
        assert house.service is not None
        assert waiting.ris.received == []
        printed = house.log().strip().rpartition("\n")[2]
        return "not started" if house.service.process.poll() and REPORTED.search(printed) else ""
    expected = {f"A{number}": f"M{number}" for number in range(ORDERS)}
    expected |= {f"R{number}": f"R{number}" for number in range(REPORTS)}
    deadline, found, is_right = time.monotonic() + PATIENCE, dict[str, str](), False
    while not is_right and time.monotonic() < deadline and not REPORTED.search(house.log()):
        time.sleep(0.2)
        found = waiting.listed()
        is_right = found == expected and sorted(set(waiting.ris.received)) == waiting.results
    house.kill()
    assert set(waiting.ris.received) <= set(waiting.results)
    assert found.items() <= expected.items()
    if is_right:
        return "right"
    if REPORTED.search(house.log()):
        return "logged"
    if "parked" in house.bridge("messages", "list", expect=None):
        return "parked"
    return "checked" if REPORTED.search(house.bridge("check", expect=None)) else ""
