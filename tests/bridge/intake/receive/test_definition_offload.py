"""Large messages are inspected and read in the worker process, with the same result."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from bridge.intake.patients.patient_check import _has_merge
from bridge.intake.process.jobs import read
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from bridge.queue.claims import ClaimedMessage
from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.workers.host import WorkerFailed
from bridge.workers.offload import LARGE, Offload
from config.listeners import Acknowledge
from mappings.hl7.refusals import InternalError
from mllp.framing import Frame
from tests.bridge.intake.fixture import LISTENING, NOW, order

NOTE = b"NTE|1||" + b"x" * LARGE + b"\r"
OBX = b"OBX|1|ED|PDF^Request||^AP^^Base64^" + b"QUJD" * (LARGE // 4) + b"||||||F\r"
LATIN = b"NTE|1||" + b"M\xfcller " * (LARGE // 7) + b"\r"
ADT = (
    b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000+0100||ADT^A08|D1|P|2.5.1\rEVN|A08\r"
    b"PID|1||M1||TESTER^TILDA||19700101|F\rPV1|1|I\r"
)
MESSAGES = {
    "an order with a long note": order() + NOTE,
    "an order with a file": order() + OBX,
    "many segments": order() + b"NTE|1||text\r" * (LARGE // 10),
    "a patient with a large Z segment": ADT + b"ZXX|" + b"y" * LARGE + b"\r",
    "another charset than MSH-18": order() + LATIN,
    "no HL7": b"x" * LARGE,
    "an unknown event": order().replace(b"ORM^O01", b"ZZZ^Z01") + NOTE,
    "no patient's number": order(mrn="") + NOTE,
    "a line that is no segment": order() + b"stray\r" + NOTE,
    "two headers": order() + NOTE + order(),
    "too many patients for one row": b"".join(
        [order().split(b"PID")[0], *(b"PID" + order(mrn=f"M{n}", acc=f"A{n}").split(b"PID")[1]
        for n in range(4)), NOTE]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def offload() -> Iterator[Offload]:
    """One worker process for all tests."""
    made = Offload()
    yield made
    made.close()


def evaluate(listening: ListenerPolicy, payload: bytes) -> tuple[Verdict, Arrival]:
    """Evaluate a message, and build its record."""
    ids, errors = count(1), list[Exception]()
    verdict = FrameEvaluator(listening, errors.append).evaluate(Frame(payload), NOW)
    assert errors == []
    return verdict, AcknowledgmentBuilder(listening, lambda: f"C{next(ids)}").arrival(
        verdict, payload, NOW
    )


def comparable(verdict: Verdict) -> tuple[object, ...]:
    refusals = [(type(each), each.place, each.text) for each in verdict.refusals]
    return verdict.lanes, verdict.parts, verdict.charset_suspect, refusals


@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
@pytest.mark.parametrize("payload", MESSAGES.values(), ids=MESSAGES)
def test_the_results_are_equal(payload: bytes, acknowledge: Acknowledge, offload: Offload) -> None:
    """Acknowledgment, lanes, refusals and applied events are equal."""
    local = replace(LISTENING, acknowledge=acknowledge)
    remote = replace(local, offload=offload)
    (local_verdict, local_arrival), (verdict, arrival) = (
        evaluate(local, payload),
        evaluate(remote, payload),
    )
    assert (comparable(verdict), arrival) == (comparable(local_verdict), local_arrival)
    if not arrival.lanes:
        return
    claimed = ClaimedMessage(
        1, payload, "ris", arrival.mapping, arrival.mapping_version, arrival.lanes, 0, 0, 0, ""
    )
    outcomes: list[object] = []
    for each in (local, remote):
        try:
            outcomes.append(read(claimed, {"ris": each}))
        except Exception as error:  # noqa: BLE001  # any exception must be the same
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


def test_parsing_uses_no_memory_of_this_process(offload: Offload) -> None:
    """The process of the service needs no memory for parsing large messages."""
    payload = order() + NOTE * 4
    evaluate(replace(LISTENING, offload=offload), payload)  # starts the process

    def peak(listening: ListenerPolicy) -> int:
        tracemalloc.start()
        try:
            evaluate(listening, payload)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(replace(LISTENING, offload=offload)) < LARGE < peak(LISTENING)


@contextmanager
def killed(offload: Offload, folder: Path) -> Iterator[None]:
    """Kill each process that starts meanwhile, before it answers."""
    offload.close()
    program = folder / "program"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(program))
        yield


def test_the_process_is_killed_during_evaluation(offload: Offload, tmp_path: Path) -> None:
    """After repeated kills the message is not accepted, and the sender may send it again."""
    errors: list[Exception] = []
    evaluator = FrameEvaluator(replace(LISTENING, offload=offload), errors.append)
    with killed(offload, tmp_path):
        verdict = evaluator.evaluate(Frame(order() + NOTE), NOW)
    assert [type(each) for each in verdict.refusals] == [InternalError]
    assert (verdict.lanes, verdict.is_internal_error) == ((), True)
    assert [type(each) for each in errors] == [WorkerFailed]
    assert evaluate(replace(LISTENING, offload=offload), order() + NOTE)[0].lanes  # left alone


def test_the_process_is_killed_during_reading(
    database: Database, offload: Offload, tmp_path: Path
) -> None:
    """An accepted message is retried. Others of its batch are read."""
    listeners = {"ris": replace(LISTENING, offload=offload)}
    batch = [
        ClaimedMessage(number, payload, "ris", "orders", "", (number,), 1, 0, 0, "")
        for number, payload in ((1, order() + NOTE), (2, order("ID2", "A2", "M2")))
    ]
    repository = OrderRepository(database, lambda: 0)
    with killed(offload, tmp_path):
        prepared = repository.prepare(batch, listeners)
    assert [job.claimed.message_id for job in prepared.jobs] == [2]
    assert prepared.failures == []
    (outcome,) = prepared.requeued
    assert (outcome.message_id, outcome.event, outcome.code) == (
        1,
        QueueEvent.POSTPONED,
        "not_read",
    )
    assert len(repository.prepare(batch, listeners).jobs) == 2


@pytest.mark.parametrize("end", [b"\r", b"\n"])
@pytest.mark.parametrize("at", [0, *range(2**18 - 4, 2**18 + 1), 3 * 2**18 - 4])
def test_a_merge_is_found_at_any_place(at: int, end: bytes) -> None:
    """The slices of the search overlap, so that a segment MRG is found at any place."""
    payload = bytearray(b"MRG" * 2**18)
    assert not _has_merge(bytes(payload))
    payload[at : at + 4] = end + b"MRG"
    assert _has_merge(bytes(payload))
