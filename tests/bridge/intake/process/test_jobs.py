"""Messages are mapped with the definition version that accepted them, on each node."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bridge.intake.process.jobs import DefinitionMissingError, MessageJob, read
from bridge.intake.process.order_processor import outcome_of_error
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.queue.claims import ClaimedMessage
from bridge.queue.states import QueueEvent
from bridge.workers.hooks import WorkerHookRunner, install
from bridge.workers.pool import WorkerPool
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import HookNotCalled
from mappings.language.hooks import set_hook_executor

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


def test_unmapped_codes_are_counted_with_each_message() -> None:
    missing_codes: list[Collection[UnmappedCode]] = []

    def missing(_name: str, _version: str, missed: Collection[UnmappedCode]) -> None:
        missing_codes.append(missed)

    listening = ListenerPolicy("ris", (version("seen"),), "SITE1", on_unmapped_codes=missing)
    unknown = RAW.replace(b"|||||||||||||||A1", b"|||||||||||||||A1|||||XX")
    for _ in range(4):
        read(claimed_of(listening, unknown), {"ris": listening})
    assert len(missing_codes) == 4
