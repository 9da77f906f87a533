"""Messages are read by the version they began with, as long as anybody knows it."""

from datetime import UTC, datetime

import pytest

from bridge.intake.listening import Definition, Listening
from bridge.intake.reading import Job, NoDefinition, read
from bridge.queue.work import Claimed
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound import InboundMapping

RAW = (
    b"MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^NORTH^MR||Doe^Jane\rORC|NW|P1\rOBR|1|P1||X^Test|||||||||||||||A1\r"
)
SHIPPED = read_folder(DEFINITIONS)


def version(note: str) -> InboundMapping:
    """A version of a definition that is known by what it notes."""
    text = f"include: orders.yaml\ntags: {{Notes: {{const: {note}}}}}"
    made = compile_sources({**SHIPPED, "mine.yaml": text}, "mine")
    assert isinstance(made, InboundMapping)
    return made


OLD, NEW = version("old"), version("new")


def recall(name: str, wanted: str) -> Definition | None:
    """Remember the old version."""
    return OLD if (name, wanted) == ("mine", OLD.version) else None


def notes(listening: Listening, wanted: str) -> str:
    """Read a message that began with a version."""
    received = round(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
    claimed = Claimed(1, RAW, "ris", "mine", wanted, (1,), 1, received, 0, "ORM^O01")
    job: Job = read(claimed, {"ris": listening})
    found: str = job.events[0].clinical_info["Notes"]
    return found


def test_a_message_finishes_under_its_version() -> None:
    """What was accepted before an activation is mapped as it was checked."""
    listening = Listening("ris", (NEW,), "SITE1", recall=recall)
    assert notes(listening, OLD.version) == "old"
    assert notes(listening, NEW.version) == "new"


def test_a_version_that_was_never_kept() -> None:
    """The one in force reads what an older release stored."""
    listening = Listening("ris", (NEW,), "SITE1", recall=recall)
    assert notes(listening, "0123456789abcdef") == "new"


def test_a_definition_that_left_the_settings() -> None:
    """Its messages finish all the same; without any version there is no definition."""
    assert notes(Listening("ris", (), "SITE1", recall=recall), OLD.version) == "old"
    with pytest.raises(NoDefinition):
        notes(Listening("ris", (), "SITE1"), OLD.version)
