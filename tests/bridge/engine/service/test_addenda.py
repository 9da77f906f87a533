"""Addenda and their own cooling period. tests/conformance has the table of the document."""

import pytest
from sqlmodel import select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Addendum
from bridge.engine.rules.signing import fingerprint
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports.export import export_report
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.releases import release_due
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.service.harness import ServiceHarness


def signed_report(harness: ServiceHarness, delay: int = 60) -> OrderKey:
    """Sign a report and let its own cooling period end."""
    harness.delay(delay)
    order = harness.draft("A1")
    harness.do(sign, order)
    harness.later(delay)
    release_due(harness.database, harness.now)
    return order


def add_signed_addendum(harness: ServiceHarness, order: OrderKey, text: str = "More.") -> None:
    harness.on_report(order, addenda.create_addendum, harness.bob)
    harness.on_report(order, addenda.save_addendum, from_text(text))
    harness.on_report(order, addenda.sign_addendum, harness.bob)


def test_a_signed_addendum_cools_on_its_own(harness: ServiceHarness) -> None:
    """The sign delay applies to each addendum; the period of the report stays ended."""
    order = signed_report(harness)

    add_signed_addendum(harness, order)

    record = harness.record(order)
    assert record.status == "Addendum"
    assert record.unsign_until is None
    assert record.addendum_unsign_until == harness.now + 60_000
    harness.later(60)
    release_due(harness.database, harness.now)
    assert harness.releases() == [("final", 1), ("addendum", 1)]
    assert harness.record(order).addendum_unsign_until is None


def test_an_addendum_names_its_own_signer(harness: ServiceHarness) -> None:
    """Another user than the report's owner; the fingerprint covers the addendum's own text."""
    order = signed_report(harness)
    add_signed_addendum(harness, order)
    with harness.work() as work:
        report = read_report(work.session, order)
        (addendum,) = export_report(work.session, report).addenda
        stored = work.session.exec(select(Addendum)).one()
        signed = {"addendum": 1, "document": to_json(from_text("More."))}
        expected = fingerprint(report.report_id, [order], signed, "bob@example.org", harness.now)
    assert addendum.signed_by is not None
    assert addendum.signed_by.email == "bob@example.org"
    assert stored.content_hash == expected


@pytest.mark.parametrize("early", [False, True])
def test_an_addendum_is_not_released_with_its_report(
    harness: ServiceHarness, *, early: bool
) -> None:
    """Each is released at the end of its own period, so that the addendum can be recalled."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    harness.later(30)
    add_signed_addendum(harness, order)
    if early:
        harness.do(sign, order, ignore_delay=True)
        assert harness.releases() == [("final", 1)]
    harness.later(30)
    assert release_due(harness.database, harness.now) == (0 if early else 1)
    assert harness.releases() == [("final", 1)]
    harness.later(30)
    assert release_due(harness.database, harness.now) == 1
    assert harness.releases() == [("final", 1), ("addendum", 1)]


def test_a_released_addendum_is_not_recalled(harness: ServiceHarness) -> None:
    """A release before its period ends also ends the period; a later addendum has its own."""
    order = signed_report(harness)
    add_signed_addendum(harness, order)
    harness.do(addenda.release_addendum, order)
    with refused(ErrorCode.COOLING_ELAPSED):
        harness.do(addenda.unsign_addendum, order)
    add_signed_addendum(harness, order)

    harness.do(addenda.unsign_addendum, order)

    assert harness.status(order) == "Addendum"
    harness.later(60)
    assert release_due(harness.database, harness.now) == 0
    assert harness.releases() == [("final", 1), ("addendum", 1)]


@pytest.mark.parametrize("cause", ["release", "no_delay", "shorter_delay"])
def test_addenda_are_released_in_their_order(harness: ServiceHarness, *, cause: str) -> None:
    """A later addendum that is released early releases the earlier ones before it."""
    order = signed_report(harness)
    add_signed_addendum(harness, order, "First.")
    harness.later(1)

    harness.delay({"release": 60, "no_delay": 0, "shorter_delay": 10}[cause])
    add_signed_addendum(harness, order, "Second.")
    if cause == "release":
        harness.do(addenda.release_addendum, order)
    elif cause == "shorter_delay":
        harness.later(10)
        assert release_due(harness.database, harness.now) == 2

    assert harness.releases() == [("final", 1), ("addendum", 1), ("addendum", 2)]
    harness.later(100)
    assert release_due(harness.database, harness.now) == 0


def test_a_recalled_addendum_leaves_the_release_of_its_report(harness: ServiceHarness) -> None:
    """The recall of an addendum withdraws its own release alone."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    harness.later(30)
    add_signed_addendum(harness, order)

    harness.do(addenda.unsign_addendum, order)

    harness.later(60)
    release_due(harness.database, harness.now)
    assert harness.releases() == [("final", 1)]


@pytest.mark.parametrize("service", [addenda.release_addendum, addenda.unsign_addendum])
def test_a_draft_addendum_is_not_a_signed_one(harness: ServiceHarness, service: object) -> None:
    """addendum/sign and addendum/unsign: 500 without a signed addendum."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    harness.on_report(order, addenda.create_addendum, harness.ann)

    with refused(ErrorCode.NO_SIGNED_ADDENDUM) as refusal:
        harness.do(service, order)  # type: ignore[arg-type]  # one of two services

    assert refusal.value.status == 500


def test_unsign_the_only_addendum(harness: ServiceHarness) -> None:
    """Addendum unsign, no other signed addendum remains: Final; nothing is delivered."""
    order = signed_report(harness)
    add_signed_addendum(harness, order)

    harness.do(addenda.unsign_addendum, order)

    assert harness.status(order) == "Final"
    harness.later(100)
    assert release_due(harness.database, harness.now) == 0
    with harness.work() as work:
        assert export_report(work.session, read_report(work.session, order)).addenda == ()


def test_one_addendum_is_written_at_a_time(harness: ServiceHarness) -> None:
    """One open draft per report; after cancelling it, a new one can be created."""
    order = signed_report(harness)
    first = harness.on_report(order, addenda.create_addendum, harness.ann).number

    with pytest.raises(EngineError, match="already has an addendum"):
        harness.on_report(order, addenda.create_addendum, harness.ann)

    harness.on_report(order, addenda.cancel_addendum)
    assert harness.on_report(order, addenda.create_addendum, harness.ann).number == first
    assert harness.status(order) == "Final"


def test_an_empty_addendum_is_not_signed(harness: ServiceHarness) -> None:
    """An addendum without text cannot be signed."""
    order = signed_report(harness)
    harness.on_report(order, addenda.create_addendum, harness.ann)

    with pytest.raises(EngineError, match="without text"):
        harness.on_report(order, addenda.sign_addendum, harness.ann)


def test_only_signed_reports_get_addenda(harness: ServiceHarness) -> None:
    """A Draft gets no addendum."""
    order = harness.draft("A1")

    with pytest.raises(EngineError) as refused:
        harness.on_report(order, addenda.create_addendum, harness.ann)

    assert refused.value.code == "report_not_signed"
