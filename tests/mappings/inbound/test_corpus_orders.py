"""
Each order of the corpus is accepted, or refused with reason and location.

The tables have the expected results, of our shapes and of the real messages.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from mappings.authoring.trial import try_message
from mappings.compiler import DEFINITIONS, load
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.inbound.definition import InboundMapping
from tests.corpus import CORPUS, REAL_MESSAGES
from tests.mappings.definitions import DEFAULTS
from tests.mappings.mutated import mutated

MAPPINGS = [
    m for name in ("orders", "patients") if isinstance(m := load(DEFINITIONS, name), InboundMapping)
]

FILES = {path.stem: path for path in CORPUS}
SHAPES = {
    "omg-imaging-without-last-terminator": "create A7117",
    "omg-two-laboratory-groups": "ignore , ignore ",
    "orm-all-fields": "ignore ",
    "orm-change-date-in-words": "change MR^20260302-0110",
    "orm-diet": "ignore ",
    "orm-group-number": "create A7107",
    "orm-new-two-groups": "create A7101, create A7102",
    "orm-new-without-pv1": "create A7103",
    "orm-notes-with-line-escapes": "create A7116",
    "orm-one-orc-two-obr": "create A7108, create A7109",
    "orm-requisition": "ignore ",
    "orm-status-not-of-the-table": "change A7104",
    "orm-version-2.7": "ignore ",
    "orm-visit-and-study-uid": "create A7106",
    "orm-with-insurance": "create A7105",
    "orm-without-an-order": "AE 101 ORC",
}
REAL_ORDERS = {
    "Aidbox-multi-obr": "ignore , ignore ",
    "Aidbox-no-pv1": "create ORD-4001",
    "Aidbox-non-standard-orc5": "ignore ",
    "Aidbox-with-insurance": "ignore ",
    "CDCgov-hl7_2.7": "ignore b518ef23-1d9a-40c1-ac4b-ed7b438dfc4b",
    "CDCgov-orm_o01-full": "ignore placer1",
    "CDCgov-sample_orm_20230809-001": "ignore , ignore ",
    "Efferent-Health-Sample-ORM": "create 11777-60",
    "OpenIntegrationEngine-test-hl7-input": "change MR^20061213-0007",
    "cosyte-orm-o01": "create AC-VS-001",
    "cosyte-orm-o01-2": "ignore ",
    "dcm4che-OMG_O19-GeneralClinicalOrder-Eyecare": "create AccessionNumber",
    "microsoft-OMG-O19-01": "ignore , ignore ",
    "microsoft-ORM-O01-04": "ignore ",
    "microsoft-ORM-O01-05": "ignore ",
    "nextgenhealthcare-test-hl7-1636-output": "AE 101 ORC",
    "nextgenhealthcare-test-hl7-input": "change MR^20061213-0007",
    "rethinkhealth-orm-o01-order": "ignore ",
}


def disposition(raw: bytes, mapping: InboundMapping) -> str:
    trial = try_message(mapping, raw, DEFAULTS)
    refusals = [issue.refusal for issue in trial.issues if issue.refusal]
    if refusals:
        assert not trial.accepted
        return ", ".join(f"{r.ack_code} {r.error_code} {r.place}" for r in refusals)
    return ", ".join(f"{event['action']} {event['accession']}" for event in trial.events)


ORDERS = SHAPES | REAL_ORDERS if REAL_MESSAGES else SHAPES


@pytest.mark.parametrize(("name", "expected"), ORDERS.items())
def test_order(name: str, expected: str) -> None:
    """An order of the corpus is accepted, or refused with reason and location."""
    assert disposition(FILES[name].read_bytes(), MAPPINGS[0]) == expected


def test_no_order_is_forgotten() -> None:
    found = set()
    for path in CORPUS:
        try:
            header = Message.parse(path.read_bytes()).header
        except MessageRefusal:
            continue
        if MAPPINGS[0].accepts(header):
            found.add(path.stem)
    assert found == set(ORDERS)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("mapping", MAPPINGS, ids=lambda mapping: mapping.name)
def test_nothing_crashes(path: Path, mapping: InboundMapping) -> None:
    """A mapping returns events or refusals for any message."""
    trial = try_message(mapping, path.read_bytes(), DEFAULTS)
    assert trial.accepted or trial.issues


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(raw=mutated())
def test_mutations_raise_nothing_but_refusals(raw: bytes) -> None:
    """A mutated message results in events or a MessageRefusal."""
    for mapping in MAPPINGS:
        trial = try_message(mapping, raw, DEFAULTS)
        assert trial.accepted or trial.issues
        try:
            message = Message.parse(raw)
            refused = bool(mapping.pre_check(message, DEFAULTS).refusals)
            mapping.apply(message, DEFAULTS)
        except MessageRefusal:
            continue
        assert not refused or mapping.acceptance.refusals(message.header)
