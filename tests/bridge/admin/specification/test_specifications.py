"""The specification of a listener or destination says what its definitions do."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.specification.document import as_html, as_pdf, as_text
from bridge.admin.specification.model import ChangeKind, Specification, changes
from bridge.admin.specification.rendering import document_of
from bridge.admin.specification.use_case import (
    SpecificationFormat,
    interface_specification,
    rendered,
    specification,
)
from bridge.store import databases
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin, MappingVersion
from bridge.store.tables import MAPPING_EXAMPLES
from config import Settings, load
from config.sections import ChannelKind
from mappings.authoring.trial import try_message
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.message import Message
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from tests.bridge.admin.specification.made_up_names import INVENTED
from tests.databases import create_migrated_home

LISTENER, DESTINATION = ChannelKind.LISTENER, ChannelKind.DESTINATION
SHIPPED = read_folder(DEFINITIONS)
SETTINGS = """
[[listener]]
name = "ris"
bind = "10.11.12.13:2575"
site = "SITE1"
replies = "order"
[[listener]]
name = "odd"
bind = "127.0.0.1:2576"
mappings = ["odd"]
processing_ids = ["T", "P"]
charset = "iso8859-1"
validate = "refuse"
sequence_numbers = "require"
[[listener]]
name = "drop"
bind = "folder:inbox"
[[listener]]
name = "web"
bind = "http://127.0.0.1:2577/hl7"
[[destination]]
name = "his"
address = "10.11.12.14:2575"
events = ["preliminary", "final", "addendum", "recall", "order-status"]
replies = {"AE 206" = "park"}
[[destination]]
name = "documents"
address = "folder:out"
mapping = "mdm"
[[destination]]
name = "rad"
address = "https://his.example.org/hl7"
mapping = "rad128"
[[destination]]
name = "old"
address = "127.0.0.1:2578"
version = "2.3"
layout = "formatted"
content = ["text", "pdf"]
"""
ODD = """
include: orders.yaml
tags:
  PatientMRN: {from: PID-2.1, required: true}
  Accession: {from: ZAC-3.2, required: true}
  Modality: {from: ZAC-4, codes: machines, unknown: refuse}
order_control: {unknown: ignore}
accept:
  messages: [ORM^O01]
  versions: ["2.4"]
  senders: [{application: "CT-*", facility: NORTH}]
"""
MACHINES = "code,value,remark\nCT1,CT,first scanner\nMR7,MR,\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(SETTINGS, "utf-8")
    (home / "mappings" / "codes").mkdir(parents=True, exist_ok=True)
    (home / "mappings" / "odd.yaml").write_text(ODD, "utf-8")
    (home / "mappings" / "codes" / "machines.csv").write_text(MACHINES, "utf-8")
    return home


@pytest.fixture
def settings(home: Path) -> Settings:
    return load(home)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    opened = databases.open_bridge_database(settings)
    databases.migrate_bridge(opened)
    yield opened
    opened.dispose()


CHANNELS = [
    *((LISTENER, name) for name in ("ris", "odd", "drop", "web")),
    *((DESTINATION, name) for name in ("his", "documents", "rad", "old")),
]


def fields(found: Specification) -> dict[str, Any]:
    return {item.place: item for segment in found.segments for item in segment.fields}


def facts(found: Specification) -> dict[str, str]:
    return {fact.name: fact.value for fact in found.transport}


@pytest.mark.parametrize(("kind", "name"), CHANNELS)
def test_each_channel_has_a_document_in_each_format(
    settings: Settings, database: Database, kind: ChannelKind, name: str
) -> None:
    """HTML is complete in itself, PDF is a PDF, JSON is the model, and each has examples."""
    found = specification(settings, database, kind, name)
    assert found.segments
    assert found.messages
    assert found.examples
    assert all(
        item.name
        for segment in found.segments
        for item in segment.fields
        if not segment.name.startswith("Z")
    )
    page = rendered(settings, database, kind, name, SpecificationFormat.HTML)
    assert isinstance(page, bytes)
    assert page.startswith(b"<!doctype html>")
    assert b"<script" not in page
    assert not re.search(rb'(?:src|href)="(?!#)', page)
    pdf = rendered(settings, database, kind, name, SpecificationFormat.PDF)
    assert isinstance(pdf, bytes)
    assert pdf.startswith(b"%PDF-")
    body = rendered(settings, database, kind, name, SpecificationFormat.JSON)
    assert isinstance(body, Mapping)
    assert json.loads(json.dumps(body))["changes"] is None
    text = as_text(document_of(found))
    assert all(segment.name in text for segment in found.segments)


@pytest.mark.parametrize("name", ["ris", "odd", "drop", "web"])
def test_the_examples_of_a_listener_are_accepted(
    settings: Settings, database: Database, name: str
) -> None:
    """Each made-up message is one that its definition accepts."""
    found = specification(settings, database, LISTENER, name)
    files = {**SHIPPED, "odd.yaml": ODD, "codes/machines.csv": MACHINES}
    from bridge.admin.specification.made_up import NOW  # noqa: PLC0415

    for example in found.examples:
        mapping = compile_sources(files, example.title.partition(":")[0])
        assert isinstance(mapping, InboundMapping)
        raw = example.text.replace("\n", "\r").encode()
        assert try_message(mapping, raw, ListenerDefaults("SITE1", "UTC", NOW)).accepted


@pytest.mark.parametrize(("kind", "name"), CHANNELS)
def test_examples_have_invented_names_only(
    settings: Settings, database: Database, kind: ChannelKind, name: str
) -> None:
    """No example has a name or number that is not one of the made-up ones."""
    for example in specification(settings, database, kind, name).examples:
        message = Message.parse(example.text.replace("\n", "\r").encode())
        for path in ("PID-3.1", "PID-5.1", "PID-2.1", "OBR-16.2", "PV1-8.2", "ORC-12.2"):
            assert message.value(path) in INVENTED, path


def test_the_fields_of_the_shipped_orders(settings: Settings, database: Database) -> None:
    """Fields have names of the standard, their tags, and what is required under which condition."""
    found = specification(settings, database, LISTENER, "ris")
    known = fields(found)
    assert (known["PID-3"].name, known["PID-3"].type) == ("Patient identifier list", "CX")
    assert known["PID-3"].usage == "C"
    assert known["PID-3"].condition == "one of PID-3, PID-2, PID-4 must have a value"
    assert known["ORC-1"].usage == "R"
    assert (known["PID-8"].codes, known["PID-8"].usage) == ("sex", "RE")
    assert "Modality" in known["OBR-24"].content
    assert known["MSH-11"].content == "processing id: P"
    assert "MSH-13" not in known
    (sex,) = (table for table in found.codes if table.name == "sex")
    assert ("W", "F") in [(row.code, row.value) for row in sex.rows]
    rows = {(row.control, row.status): row.action for row in found.control}
    assert rows["NW", "CA"] == "cancels the order"
    assert rows["NW", ""].startswith("adds the order")
    assert {fact.name: fact.value for fact in found.replies}["CA"] == "CR, or UC if unable"
    types = [message.type for message in found.messages]
    assert types[:3] == ["ORM^O01", "OMG^O19", "OMI^O23"]
    assert "ADT^A40" in types


def test_an_odd_listener(settings: Settings, database: Database) -> None:
    """A definition with Z fields, own codes and other settings has them in its document."""
    found = specification(settings, database, LISTENER, "odd")
    known = fields(found)
    assert (known["PID-2"].usage, known["PID-2"].cardinality[0]) == ("R", "1")
    assert (known["ZAC-3"].usage, known["ZAC-3"].example) == ("R", "^Accession 1")
    assert (known["ZAC-4"].codes, known["ZAC-4"].example) == ("machines", "CT1")
    assert known["MSH-11"].content == "processing id: T or P"
    assert known["MSH-13"].usage == "R"
    assert known["MSH-3"].content.endswith(": CT-*")
    assert (known["MSH-4"].usage, known["MSH-12"].content) == ("R", "version: 2.4")
    header = found.examples[0].text.splitlines()[0].split("|")
    assert (header[2:4], header[11]) == (["CT-", "NORTH"], "2.4")
    (machines,) = (table for table in found.codes if table.name == "machines")
    assert machines.note == "A message with another code is refused."
    assert facts(found)["Character set"].startswith("that of MSH-18; iso8859-1")
    assert any(fact.name == "Structure" for fact in found.acknowledgments)


def test_transports(settings: Settings, database: Database) -> None:
    """The protocol is named; the address only on request."""
    for kind, name in CHANNELS:
        assert "Address" not in facts(specification(settings, database, kind, name))
    ris = specification(settings, database, LISTENER, "ris", with_address=True)
    assert facts(ris)["Address"] == "10.11.12.13:2575"
    protocols = {
        name: facts(specification(settings, database, kind, name))["Protocol"]
        for kind, name in CHANNELS
    }
    assert protocols["ris"].startswith("MLLP")
    assert protocols["drop"].startswith("files in a folder")
    assert protocols["web"].startswith("HL7 over HTTP:")
    assert protocols["rad"].startswith("HL7 over HTTPS:")


def test_the_fields_of_results(settings: Settings, database: Database) -> None:
    """A destination has the written fields of each definition, and an example of each event."""
    found = specification(settings, database, DESTINATION, "his")
    events = [example.title.partition(":")[0] for example in found.examples]
    assert events == [
        "final", "addendum", "correction", "retraction",
        "preliminary", "cancellation", "recall", "order-status",
    ]  # fmt: skip
    by_definition = {segment.within for segment in found.segments}
    assert by_definition == {"results", "status"}
    results = {
        item.place: item
        for segment in found.segments
        if segment.within == "results"
        for item in segment.fields
    }
    assert results["OBR-25"].usage == "R"
    assert results["OBR-25"].content == "status of the result: see Messages"
    assert results["OBR-2"].content.startswith("OBR-2 of the order, else ORC-2 of the order")
    words = " ".join(item.content + item.condition for item in results.values())
    assert not re.search(r"\$[a-z]", words)
    purposes = [message.purpose for message in found.messages]
    assert "OBR-25 F" in purposes[0]
    assert "OBX-11 F" in purposes[0]
    assert {fact.name: fact.value for fact in found.acknowledgments}["AE 206"] == "park"


def test_options_of_a_destination_apply(settings: Settings, database: Database) -> None:
    """A destination with version 2.3 has that version in its example and its documents."""
    found = specification(settings, database, DESTINATION, "old")
    assert fields(found)["MSH-12"].example == "2.3"
    assert fields(found)["OBX-2"].usage == "R"
    assert "|FT|" in found.examples[0].text


def activate(database: Database, sources: Mapping[str, str], at: int) -> str:
    compiled = compile_sources(sources, "orders")
    used = {name: sources[name] for name in compiled.files}
    version = MappingVersion("orders", compiled.version, used)
    with database.write() as connection:
        mapping_versions.store(connection, version, at)
        mapping_versions.activate(connection, version, at, "ada", "test", ActivationOrigin.ACTIVATE)
    return compiled.version


def test_the_active_version_and_the_changes_since_another(
    settings: Settings, database: Database
) -> None:
    """The document is of the active version; a comparison lists what a partner must change."""
    first = activate(database, SHIPPED, 1_000)
    text = SHIPPED["orders.yaml"]
    changed = text.replace("  Race: [PID-10.2, PID-10.1]\n", "  Race: ZPI-4\n")
    changed = changed.replace("    XX: change\n", "    XX: ignore\n")
    assert changed != text
    second = activate(database, {**SHIPPED, "orders.yaml": changed}, 2_000)
    found = specification(settings, database, LISTENER, "ris")
    assert next((item.name, item.version, item.active_since) for item in found.definitions) == (
        "orders",
        second,
        2_000,
    )
    before = specification(settings, database, LISTENER, "ris", first[:8])
    assert before.definitions[0].active_since is None
    listed = {change.place: change for change in changes(before, found)}
    assert listed["ZPI-4"].kind is ChangeKind.ADDED
    assert listed["ZPI"].kind is ChangeKind.ADDED
    assert (listed["order control XX"].before, listed["order control XX"].after) == (
        "updates the order",
        "is accepted without effect",
    )
    assert "PID-10" not in listed  # the definition of patients still reads it
    assert changes(found, found) == []
    page = rendered(settings, database, LISTENER, "ris", SpecificationFormat.TEXT, compare=first)
    assert isinstance(page, bytes)
    assert f"1 Changes since {first}" in page.decode()


def test_what_does_not_exist(settings: Settings, database: Database) -> None:
    with pytest.raises(NoSuchItem):
        specification(settings, database, LISTENER, "none")
    with pytest.raises(NoSuchItem, match="no version ffff"):
        specification(settings, database, LISTENER, "ris", "ffffffff")


def test_a_listener_whose_definition_writes_messages(home: Path, database: Database) -> None:
    """It cannot be described; the error names the definition."""
    broken = SETTINGS.replace('mappings = ["odd"]', 'mappings = ["results"]')
    (home / "bridge.toml").write_text(broken, "utf-8")
    with pytest.raises(InvalidState, match="results does not read messages"):
        specification(load(home), database, LISTENER, "odd")


def test_stored_examples_are_shown(settings: Settings, database: Database) -> None:
    """De-identified examples of the definitions follow the made-up ones; broken ones do not."""
    rows = [
        ("orders", "portable chest", "ris", b"MSH|^~\\&|A||||||ORM^O01|1|P|2.5\rPID|1||X1\r"),
        ("orders", "of another listener", "odd", b"MSH|^~\\&|B||||||ORM^O01|1|P|2.5\r"),
        ("orders", "broken", "ris", b"GET /"),
    ]
    with database.write() as connection:
        for name, label, listener, payload in rows:
            connection.execute(
                insert(MAPPING_EXAMPLES),
                {
                    "name": name,
                    "label": label,
                    "listener": listener,
                    "payload": payload,
                    "expected": "{}",
                    "added_at": 1,
                    "added_by": "ada",
                },
            )
    titles = [item.title for item in specification(settings, database, LISTENER, "ris").examples]
    assert titles[-1] == "orders: portable chest (de-identified)"
    assert sum("de-identified" in title for title in titles) == 1


def test_strange_characters_stay_text(settings: Settings, database: Database) -> None:
    """Names of a definition cannot add markup to HTML or break the PDF."""
    found = specification(settings, database, LISTENER, "ris")
    from dataclasses import replace  # noqa: PLC0415

    evil = replace(found, name='<img src="x" onerror=alert(1)>#[*]$\\"\x07日本')
    page = as_html(document_of(evil))
    assert "<img" not in page
    assert as_pdf(document_of(evil)).startswith(b"%PDF-")


def test_the_command(home: Path, database: Database) -> None:
    """A name without a kind is a listener's, else a destination's."""
    body = interface_specification(home, "ris", None, SpecificationFormat.JSON)
    assert isinstance(body, Mapping)
    assert body["kind"] == "listener"
    text = interface_specification(home, "his", None, SpecificationFormat.TEXT)
    assert isinstance(text, bytes)
    assert text.startswith(b"HL7 interface: destination his")
