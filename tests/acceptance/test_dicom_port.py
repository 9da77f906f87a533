"""The DICOM process of `bridge serve`: modalities ask the worklist of a running installation."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid
from pynetdicom import AE
from pynetdicom.dsutils import encode
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # made at run time
    ModalityWorklistInformationFind,
    Verification,
)
from sqlalchemy import select

from bridge.store.database import Database
from bridge.store.tables import AUDIT_OUTBOX
from tests.acceptance.forked import Forked
from tests.acceptance.hostile_peer import (
    COMMAND,
    DATA,
    LAST,
    HostilePeer,
    command,
    p_data,
    request_of,
)
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.serving import Serving, is_running
from tests.acceptance.wire import Sender, verdict
from tests.bridge.dicom.modality import Modality, new_step, scheduled
from tests.bridge.dicom.worklist_items import YAMADA, insert, make_item
from tests.conformance.dicom.port import TITLE, dump, echoscu, findscu, ids
from tests.eventually import eventually
from tests.programs import DCMTK
from tests.trust import TRUSTED

pytestmark = [pytest.mark.slow, pytest.mark.needs(DCMTK)]
ID = "(0010,0020) LO"
PEERS = """
[[dicom.peer]]
ae_title = "CT1"
addresses = ["127.0.0.1"]
may = ["worklist", "performed"]
max_answers = 10000
token_file = "ct1.token"

[[dicom.peer]]
ae_title = "MR1"
addresses = ["127.0.0.1"]
modalities = ["MR"]
"""


def settings(port: int) -> str:
    return f'[dicom]\nbind = "127.0.0.1:{port}"\n{PEERS}'


@pytest.fixture
def dicom_house(house: House) -> Iterator[tuple[House, int]]:
    """An installation with a DICOM port, not started yet, and the port."""
    port = free_port()
    house.settings = settings(port)
    house.make()
    (house.home / "ct1.token").write_text("token-of-ct1", "utf-8")
    (house.home / "ct1.token").chmod(0o600)
    yield house, port
    house.kill()


def dicom_process(service: Serving, port: int) -> int:
    """Return the process that listens on the port."""
    listening = f":{port:04X} "
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text("ascii").splitlines()
        if line.split()[1].endswith(listening.strip()) and line.split()[3] == "0A"
    }
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(link.removeprefix("socket:[").removesuffix("]") in inodes for link in links):
            return int(process.name)
    return 0


def test_a_running_installation(dicom_house: tuple[House, int]) -> None:
    """A modality gets the worklist over DIMSE and HTTP; metrics and audit show it."""
    house, port = dicom_house
    house.start()
    database = Database(f"sqlite:///{house.home / 'bridge.db'}")
    insert(database, make_item(1, name=YAMADA), make_item(2, modality="MR"))
    assert sorted(ids(findscu(port, dump(ID))[0])) == ["P1", "P2"]
    assert ids(findscu(port, dump(ID), calling="MR1")[0]) == ["P2"]
    assert "Not Recognized" in echoscu(port, calling="STRANGER")
    reply = httpx.get(
        f"{house.url}/dicomweb/modality-scheduled-procedure-steps",
        headers={"authorization": "Bearer token-of-ct1"},
        verify=TRUSTED,
    )
    assert len(reply.json()) == 2
    answers = 'bridge_dicom_answers_total{peer="CT1"}'
    eventually(lambda: answers in httpx.get(f"{house.url}/metrics", verify=TRUSTED).text)
    assert house.metric(answers) == 2
    assert house.stop() == 0
    log = house.log()
    assert "DICOM peer refused" in log
    assert not [word for word in ("Yamada", "山田", "P1", "token-of-ct1") if word in log]
    with database.read() as connection:
        assert not list(connection.scalars(select(AUDIT_OUTBOX.c.body)))  # they are in the trail
    database.dispose()
    assert "dicom-query" in house.bridge("audit", "list", "--json", expect=None)


def test_an_order_becomes_a_step(dicom_house: tuple[House, int]) -> None:
    """An order that arrives in HL7 is on the worklist when it is applied, until it is cancelled."""
    house, port = dicom_house
    house.start()
    query = dump("(0008,0050) SH [A7]", ID, "(0010,0010) PN", "(0020,000d) UI")
    assert findscu(port, query)[0] == []
    house.send(order(7, name="YAMADA^TAROU"))
    (answer,), _ = findscu(port, query)
    assert (answer.PatientID, answer.AccessionNumber) == ("M7", "A7")
    assert str(answer.PatientName) == "YAMADA^TAROU"
    assert answer.StudyInstanceUID == "1.2.826.0.1.3680043.10.8"
    assert answer.ScheduledProcedureStepSequence[0].Modality == "CT"
    house.send(order(7, name="YAMADA^TAROU", control="CA", msh10="C7-CA"))
    assert findscu(port, query)[0] == []


def test_the_time_until_an_order_is_seen(dicom_house: tuple[House, int]) -> None:
    """A modality that asks without pause sees each change of an order soon after its ACK."""
    house, port = dicom_house
    house.start()
    entity = AE("CT1")
    entity.add_requested_context(ModalityWorklistInformationFind)
    association = entity.associate("127.0.0.1", port, ae_title="REPORT_BRIDGE")
    query, step = Dataset(), Dataset()
    query.PatientID = step.Modality = ""
    query.ScheduledProcedureStepSequence = [step]

    def answers(accession: str) -> int:
        query.AccessionNumber = accession
        found = list(association.send_c_find(query, ModalityWorklistInformationFind))
        assert found[-1][0].Status == 0
        return len(found) - 1

    times: list[float] = []
    with Sender(house.mllp_port) as sender:
        for number in range(1, 21):
            for control, expected in (("NW", 1), ("CA", 0)):
                message = order(number, control=control, msh10=f"{control}{number}")
                assert verdict(sender.ask(message))[0] == "AA"
                acknowledged = time.monotonic()
                eventually(lambda: answers(f"A{number}") == expected)  # noqa: B023
                times.append((time.monotonic() - acknowledged) * 1000)
    association.release()
    times.sort()
    figures = f"median {times[20]:.0f} ms, longest {times[-1]:.0f} ms"
    print(f"from the ACK to the answer: {figures}")  # noqa: T201  # shown with -s


MANY = 3000
"""Answers to a query: more than the buffers of a connection take."""


def begin_query(port: int) -> HostilePeer:
    """Ask for all steps, and read the first answer only."""
    worklist = str(ModalityWorklistInformationFind)
    peer = HostilePeer(port, request_of(port, worklist))
    request = command(
        AffectedSOPClassUID=worklist,
        CommandField=0x0020,
        MessageID=1,
        Priority=0,
        CommandDataSetType=1,
    )
    query = Dataset()
    query.PatientID = "P*"
    identifier = encode(query, is_implicit_vr=False, is_little_endian=True) or b""
    peer.send(p_data(1, COMMAND | LAST, request) + p_data(1, DATA | LAST, identifier))
    assert status_of(peer.read()[1]) == 0xFF00
    return peer


def status_of(values: bytes) -> int | None:
    """Return the status of a P-DATA-TF with a command, whose last element it is."""
    return int.from_bytes(values[-2:], "little") if values[5] & COMMAND else None


def rest_of(peer: HostilePeer) -> tuple[int, int | None]:
    """Read to the end; return the number of further answers, and the final status."""
    count = 0
    with closing(peer):
        while content := peer.read()[1]:
            status = status_of(content)
            if status == 0x0000:
                return count, status
            count += status is not None
    return count, None


def test_the_end_of_the_process(dicom_house: tuple[House, int]) -> None:
    """
    After kill -9 of the DICOM process, or of the service, within a query of thousands of answers
    the query ends without a status. The port is back with all steps and all that was confirmed.
    """
    house, port = dicom_house
    service = house.start()
    database = Database(f"sqlite:///{house.home / 'bridge.db'}")
    insert(database, *(make_item(number) for number in range(1000, 1000 + MANY)))
    database.dispose()
    modality = Modality(port)

    def started() -> list[str]:
        step = "(0040,0020) CS [STARTED]"
        return sorted(ids(findscu(port, dump(f"{ID} [M*]", step=(step,)), expect=None)[0]))

    def confirm(number: int) -> None:
        """Have an order and its performed step confirmed."""
        with Sender(house.mllp_port) as sender:
            assert verdict(sender.ask(order(number)))[0] == "AA"
        made = new_step(scheduled(f"A{number}"), mrn=f"M{number}")
        assert modality.create_now(generate_uid(), made).Status == 0x0000

    first = dicom_process(service, port)
    assert first not in (0, service.process.pid)
    asked = begin_query(port)
    confirm(1)
    with Sender(house.mllp_port) as sender:
        os.kill(first, signal.SIGKILL)
        assert verdict(sender.ask(order(2)))[0] == "AA"
    count, status = rest_of(asked)
    assert count < MANY - 1
    assert status is None
    assert service.is_ready()
    eventually(lambda: dicom_process(service, port) not in (0, first))
    assert rest_of(begin_query(port)) == (MANY - 1, 0x0000)
    eventually(lambda: started() == ["M1"])
    second = dicom_process(service, port)
    asked = begin_query(port)
    confirm(3)
    service.kill()
    assert rest_of(asked)[1] is None
    eventually(lambda: not is_running(second))
    house.start()
    eventually(lambda: rest_of(begin_query(port)) == (MANY - 1, 0x0000))
    eventually(lambda: started() == ["M1", "M3"])


def test_peers_change_while_the_service_runs(dicom_house: tuple[House, int]) -> None:
    """A peer that is added may associate within seconds; the association of a removed one ends."""
    house, port = dicom_house
    house.start()
    assert "Not Recognized" in echoscu(port, calling="US 1")
    eventually(lambda: "US 1" in house.bridge("peers", "refused", "--json"))
    house.bridge("peers", "set", "US 1", "addresses=127.0.0.1", "may=worklist", "-m", "a new room")
    eventually(lambda: "Rejected" not in echoscu(port, calling="US 1"))

    def peer() -> dict[str, Any]:
        listed = json.loads(house.bridge("peers", "list", "--json"))
        return next(row for row in listed if row["ae_title"] == "US 1")

    eventually(lambda: peer()["associated_at"])
    findscu(port, dump(ID), calling="US 1")
    eventually(lambda: peer()["requested_at"])
    found = peer()
    assert (found["request"], found["answers"], found["address"]) == ("C-FIND", 0, "127.0.0.1")
    assert found["source"] == "console"
    entity = AE("US 1")
    entity.add_requested_context(Verification)
    association = entity.associate("127.0.0.1", port, ae_title=TITLE)
    assert association.is_established
    house.bridge("peers", "remove", "US 1", "-m", "moved")
    eventually(lambda: not association.is_established)
    assert association.is_aborted
    assert "Not Recognized" in echoscu(port, calling="US 1")
    house.bridge("peers", "rollback", "US 1", "-m", "back")
    assert json.loads(house.bridge("peers", "history", "US 1", "--json"))[0]["reason"] == "back"
    assert '"US 1"' in house.bridge("audit", "list", "--json")


def test_a_token_changes_while_the_service_runs(dicom_house: tuple[House, int]) -> None:
    """A new token is used at once, also that of a peer that is added; the old one is refused."""
    house, _ = dicom_house
    house.start()

    def status(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        url = f"{house.url}/dicomweb/workitems"
        return httpx.get(url, headers=headers, verify=TRUSTED).status_code

    assert status("token-of-ct1") == 204
    (house.home / "ct1.token").write_text("next-token", "utf-8")
    eventually(lambda: status("next-token") == 204)
    assert status("token-of-ct1") == 401
    (house.home / "viewer.token").write_text("token-of-viewer", "utf-8")
    (house.home / "viewer.token").chmod(0o600)
    values = ("addresses=127.0.0.1", "token_file=viewer.token")
    house.bridge("peers", "set", "VIEWER", *values)
    eventually(lambda: status("token-of-viewer") == 204)
    house.bridge("peers", "set", "VIEWER", "enabled=false")
    eventually(lambda: status("token-of-viewer") == 401)
    assert "has the same token" in house.bridge(
        *("peers", "set", "OTHER", "addresses=127.0.0.1", "token_file=ct1.token"), expect=1
    )


def test_a_role_without_settings(house: House) -> None:
    """The role alone needs an address; with all other roles it is off without one."""
    house.make()
    command = ["serve", "--home", str(house.home), "--role", "dicom"]
    output = house.home / "role.log"
    process = Forked(command, {}, output, output)
    assert process.wait(120) != 0
    assert "dicom.bind" in output.read_text("utf-8")


def shows(port: int, expected: list[str]) -> bool:
    """True if MR1 sees these patients."""
    return ids(findscu(port, dump(ID), calling="MR1")[0]) == expected


@pytest.mark.postgres
def test_two_nodes(postgres_url: str, tmp_path: Path) -> None:
    """Two nodes serve the same worklist; after kill -9 of one the other one still does."""
    houses = [House(tmp_path / name, database=postgres_url) for name in ("one", "two")]
    ports = [free_port(), free_port()]
    houses[0].settings = settings(ports[0])
    houses[0].make()
    (tmp_path / "two").mkdir()
    for file in (tmp_path / "one").rglob("*"):
        copy = tmp_path / "two" / file.relative_to(tmp_path / "one")
        if file.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.write_bytes(file.read_bytes())
    houses[1].settings = settings(ports[1])
    houses[1].configure()
    for house in houses:
        (house.home / "ct1.token").write_text("token-of-ct1", "utf-8")
    database = Database(postgres_url)
    try:
        nodes = [house.start("--role", "dicom", beside=True) for house in houses]
        insert(database, make_item(1, name=YAMADA), make_item(2, modality="MR"))
        found = [sorted(ids(findscu(port, dump(ID))[0])) for port in ports]
        assert found == [["P1", "P2"]] * 2
        houses[0].bridge("peers", "set", "MR1", "modalities=CT", "addresses=127.0.0.1")
        for port in ports:
            eventually(partial(shows, port, ["P1"]))
        nodes[0].kill()
        insert(database, make_item(3))
        assert sorted(ids(findscu(ports[1], dump(ID))[0])) == ["P1", "P2", "P3"]
        assert nodes[1].stop() == 0
    finally:
        database.dispose()
        for house in houses:
            house.kill()
