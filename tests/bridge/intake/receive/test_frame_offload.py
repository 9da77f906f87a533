"""Threads evaluate large frames. The order of a connection is kept."""

import asyncio
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.executors import Threads
from bridge.intake.process.jobs import read
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.handler import LARGE_FRAMES, FrameOffload
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.patient_check import _has_merge
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from bridge.queue.arrivals import Arrival
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.workers.hooks import install
from bridge.workers.host import WorkerFailed
from bridge.workers.offload import LARGE, Offload
from config.listeners import Acknowledge, SequenceNumbers
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import InternalError
from mappings.inbound.definition import InboundMapping
from mappings.language.hooks import set_hook_executor
from mllp.contract import as_deferred
from mllp.framing import Frame
from tests.bridge.intake.fixture import (
    LISTENING,
    NOW,
    IntakeFixture,
    RecordingPeer,
    open_intake,
    order,
)
from tests.eventually import PATIENCE, eventually_async

LEAST = 10_000
LARGE_NOTE = b"NTE|1||" + b"x" * LEAST + b"\r"


def sending(
    intake: IntakeFixture, offload: FrameOffload
) -> "Callable[[bytes, int], asyncio.Future[list[bytes]]]":
    async def reply_to(payload: bytes, connection: int) -> list[bytes]:
        answered = as_deferred(offload, Frame(payload), RecordingPeer(connection_id=connection))
        return list(await answered.asFuture(asyncio.get_running_loop()))

    return lambda payload, connection: asyncio.ensure_future(reply_to(payload, connection))


@asynccontextmanager
async def blocked_large_frames() -> AsyncIterator[threading.Event]:
    """Occupy the thread of large frames until the event is set."""
    gate = threading.Event()
    waiting = asyncio.ensure_future(LARGE_FRAMES.run(gate.wait, PATIENCE))
    await asyncio.sleep(0)
    try:
        yield gate
    finally:
        gate.set()
        await waiting


async def test_order_within_a_connection(database: Database) -> None:
    """A frame after a large one is stored after it. Other connections do not wait."""
    async with open_intake(database) as intake, blocked_large_frames() as gate:
        send = sending(intake, FrameOffload(intake.handler, min_bytes=LEAST))
        large = send(order("L1", "A1") + LARGE_NOTE, 1)
        await asyncio.sleep(0)
        next_frame = send(order("S2", "A2"), 1)
        other = await send(order("S3", "A3"), 2)
        assert read_ack(other[0]).control_id == b"S3"
        assert not large.done()
        assert not next_frame.done()
        gate.set()
        for future, name in ((large, b"L1"), (next_frame, b"S2")):
            (reply,) = await future
            assert read_ack(reply).control_id == name
        sizes = [
            row[0] > LEAST for row in intake.rows("length(payload)", "message_body", "message_id")
        ]
        assert sizes == [False, True, False]


async def test_frames_behind_a_lookup_do_not_wait_for_its_commit(database: Database) -> None:
    """A sender that does not wait for replies would get one commit for each frame otherwise."""
    async with open_intake(database) as intake:
        offload = FrameOffload(intake.handler, needs_lookup=lambda payload: b"|S1|" in payload)
        send = sending(intake, offload)
        # No message can be stored in this time.
        with (intake.message_log.database or database).write() as connection:
            if database.dialect == "postgresql":
                connection.execute(text("LOCK TABLE message IN EXCLUSIVE MODE"))
            replies = [send(order(f"S{number}", "A1"), 1) for number in range(1, 6)]
            await asyncio.sleep(0)
            assert not any(reply.done() for reply in replies)
        answered = [read_ack(reply).control_id for (reply,) in await asyncio.gather(*replies)]
        assert answered == [b"S1", b"S2", b"S3", b"S4", b"S5"]
        stored = intake.rows("payload", "message_body", "message_id")
        assert [peek(bytes(row[0])).control_id for row in stored] == answered


async def test_an_error_behind_a_lookup_closes_the_connection(database: Database) -> None:
    """Each frame gets its failure, and the connection's next frame is handled."""
    async with open_intake(database) as intake:
        send = sending(intake, FrameOffload(intake.handler, needs_lookup=lambda _: True))
        Threads.EXTERNAL.executor.shutdown()
        try:
            for outcome in await asyncio.gather(
                send(order("S1"), 1), send(order("S2"), 1), return_exceptions=True
            ):
                assert isinstance(outcome, RuntimeError)
            with pytest.raises(RuntimeError):
                await send(order("S3"), 1)
        finally:
            Threads.EXTERNAL.close()


async def test_replies_are_equal(database: Database) -> None:
    """Batches, refusals and unreadable frames get the same replies on a thread."""
    async with open_intake(database) as intake:
        offload = FrameOffload(intake.handler, min_bytes=0)
        send = sending(intake, offload)
        batch = b"BHS|^~\\&|R\r" + order("B1") + order("B2", mrn="") + b"BTS|2\r"
        (reply,) = await send(batch, 1)
        assert b"MSA|AA|B1" in reply
        assert b"MSA|AE|B2" in reply
        (reply,) = await send(order("X1", mrn=""), 1)
        assert read_ack(reply).error_codes == ("101",)
        (reply,) = await send(b"nothing of ours", 1)
        assert read_ack(reply).error_codes == ("100",)
        first = await send(order("X2"), 1)
        assert await send(order("X2"), 1) == first


async def test_lookups_do_not_wait_for_large_frames(database: Database) -> None:
    """However many large frames wait, lookups of other connections have a thread."""
    async with open_intake(database) as intake, blocked_large_frames() as gate:
        offload = FrameOffload(intake.handler, min_bytes=LEAST, needs_lookup=lambda _: True)
        send = sending(intake, offload)
        others = [
            send(order(f"L{number}", f"A{number}") + LARGE_NOTE, number)
            for number in range(3, 3 + 2 * Threads.EXTERNAL.size)
        ]
        large = send(order("L1", "A1") + LARGE_NOTE, 1)
        (reply,) = await send(order("S2", "A2"), 2)
        assert read_ack(reply).control_id == b"S2"
        assert not large.done()
        gate.set()
        assert read_ack((await large)[0]).control_id == b"L1"
        await asyncio.gather(*others)


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
    made = Offload()
    yield made
    made.close()


def evaluate(listening: ListenerPolicy, payload: bytes) -> tuple[Verdict, Arrival]:
    ids, errors = count(1), list[Exception]()
    verdict = FrameEvaluator(listening, errors.append).evaluate(Frame(payload), NOW)
    assert errors == []
    return verdict, AcknowledgmentBuilder(listening, lambda: f"C{next(ids)}").arrival(
        verdict, payload, NOW
    )


def comparable(verdict: Verdict) -> tuple[object, ...]:
    refusals = [(type(refusal), refusal.place, refusal.text) for refusal in verdict.refusals]
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
    for item in (local, remote):
        try:
            outcomes.append(read(claimed, {"ris": item}))
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
    assert [type(refusal) for refusal in verdict.refusals] == [InternalError]
    assert (verdict.lanes, verdict.is_internal_error) == ((), True)
    assert [type(error) for error in errors] == [WorkerFailed]
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


class HeldHooks:
    """A hook executor: each call waits for its release and records the thread that it blocks."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.called = threading.Event()
        self.let_go = threading.Event()
        self.threads: list[int] = []

    def load(self, module: str, source: str) -> list[str]:
        """Every hook file has the function `f`."""
        return ["f"]

    def call(self, module: str, source: str, function: str, text: str) -> str:
        self.threads.append(threading.get_ident())
        self.called.set()
        assert self.let_go.wait(PATIENCE)
        return self._answer


@contextmanager
def held_hooks(answer: str) -> Iterator[HeldHooks]:
    held = HeldHooks(answer)
    set_hook_executor(held)
    try:
        yield held
    finally:
        held.let_go.set()
        install()


SOURCES = {
    **read_folder(DEFINITIONS),
    "mine.yaml": "include: orders.yaml\ntags: {PatientMRN: {hook: 'h:f', required: true}}\n",
    "large.yaml": (
        "include: orders.yaml\ntags: {Notes: {from: PID-3.1, extract: '((a?){40}(b?){40}){3}M1'}}\n"
    ),
    "h.py": "def f(message):\n    return 'M7'\n",
}


def listening(name: str = "mine") -> InboundMapping:
    made = compile_sources(SOURCES, name)
    assert isinstance(made, InboundMapping)
    return made


@pytest.mark.parametrize("numbers", [SequenceNumbers.OFF, SequenceNumbers.CHECK])
async def test_others_are_acknowledged_meanwhile(
    database: Database, numbers: SequenceNumbers
) -> None:
    """Other messages are acknowledged first, then the message of the hook."""
    loop = asyncio.get_running_loop()
    with held_hooks("M7") as held:
        mine = replace(LISTENING, definitions=(listening(),))
        async with (
            open_intake(database) as plain,
            open_intake(database, mine, numbers=numbers) as intake,
        ):
            offload = FrameOffload(intake.handler)
            handle = (
                offload if intake.sequencer is None else intake.sequencer.serialized(offload.submit)
            )
            answered = as_deferred(
                handle, Frame(order("H1", "A1")), RecordingPeer(connection_id=1)
            ).asFuture(loop)
            await eventually_async(held.called.is_set)
            for number in range(3):
                assert (await plain.ask(order(f"P{number}", "A2", "M2"))).code == "AA"
            with database.write() as connection:
                connection.execute(text("DELETE FROM feed_cursor WHERE 1 = 0"))
            assert not answered.done()
            held.let_go.set()
            (reply,) = await answered
            assert read_ack(reply).code == "AA"
    assert threading.get_ident() not in held.threads


async def test_a_frame_whose_patterns_take_long_is_evaluated_on_a_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small patterns of the patient's identifier, on a value on which they are slow together."""
    tests = ", ".join(f"{{PID-23: {{matches: 'a(a|b){{30}}c{n}'}}}}" for n in range(50))
    rule = f"{{from: PID-3.1, required: true, when: {{not: {{any: [{tests}]}}}}}}"
    text = f"include: orders.yaml\ntags: {{PatientMRN: {rule}}}\n"
    made = compile_sources({**SOURCES, "slow.yaml": text}, "slow")
    assert isinstance(made, InboundMapping)
    assert not made.needs_thread
    evaluated_in: list[int] = []
    before = InboundMapping.pre_check

    def observed(self: InboundMapping, *given: Any) -> Any:
        found = before(self, *given)
        evaluated_in.append(threading.get_ident())
        return found

    monkeypatch.setattr(InboundMapping, "pre_check", observed)
    async with open_intake(database, replace(LISTENING, definitions=(made,))) as intake:
        handle = FrameOffload(intake.handler)
        for number, place in enumerate((b"", b"ab" * 2000, b"ab"), start=1):
            payload = order(f"S{number}", "A1").replace(b"\rORC", b"|" * 15 + place + b"\rORC", 1)
            frame, peer = Frame(payload), RecordingPeer(connection_id=1)
            (reply,) = await as_deferred(handle, frame, peer).asFuture(asyncio.get_running_loop())
            assert read_ack(reply).code == "AA"
    here = threading.get_ident()
    assert [item == here for item in evaluated_in] == [True, False, True]


def test_large_patterns_use_a_thread() -> None:
    """A thread matches large patterns, the loop small ones."""
    assert listening("large").needs_thread
    assert not any(definition.needs_thread for definition in LISTENING.definitions)


class States:
    def __init__(self, *states: QueueState) -> None:
        self.states = list(states)

    async def __call__(self, message_id: int) -> QueueState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


async def test_applied_by_this_node() -> None:
    """The order processor notifies, and the database is not polled."""
    waiting = CompletionWaiter(States(QueueState.QUEUED))
    future = waiting.wait(7, 30.0)
    await asyncio.sleep(0.01)
    waiting.notify(
        [MessageOutcome(8, QueueEvent.ACCEPTED), MessageOutcome(7, QueueEvent.POSTPONED)]
    )
    await asyncio.sleep(0.01)
    assert not future.done()
    waiting.notify([MessageOutcome(7, QueueEvent.ACCEPTED)])
    assert await future is QueueState.DONE
    assert not waiting._waiters


async def test_applied_by_another_node() -> None:
    """The database is polled every quarter of a second."""
    waiting = CompletionWaiter(States(QueueState.QUEUED, QueueState.CLAIMED, QueueState.DONE))
    assert await waiting.wait(7, 30.0) is QueueState.DONE


async def test_time_limit() -> None:
    """After the time limit the present state is returned."""
    waiting = CompletionWaiter(States(QueueState.QUEUED))
    assert await waiting.wait(7, 0.05) is QueueState.QUEUED
