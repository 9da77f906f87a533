"""A hook that hangs before an acknowledgment delays only its own connection."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from bridge.intake.receive.frame_offload import FrameOffload
from bridge.store.database import Database
from bridge.workers.hooks import install
from config.listeners import SequenceNumbers
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.acknowledgment import read_ack
from mappings.inbound.definition import InboundMapping
from mappings.language.hooks import set_hook_executor
from mllp.contract import as_deferred
from mllp.framing import Frame
from tests.bridge.intake.fixture import LISTENING, RecordingPeer, open_intake, order
from tests.eventually import PATIENCE, eventually_async


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
    """Make hooks wait within the block."""
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
    """Return a definition whose MRN comes from a hook."""
    made = compile_sources(SOURCES, name)
    assert isinstance(made, InboundMapping)
    return made


@pytest.mark.parametrize("numbers", [SequenceNumbers.OFF, SequenceNumbers.CHECK])
async def test_others_are_acknowledged_meanwhile(
    database: Database, numbers: SequenceNumbers
) -> None:
    """Other messages are acknowledged first, then the message of the hook."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as threads, held_hooks("M7") as held:
        mine = replace(LISTENING, definitions=(listening(),))
        async with (
            open_intake(database) as plain,
            open_intake(database, mine, numbers=numbers) as intake,
        ):
            offload = FrameOffload(intake.handler, threads)
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
    assert not made.takes_long
    evaluated_in: list[int] = []
    before = InboundMapping.pre_check

    def observed(self: InboundMapping, *given: Any) -> Any:
        found = before(self, *given)
        evaluated_in.append(threading.get_ident())
        return found

    monkeypatch.setattr(InboundMapping, "pre_check", observed)
    with ThreadPoolExecutor(2) as threads:
        async with open_intake(database, replace(LISTENING, definitions=(made,))) as intake:
            handle = FrameOffload(intake.handler, threads)
            for number, place in enumerate((b"", b"ab" * 2000, b"ab"), start=1):
                payload = order(f"S{number}", "A1").replace(
                    b"\rORC", b"|" * 15 + place + b"\rORC", 1
                )
                frame, peer = Frame(payload), RecordingPeer(connection_id=1)
                (reply,) = await as_deferred(handle, frame, peer).asFuture(
                    asyncio.get_running_loop()
                )
                assert read_ack(reply).code == "AA"
    here = threading.get_ident()
    assert [each == here for each in evaluated_in] == [True, False, True]


def test_large_patterns_use_a_thread() -> None:
    """A thread matches large patterns, the loop small ones."""
    assert listening("large").takes_long
    assert not any(each.takes_long for each in LISTENING.definitions)
