"""Answers of PACSs to requests for storage commitment, on associations that they open."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydicom import Dataset
from pydicom.uid import DeflatedExplicitVRLittleEndian
from pynetdicom import AE
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # the module makes its names
    StorageCommitmentPushModel,
    Verification,
)
from sqlalchemy import text

from bridge.delivery.dicom_sender import DicomReceiver, DicomSender
from bridge.dicom.commitment import CommitmentService
from bridge.dicom.server import DicomServer
from bridge.executors import close_all
from bridge.metrics import Metrics
from bridge.queue.attempts import Attempt, AttemptKind, of_deliveries
from bridge.queue.commitments import Commitments
from bridge.queue.deliveries import ClaimedDelivery, current_delivery
from bridge.queue.states import RetryPolicy
from bridge.store.database import Database
from config.dicom import DicomSettings
from tests.bridge.delivery.pacs import free_port, orthanc, report_later, send_report
from tests.bridge.delivery.test_dicom_objects import written
from tests.eventually import eventually
from tests.programs import ORTHANC


@contextmanager
def port(database: Database, number: int, *, may: tuple[str, ...] = ("commitment",)) -> Any:
    """The DICOM port of the bridge, where the application PACS may answer."""
    peer = {"ae_title": "PACS", "addresses": ["127.0.0.1/32"], "may": list(may)}
    settings = DicomSettings.model_validate({"bind": f"127.0.0.1:{number}", "peer": [peer]})
    commitments = Commitments(database, lambda: 5_000)
    metrics = Metrics()
    service = CommitmentService(commitments, metrics)
    server = DicomServer(settings, [service], metrics, None, *[lambda *_: None] * 3)
    server.start()
    try:
        yield commitments
    finally:
        server.stop()


def answer_about(transaction: str, *instances: str, failed: int = 0) -> Dataset:
    information, items = Dataset(), []
    information.TransactionUID = transaction
    for instance in instances:
        item = Dataset()
        item.ReferencedSOPClassUID = "1.2.840.10008.5.1.4.1.1.88.11"
        item.ReferencedSOPInstanceUID = instance
        if failed:
            item.FailureReason = failed
        items.append(item)
    setattr(information, "FailedSOPSequence" if failed else "ReferencedSOPSequence", items)
    return information


@pytest.mark.parametrize(("failed", "code"), [(0, "committed"), (0x0112, "not_committed")])
def test_an_answer_on_another_association(database: Database, failed: int, code: str) -> None:
    """It is stored before the status leaves; a repeated one changes nothing."""
    number = free_port()
    with port(database, number) as commitments:
        transaction = commitments.begin(7, "pacs", ["2.25.1", "2.25.2"])
        information = answer_about(transaction, "2.25.1", "2.25.2", failed=failed)
        assert report_later(number, information) == 0x0000
        assert report_later(number, information) == 0x0000
    (stored,) = of_deliveries(database, [7])[7]
    assert (stored.kind, stored.code) == (AttemptKind.REPLY, code)
    assert stored.detail == (f"{failed:04X}" if failed else "")


def test_an_answer_that_forgets_an_object(database: Database) -> None:
    """What is not named is not kept."""
    number = free_port()
    with port(database, number) as commitments:
        transaction = commitments.begin(7, "pacs", ["2.25.1", "2.25.2"])
        assert report_later(number, answer_about(transaction, "2.25.1")) == 0x0000
    assert [stored.code for stored in of_deliveries(database, [7])[7]] == ["not_committed"]


def test_unknown_and_wrong_answers(database: Database) -> None:
    """They get a failure status and change nothing."""
    number = free_port()
    with port(database, number) as commitments:
        commitments.begin(7, "pacs", ["2.25.1"])
        assert report_later(number, answer_about("2.25.99", "2.25.1")) == 0x0112
        without = answer_about("2.25.99", "2.25.1")
        del without.TransactionUID
        assert report_later(number, without) == 0x0110
    assert of_deliveries(database, [7]) == {}


def test_a_pacs_that_negotiates_no_roles(database: Database) -> None:
    """Some PACSs send the report without role selection; it is taken, too."""
    number = free_port()
    with port(database, number) as commitments:
        information = answer_about(commitments.begin(7, "pacs", ["2.25.1"]), "2.25.1")
        entity = AE("PACS")
        entity.add_requested_context(StorageCommitmentPushModel)
        association = entity.associate("127.0.0.1", number, ae_title="REPORT_BRIDGE")
        assert association.is_established
        try:
            for context in association.accepted_contexts:
                context.scp_role = True
            assert send_report(association, information) == 0x0000
        finally:
            association.release()
    assert [stored.code for stored in of_deliveries(database, [7])[7]] == ["committed"]


def test_a_deflated_answer(database: Database) -> None:
    """A deflated data set of a few bytes may be endless: the transfer syntax is not accepted."""
    number = free_port()
    with port(database, number):
        entity = AE("PACS")
        for sop_class in (StorageCommitmentPushModel, Verification):
            entity.add_requested_context(sop_class, DeflatedExplicitVRLittleEndian)
        association = entity.associate("127.0.0.1", number, ae_title="REPORT_BRIDGE")
        assert association.is_aborted or not association.accepted_contexts
        assert [context.result for context in association.rejected_contexts] == [4, 4]


def test_a_peer_without_the_right(database: Database) -> None:
    """A modality cannot confirm what it does not keep."""
    number = free_port()
    with port(database, number, may=("worklist",)) as commitments:
        information = answer_about(commitments.begin(7, "pacs", ["2.25.1"]), "2.25.1")
        with pytest.raises((AssertionError, ValueError)):
            report_later(number, information)
    assert of_deliveries(database, [7]) == {}


def test_a_database_that_refuses(database: Database) -> None:
    """The PACS gets a failure, and reports again."""
    number = free_port()
    with port(database, number) as commitments:
        information = answer_about(commitments.begin(7, "pacs", ["2.25.1"]), "2.25.1")
        _execute(database, "ALTER TABLE storage_commitment RENAME TO away")
        assert report_later(number, information) == 0x0110
        _execute(database, "ALTER TABLE away RENAME TO storage_commitment")
        assert report_later(number, information) == 0x0000


def _execute(database: Database, statement: str) -> None:
    with database.write() as connection:
        connection.execute(text(statement))


def test_two_nodes_that_ask_again(database: Database) -> None:
    """Each late request is repeated by one of them."""
    before = Commitments(database, lambda: 5_000)
    for delivery in range(20):
        before.begin(delivery, "pacs", ["2.25.1"])
    nodes = [Commitments(database, lambda: 90_000) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        repeated = list(
            pool.map(lambda node: node.repeat_requests("pacs", 60, RetryPolicy()), nodes)
        )
    assert sorted(one.delivery_id for found in repeated for one in found) == list(range(20))


@pytest.fixture
def pools() -> Iterator[None]:
    yield
    close_all()


@pytest.mark.needs(ORTHANC)
@pytest.mark.anyio
async def test_orthanc_commits(tmp_path: Path, database: Database, pools: None) -> None:
    """Orthanc stores, is asked, and reports on an association of its own."""
    number = free_port()
    with orthanc(tmp_path / "orthanc", number) as archive, port(database, number) as commitments:
        receiver = DicomReceiver(
            "127.0.0.1", archive.dicom_port, "PACS", "REPORT_BRIDGE", 5.0, 20.0
        )
        current_delivery.set(
            ClaimedDelivery(7, "pacs", "R", "R:final:1:all", "final", {}, "C", b"", 1, 0, 0)
        )
        sender = DicomSender(receiver, commitments)
        reply = await sender.send(written()).asFuture(asyncio.get_running_loop())
        assert reply.split(b"\n")[-1].startswith(b"N-ACTION 0000")
        (stored,) = await asyncio.to_thread(eventually, partial(_stored, database))
        await sender.close().asFuture(asyncio.get_running_loop())
    assert stored.code == "committed"
    assert stored.reply.count(b"kept ") == 2


def _stored(database: Database) -> list[Attempt]:
    return list(of_deliveries(database, [7]).get(7, ()))
