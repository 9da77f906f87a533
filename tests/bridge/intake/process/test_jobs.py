"""Messages are mapped with the definition version that accepted them, on each node."""

import asyncio
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridge.intake.process.jobs import DefinitionMissingError, MessageJob, read, read_inline
from bridge.intake.process.order_processor import OrderProcessor, outcome_of_error
from bridge.intake.process.order_repository import OrderRepository
from bridge.intake.receive.completion import CompletionWaiter
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.metrics import Metrics
from bridge.queue.claims import ClaimedMessage
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.runtime.listener_definitions import ListenerDefinitions
from bridge.store.database import Database
from bridge.workers.hooks import WorkerHookRunner, install
from bridge.workers.pool import WorkerPool
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import HookNotCalled
from mappings.language.hooks import set_hook_executor
from tests.bridge.delivery.fixtures import SITE, inbound
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order

RAW = (
    b"MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^NORTH^MR||Doe^Jane\rORC|NW|P1\rOBR|1|P1||X^Test|||||||||||||||A1\r"
)
SHIPPED = read_folder(DEFINITIONS)


def version(note: str) -> InboundMapping:
    text = f"include: orders.yaml\ntags: {{Notes: {{const: {note}}}}}"
    made = compile_sources({**SHIPPED, "mine.yaml": text}, "mine")
    assert isinstance(made, InboundMapping)
    return made


OLD, NEW = version("old"), version("new")


def find_version(name: str, wanted: str) -> InboundMapping | None:
    return OLD if (name, wanted) == ("mine", OLD.version) else None


def notes(listening: ListenerPolicy, wanted: str) -> str:
    received = round(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
    claimed = ClaimedMessage(1, RAW, "ris", "mine", wanted, (1,), 1, received, 0, "ORM^O01")
    job: MessageJob = read(claimed, {"ris": listening})
    found: str = job.events[0].clinical_info["Notes"]
    return found


def test_a_message_keeps_its_version() -> None:
    """A message accepted before an activation is mapped with the former version."""
    listening = ListenerPolicy("ris", (NEW,), "SITE1", find_version=find_version)
    assert notes(listening, OLD.version) == "old"
    assert notes(listening, NEW.version) == "new"


def test_a_version_that_is_not_stored() -> None:
    """The active version maps messages of older releases."""
    listening = ListenerPolicy("ris", (NEW,), "SITE1", find_version=find_version)
    assert notes(listening, "0123456789abcdef") == "new"


def test_a_definition_removed_from_the_settings() -> None:
    """Its messages are still processed. Without any version there is no definition."""
    assert (
        notes(ListenerPolicy("ris", (), "SITE1", find_version=find_version), OLD.version) == "old"
    )
    with pytest.raises(DefinitionMissingError):
        notes(ListenerPolicy("ris", (), "SITE1"), OLD.version)


def test_a_hook_for_which_no_process_is_free() -> None:
    """The message is tried again: it is not the cause."""
    rule = "include: orders.yaml\ntags: {Notes: {hook: 'mine:f'}}"
    sources = {**SHIPPED, "mine.yaml": rule, "mine.py": "def f(message):\n    return 'x'\n"}
    install()
    made = compile_sources(sources, "mine")
    assert isinstance(made, InboundMapping)
    listening = ListenerPolicy("ris", (made,), "SITE1")
    claimed = claimed_of(listening)
    set_hook_executor(WorkerHookRunner(WorkerPool("busy", (), size=1, waiting=0)))
    try:
        with pytest.raises(HookNotCalled) as raised:
            read(claimed, {"ris": listening})
    finally:
        install()
    outcome = outcome_of_error(claimed, raised.value)
    assert (outcome.event, outcome.code) == (QueueEvent.POSTPONED, "hook_not_called")
    assert notes(listening, made.version) == "x"


def known() -> ListenerPolicy:
    return ListenerPolicy("ris", (version("seen"),), "SITE1")


def claimed_of(listening: ListenerPolicy, payload: bytes = RAW, **changes: Any) -> ClaimedMessage:
    wanted = listening.definitions[0].version
    return replace(
        ClaimedMessage(1, payload, "ris", "mine", wanted, (1,), 1, 1_770_000_000_000, 0, "ORM^O01"),
        **changes,
    )


def test_a_short_message_is_read_at_once() -> None:
    """The result is that of `read`."""
    listening = known()
    message = claimed_of(listening)
    assert read_inline(message, {"ris": listening}) == read(message, {"ris": listening})


def test_a_message_with_slow_patterns_is_not_read_at_once() -> None:
    """Many small patterns together would hold up the event loop."""
    rules = "".join(f"    k{n}: {{from: NTE-3, extract: 'a(a|b){{30}}c{n}'}}\n" for n in range(50))
    text = f"include: orders.yaml\nmetadata:\n  values:\n{rules}"
    made = compile_sources({**SHIPPED, "mine.yaml": text}, "mine")
    assert isinstance(made, InboundMapping)
    listening = ListenerPolicy("ris", (made,), "SITE1")
    slow = claimed_of(listening, RAW + b"NTE|1||" + b"ab" * 2000 + b"\r")
    assert read_inline(claimed_of(listening), {"ris": listening}) is not None
    assert read_inline(slow, {"ris": listening}) is None
    assert read(slow, {"ris": listening})


@pytest.mark.parametrize(
    "changes",
    [
        {"listener": "gone"},
        {"mapping": "gone"},
        {"mapping_version": "0123456789abcdef"},  # may need a query
        {"payload": b""},
        {"payload": RAW + b"NTE|1||" + b"x" * 2**15 + b"\r"},
        {"payload": RAW.replace(b"ORC|NW", b"ORC|QQ")},
    ],
)
def test_messages_that_are_not_read_at_once(changes: dict[str, Any]) -> None:
    """`read` handles these messages on a thread."""
    listening = known()
    assert read_inline(claimed_of(listening, **changes), {"ris": listening}) is None


def test_slow_definitions_are_not_read_at_once() -> None:
    """A hook waits for another process, and a large pattern computes for long."""
    slow = ListenerPolicy("ris", (replace(version("slow"), needs_thread=True),), "SITE1")
    assert read_inline(claimed_of(slow), {"ris": slow}) is None


def test_unmapped_codes_are_counted_once() -> None:
    """A thread reads a message with an unmapped code, and counts the code once."""
    missing_codes: list[Collection[UnmappedCode]] = []

    def missing(_name: str, _version: str, missed: Collection[UnmappedCode]) -> None:
        missing_codes.append(missed)

    listening = ListenerPolicy("ris", (version("seen"),), "SITE1", on_unmapped_codes=missing)
    unknown = RAW.replace(b"|||||||||||||||A1", b"|||||||||||||||A1|||||XX")
    for _ in range(4):
        read(claimed_of(listening, unknown), {"ris": listening})
    assert len(missing_codes) == 4
    assert read_inline(claimed_of(listening, unknown), {"ris": listening}) is None
    assert len(missing_codes) == 4


@pytest.mark.parametrize("adopts", [False, True], ids=["start", "activation"])
async def test_a_listener_that_is_not_loaded_yet(
    tmp_path: Path, database: Database, adopts: bool
) -> None:
    """Its definitions are loaded on a thread, and the order is registered."""
    loaded_on: list[threading.Thread] = []

    def load_newer() -> Mapping[str, ListenerPolicy]:
        loaded_on.append(threading.current_thread())
        return {"ris": ListenerPolicy("ris", inbound(), SITE)}

    async with open_hospital(tmp_path, database) as hospital:
        await hospital.worker.stop()
        await hospital.hand_over(order("ID1", "A1"))
        repository = OrderRepository(database, hospital.time)
        inbox = Inbox(database, "one", write_records=repository.write)
        definitions = ListenerDefinitions({}, load_newer)
        node = OrderProcessor(
            hospital.client,
            repository,
            {} if adopts else definitions,
            CompletionWaiter(lambda _: asyncio.sleep(0, QueueState.DONE)),
            Metrics(),
        )
        if adopts:
            node.use(definitions)
        events = []
        async for outcomes in node.apply(inbox.claim(hospital.time(), 1)):
            events += [outcome.event for outcome in outcomes]
            inbox.settle(outcomes, hospital.time())
        assert events == [QueueEvent.ACCEPTED]
        assert loaded_on
        assert threading.main_thread() not in loaded_on
        assert await hospital.report("A1", "M1") is not None
