"""kill -9 while modalities send: what was answered with success is applied, and only once."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid

from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.test_dicom_port import dicom_process
from tests.acceptance.wire import Sender, verdict
from tests.bridge.dicom.modality import Modality, ended, new_step, report, scheduled
from tests.bridge.dicom.test_stow import file_of, multipart
from tests.eventually import eventually
from tests.processes import FORKED

EXAMINATIONS = 30
KILLS = 4


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """An installation on each database that modalities may use, not started yet."""
    url = "" if database_url.startswith("sqlite") else database_url
    house = House(tmp_path / "home", database=url)
    house.settings = f"""
[dicom]
bind = "127.0.0.1:{free_port()}"
[[dicom.peer]]
ae_title = "CT1"
addresses = ["127.0.0.1"]
may = ["performed", "store"]
token_file = "ct1.token"
"""
    yield house
    house.kill()


def post(url: str, made: Dataset) -> Dataset:
    """Send a STOW-RS; return the status of a C-STORE, without one if there is no response."""
    answer, related = Dataset(), 'multipart/related; type="application/dicom"; boundary=next'
    headers = {"authorization": "Bearer token-of-ct1", "content-type": related}
    with suppress(httpx.TransportError):
        sent = httpx.post(
            f"{url}/dicomweb/studies", content=multipart(file_of(made)), headers=headers
        )
        answer.Status = 0x0000 if sent.status_code == httpx.codes.OK else 0xA700
    return answer


def scan(port: int, url: str, journal: Path) -> None:
    """
    Send each message until its answer says that it is stored, as a modality does; note it.

    In a process of its own: pynetdicom does not close the sockets of refused connections.
    """
    modality = Modality(port)

    def send(message: Callable[[], Dataset], repeated: set[int]) -> None:
        """Send until success; `repeated` are answers after success whose answer was lost."""
        while True:
            with suppress(AssertionError):  # no association
                if message().get("Status") in {0x0000, *repeated}:
                    with journal.open("a") as lines:
                        lines.write("stored\n")
                    return
            time.sleep(0.05)

    for number in range(1, EXAMINATIONS + 1):
        # Every third object is stored in chunks before its row.
        content = "Nodule 8 mm. " * (25_000 if number % 3 == 0 else 1)
        uid, made = generate_uid(), report(accession=f"A{number}", mrn=f"M{number}", text=content)
        posted = report(accession=f"A{number}", mrn=f"M{number}", text="posted")
        step = new_step(scheduled(f"A{number}"), mrn=f"M{number}")
        send(partial(modality.create_now, uid, step), {0x0111})
        send(partial(modality.store_now, made), set())
        send(partial(post, url, posted), set())
        send(partial(modality.set_now, uid, ended()), {0x0110})
        with journal.open("a") as lines:
            lines.write(f"{made.SOPInstanceUID}\n{posted.SOPInstanceUID}\n")


def rows(house: House, query: str) -> list[tuple[object, ...]]:
    """Read from the databases of the bridge and of the engine."""
    if house.database:
        with psycopg.connect(house.database.replace("+psycopg", "")) as connection:
            return connection.execute(query.encode()).fetchall()
    name = "bridge-engine.db" if "engine_" in query else "bridge.db"
    with sqlite3.connect(house.home / name) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["the service", "the DICOM process"])
def test_kill_while_modalities_send(house: House, victim: str) -> None:
    """Examinations are completed and their reports attached, each once, whatever is killed."""
    house.make()
    (house.home / "ct1.token").write_text("token-of-ct1", "utf-8")
    (house.home / "ct1.token").chmod(0o600)
    service = house.start()
    sender = Sender(house.mllp_port)
    for number in range(1, EXAMINATIONS + 1):
        assert verdict(sender.ask(order(number)))[0] == "AA"
    sender.close()
    port = int(house.settings.partition("127.0.0.1:")[2].partition('"')[0])
    journal = house.home / "modality.txt"
    journal.touch()
    scanner = FORKED.Process(target=scan, args=(port, house.url, journal), daemon=True)
    scanner.start()
    for kill in range(1, KILLS + 1):
        wanted = kill * 4 * EXAMINATIONS // (KILLS + 1)
        eventually(lambda: journal.read_text().count("stored") >= wanted)  # noqa: B023
        if victim == "the service":
            house.kill()
            house.start()
        else:
            process = dicom_process(service, port)
            os.kill(process, signal.SIGKILL)
            eventually(lambda: dicom_process(service, port) not in {0, process})  # noqa: B023
    scanner.join()
    sent = sorted(line for line in journal.read_text().split() if line != "stored")
    assert len(sent) == 2 * EXAMINATIONS
    expected = [
        ("C-STORE SR", "done", EXAMINATIONS),
        ("N-CREATE MPPS", "done", EXAMINATIONS),
        ("N-SET MPPS", "done", EXAMINATIONS),
        ("STOW-RS SR", "done", EXAMINATIONS),
    ]
    counts = (
        "SELECT message_type, state, count(*) FROM message WHERE listener = 'dicom'"
        " GROUP BY message_type, state ORDER BY message_type, state"
    )
    eventually(lambda: rows(house, counts) == expected)
    files = rows(house, "SELECT sop_instance_uid FROM engine_report_file")
    assert sorted(str(uid) for (uid,) in files) == sent
