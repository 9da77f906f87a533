"""Codes that are not in the code tables of a results definition."""

from pathlib import Path

import pytest

from bridge.delivery.composer import Composer, plan_message
from bridge.delivery.destination_settings import compile_outbound
from bridge.delivery.preparation import ReportContent, ReportTexts
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.operations import retry_delivery
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from config import load
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.language.code_tables import UnmappedCode
from mappings.outbound.definition import OutboundMapping
from tests.bridge.delivery.fixtures import Time, destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

SOURCES = {
    **read_folder(DEFINITIONS),
    "codes/bodies.csv": "code,value\nHEAD,HEAD\n",
    "street.yaml": """
include: results.yaml
segments:
  - MSH: {9: $message, 10: $control_id}
  - ZBP: {1: {value: $order.Accession, codes: bodies}}
""",
}
SETTINGS = """
[[destination]]
name = "ris"
address = "127.0.0.1:9"
mapping = "street"
layout = "lines"
"""


def outbound(made: object) -> OutboundMapping:
    assert isinstance(made, OutboundMapping)
    return made


async def test_a_refused_code_parks_the_result(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The result is parked with table and place, and composed again with the added code.

    The definition is activated, and the result is retried, while the courier claims.
    """
    street = SOURCES["street.yaml"].replace("codes: bodies", "codes: bodies, unknown: refuse")
    sources = {**SOURCES, "street.yaml": street}
    known = {**sources, "codes/bodies.csv": "code,value\nA1,SEVEN\n"}
    made = [compile_sources(source, "street") for source in (sources, known)]
    before, after = [destination(mappings=(outbound(item),)) for item in made]
    async with open_hospital(tmp_path, database, before) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "No bleeding.")
        await hospital.follow()
        parked = "SELECT id, code, detail FROM delivery WHERE state = 'parked'"
        await eventually_async(lambda: hospital.rows(parked))
        ((number, code, detail),) = hospital.rows(parked)
        claim, retried = Outbox.claim, list[int]()

        def retry_first(outbox: Outbox, name: str, now: int, limit: int) -> list[ClaimedDelivery]:
            if not retried:
                retried.append(number)
                hospital.couriers[0].use(after)
                retry_delivery(database, number)
            return claim(outbox, name, now, limit)

        monkeypatch.setattr(Outbox, "claim", retry_first)
        (sent,) = await hospital.delivered(1)
    assert (code, detail) == (
        "unknown_code",
        "code table bodies has no entry for the value of $order.Accession",
    )
    assert b"ZBP|SEVEN" in sent


async def test_unmapped_codes_are_reported_by_definition(
    tmp_path: Path, database: Database
) -> None:
    """The report has the name and version of the active definition."""
    (tmp_path / "bridge.toml").write_text(SETTINGS, "utf-8")
    settings = load(tmp_path)
    mappings = compile_outbound(settings, settings.destination[0], lambda _: SOURCES)
    here = destination(mappings=mappings)
    reported: list[tuple[str, str, list[UnmappedCode]]] = []
    async with open_hospital(tmp_path, database, here) as hospital:
        hospital.couriers[0].pause()
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "No bleeding.")
        await hospital.follow()
        (claimed,) = Outbox(database, "another").claim("ris", hospital.time(), 1)
        composer = Composer(
            database, Time().moment, lambda *of: reported.append((*of[:2], [*of[2]]))
        )
        plan = plan_message(claimed, composer.look_up([claimed], here)[claimed.delivery_id], here)
        (content,) = await ReportTexts(hospital.client).read([plan])
        assert isinstance(content, ReportContent)
        composer.write(plan, content.export, content.files)
    version = compile_sources(SOURCES, "street").version
    assert version != mappings[0].version, "the parameters are part of the version"
    assert reported == [
        ("street", version, [UnmappedCode("bodies", "A1", "$order.Accession", "keep")])
    ]
