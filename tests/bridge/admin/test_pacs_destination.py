"""A destination that is a PACS, as operators see it: tests, checks, specification, content."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.checks.checks import check_home
from bridge.admin.checks.live import check_live
from bridge.admin.connection_samples import ConnectionSamples
from bridge.admin.connection_settings import Connections, ProposedConnection
from bridge.admin.errors import InvalidState
from bridge.admin.messages.message_tree import content_of
from bridge.admin.specification.document import as_html
from bridge.admin.specification.rendering import document_of
from bridge.admin.specification.use_case import specification
from bridge.executors import close_all
from bridge.store import databases
from bridge.store.database import Database
from config import Settings, load
from config.sections import ChannelKind
from tests.bridge.delivery.pacs import free_port, orthanc, pacs
from tests.bridge.delivery.test_dicom_objects import GREEK, PDF, written
from tests.databases import create_migrated_home
from tests.programs import ORTHANC

PACS = """
[[destination]]
name = "pacs"
address = "{address}"
time_zone = "Europe/Athens"
connect_timeout = "5s"
ack_timeout = "5s"
"""


@dataclass
class Installation:
    home: Path
    settings: Settings
    database: Database


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Any]:
    opened: list[Database] = []

    def make(address: str, more: str = "") -> Installation:
        home = tmp_path / "home"
        create_migrated_home(home)
        (home / "bridge.toml").write_text(PACS.format(address=address) + more, "utf-8")
        settings = load(home)
        database = databases.open_bridge_database(settings)
        databases.migrate_bridge(database)
        opened.append(database)
        return Installation(home, settings, database)

    yield make
    for database in opened:
        database.dispose()
    close_all()


@pytest.mark.anyio
async def test_the_connection_test_ends_with_an_echo(installation: Any) -> None:
    """The console's test resolves, connects and sends a C-ECHO, and says why there is none."""
    with pacs() as archive:
        made = installation(f"dicom://PACS@127.0.0.1:{archive.port}")
        connections = Connections(made.settings, made.database, lambda: 1_000)
        steps = await connections.probe(ChannelKind.DESTINATION, "pacs")
        assert [(step["name"], step["ok"]) for step in steps] == [
            ("resolve", True),
            ("connect", True),
            ("stays", True),
            ("echo", True),
        ]
        table = {"name": "new", "address": f"dicom://WRONG@127.0.0.1:{archive.port}"}
        plan = ProposedConnection(ChannelKind.DESTINATION, table, new=True)
        *_, last = await connections.try_out(plan)
        assert (last["name"], last["ok"]) == ("echo", False)
        assert "AE title" in last["code"]


def test_the_live_check(installation: Any) -> None:
    """`bridge check --live` sends a C-ECHO; a wrong title and a wrong port are errors."""
    with pacs() as archive:
        right = installation(f"dicom://PACS@127.0.0.1:{archive.port}")
        assert check_home(right.home) == [] or not _about_pacs(check_home(right.home))
        assert not _about_pacs(check_live(right.home))
        wrong = installation(f"dicom://OTHER@127.0.0.1:{archive.port}")
        assert "AE title" in _about_pacs(check_live(wrong.home))[0]
    nobody = installation(f"dicom://PACS@127.0.0.1:{free_port()}")
    assert _about_pacs(check_live(nobody.home))


def _about_pacs(findings: Any) -> list[str]:
    return [one.message for one in findings if "destination pacs" in one.place]


@pytest.mark.needs(ORTHANC)
def test_the_live_check_of_a_dicomweb_service(tmp_path: Path, installation: Any) -> None:
    with orthanc(tmp_path / "orthanc") as archive:
        made = installation(f"dicomweb+{archive.dicomweb}")
        assert not [text for text in _about_pacs(check_live(made.home)) if "check the path" in text]


def test_the_specification(installation: Any) -> None:
    """The PACS's administrator reads titles, classes, attributes and the rules for statuses."""
    made = installation(
        "dicom://PACS@10.0.0.9:104",
        '[destination.dicom]\ncalling_ae_title = "RB"\ncommitment = true\n',
    )
    found = specification(made.settings, made.database, ChannelKind.DESTINATION, "pacs")
    facts = {fact.name: fact.value for fact in found.transport}
    assert (facts["Calling AE title"], facts["Storage commitment"]) == ("RB", "requested")
    assert {segment.name for segment in found.segments} == {
        "Encapsulated PDF Storage",
        "Basic Text SR Storage",
        "Key Object Selection Document Storage",
    }
    rules = {fact.name: fact.value for fact in found.acknowledgments}
    assert rules["dicom A7xx"] == "retry"
    assert "AE" not in rules
    assert any("Verifying Observer Sequence" in example.text for example in found.examples)
    assert "Encapsulated PDF" in as_html(document_of(found))


@pytest.mark.anyio
async def test_no_hl7_is_sent_to_a_pacs(installation: Any) -> None:
    """A sample result is a message, which a PACS does not get."""
    made = installation("dicom://PACS@127.0.0.1:104")
    samples = ConnectionSamples(made.settings, made.database, lambda: 1_000)
    with pytest.raises(InvalidState, match="MLLP"):
        await samples.send_result("pacs")


def test_the_content_of_a_delivery_is_readable() -> None:
    """The page shows the attributes of the objects, and never reads them as HL7."""
    found = content_of(written(), reply=b"C-STORE 0000 Success: Encapsulated PDF Storage 2.25.1")
    assert found["tree"] == []
    assert GREEK in found["raw"]
    assert "Encapsulated PDF Storage" in found["raw"]
    assert f"Encapsulated Document: {len(PDF) + len(PDF) % 2} bytes" in found["raw"]
    assert found["ack"]["raw"].startswith("C-STORE 0000")
