"""Sign, unsign and release: stored data, events and releases. tests/conformance has the tables."""

from typing import Any

import pytest
from sqlmodel import select

from bridge.contract import OrderKey
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    Account,
    Addendum,
    Billing,
    Share,
    Signature,
    SiteMembership,
)
from bridge.engine.rules.signing import fingerprint
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service import report_transitions
from bridge.engine.service.launch.report_updates import open_for
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports.export import export_report
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.prelims import prelim, withdraw
from bridge.engine.service.signing.releases import next_due, release_due
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.work import Work
from tests.bridge.engine.service.harness import SITE, ServiceHarness

ADDENDUM_EVENTS = ("addendum_finalized", "addendum_retracted")


@pytest.mark.parametrize("change", ["prelim", "left", "disabled"])
def test_the_api_refuses_to_sign_for_an_unpermitted_owner(
    harness: ServiceHarness, change: str
) -> None:
    """
    The API refuses the owners that the application refuses: preliminary readers, former members and
    disabled users.
    """
    order, ready = harness.draft("A1"), harness.draft("A2")
    harness.delay(60)
    harness.do(sign, ready)
    with harness.database.session() as session:
        member, account = (
            session.get(SiteMembership, (SITE, harness.ann)),
            session.get(Account, harness.ann),
        )
        assert member is not None
        assert account is not None
        member.role = SiteRole.PRELIM if change == "prelim" else member.role
        member.left_at = harness.now if change == "left" else None
        account.disabled_at = harness.now if change == "disabled" else None
        session.add_all([member, account])

    with pytest.raises(EngineError) as refused:
        harness.do(sign, order)

    assert (refused.value.status, refused.value.code) == (403, "author_may_not_sign")
    assert harness.status(order) == "Draft"
    harness.do(sign, ready, ignore_delay=True)  # a report signed before may be released
    assert harness.record(ready).unsign_until is None


def test_a_signature_names_the_acting_account(harness: ServiceHarness) -> None:
    """A signature for the owner by the token of an administrator names both."""
    order = harness.draft("A1")

    harness.do(sign, order)

    with harness.work() as work:
        report = lock_report(work, order).report
        kept = work.session.exec(select(Signature)).one()
    acted = {"name": "Admin", "email": "admin@example.org"}
    assert report.signed_by == kept.signed_by
    assert (kept.signed_by["email"], kept.signed_by["actedBy"]) == ("ann@example.org", acted)
    assert kept.acted_by_id == harness.admin


def test_a_fingerprint_covers_all_that_is_signed() -> None:
    """The fingerprint changes with the report, its orders, its content, signer and time."""
    order, other = OrderKey(SITE, "M1", "A1"), OrderKey(SITE, "M1", "A2")
    signed: Any = ("R1", [order], {"text": "Clear."}, "ann@example.org", 1)
    changed: Any = ("R2", [order, other], {"text": "No."}, "bob@example.org", 2)
    variants = [(*signed[:n], changed[n], *signed[n + 1 :]) for n in range(len(signed))]
    assert len({fingerprint(*variant) for variant in [signed, *variants]}) == 1 + len(signed)


def test_the_release_happens_when_the_cooling_period_ends(harness: ServiceHarness) -> None:
    """A pending release happens when it is due, on any node, and only once."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    with harness.database.read() as connection:
        assert next_due(connection) == harness.now + 60_000
    harness.later(59.999)
    assert release_due(harness.database, harness.now) == 0
    assert harness.record(order).unsign_until == harness.now + 1
    harness.later(0.001)
    assert harness.record(order).unsign_until is None

    assert release_due(harness.database, harness.now) == 1
    assert release_due(harness.database, harness.now) == 0

    assert harness.events()[-1] == "report_finalized"
    assert harness.releases() == [("final", 1)]
    with harness.database.read() as connection:
        assert next_due(connection) is None


def test_unsign_restores_the_most_recent_prelim_read(harness: ServiceHarness) -> None:
    """Unsign, an active prelim read exists: Preliminary, its text restored, its review open."""

    def write(text: str) -> None:
        with harness.work() as work:
            lock_report(work, order).report.content_text = text

    harness.delay(60)
    order = harness.draft("A1", text="earlier read")
    for text in ("earlier read", "newest read", "withdrawn read"):
        write(text)
        harness.do(prelim, order, "Residents", "CT")
        harness.later(1)
    harness.do(withdraw, order)
    harness.on_report(order, open_for, harness.bob)
    write("corrected by Bob")
    harness.later(5)
    harness.do(sign, order)
    with harness.work() as work:
        reviewer = (
            export_report(work.session, read_report(work.session, order)).prelims[0].reviewed_by
        )
        assert reviewer is not None
        assert reviewer.email == "bob@example.org"

    harness.do(unsign, order)

    assert (harness.status(order), harness.content(order)) == ("Preliminary", "newest read")
    with harness.work() as work:
        assert (
            export_report(work.session, read_report(work.session, order)).prelims[0].reviewed_by
            is None
        )
        history = work.session.exec(select(Signature)).one()
        assert (history.content_text, history.withdrawn_at) == ("corrected by Bob", harness.now)


def test_unsign_clears_items_created_after_signing(harness: ServiceHarness) -> None:
    """Addenda, billing codes and shares; earlier items are kept."""
    harness.delay(60)
    order = harness.draft("A1")
    with harness.work() as work:
        own = lock_report(work, order).report.pk
        assert own is not None
        work.session.add(Billing(report_pk=own, codes={"early": 1}, created_at=work.now))
    harness.later(5)
    harness.do(sign, order)
    with harness.work() as work:
        work.session.add(Billing(report_pk=own, codes={"late": 1}, created_at=work.now))
        work.session.add(Share(report_pk=own, handle_hash="x", created_at=work.now))
    harness.on_report(order, addenda.create_addendum, harness.ann)

    harness.do(unsign, order)

    with harness.work() as work:
        assert [row.codes for row in work.session.exec(select(Billing))] == [{"early": 1}]
        assert list(work.session.exec(select(Share))) == []
        assert addenda_of_order(work, order) == []


def test_a_delivered_addendum_is_retracted_when_its_report_is_recalled(
    harness: ServiceHarness,
) -> None:
    """An addendum delivered early and then cleared by unsign leads to a retraction."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    write_addendum(harness, order, "late finding")
    harness.on_report(order, addenda.sign_addendum, harness.ann)
    harness.do(addenda.release_addendum, order)

    harness.do(unsign, order)
    harness.do(sign, order)
    write_addendum(harness, order, "second try")
    harness.on_report(order, addenda.sign_addendum, harness.ann)
    harness.later(60)
    release_due(harness.database, harness.now)

    assert harness.releases() == [("addendum", 1), ("retraction", 1), ("final", 1), ("addendum", 2)]
    places = [
        change["addenda"] for change in harness.changes() if change["event"] in ADDENDUM_EVENTS
    ]
    assert places == [1, 1, 1]


def test_an_addendum_that_was_not_delivered_is_not_retracted(harness: ServiceHarness) -> None:
    """A recall clears an addendum within its cooling period; receivers know nothing of it."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    write_addendum(harness, order, "late finding")
    harness.on_report(order, addenda.sign_addendum, harness.ann)

    harness.do(unsign, order)

    harness.later(100)
    release_due(harness.database, harness.now)
    assert harness.releases() == []


def test_a_recall_keeps_earlier_reviews(harness: ServiceHarness) -> None:
    """A recall undoes the review by the recalled signing alone."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(prelim, order, "Residents", "first")
    harness.on_report(order, open_for, harness.bob)
    harness.later(5)
    harness.do(prelim, order, "Residents", "second")
    harness.later(5)
    harness.do(sign, order)

    harness.do(unsign, order)

    with harness.work() as work:
        reads = export_report(work.session, read_report(work.session, order)).prelims
    assert [read.reviewed_by and read.reviewed_by.email for read in reads] == [
        "bob@example.org",
        None,
    ]


def write_addendum(harness: ServiceHarness, order: OrderKey, text: str) -> None:
    harness.on_report(order, addenda.create_addendum, harness.ann)
    harness.on_report(order, addenda.save_addendum, from_text(text))


def addenda_of_order(work: Work, order: OrderKey) -> list[Addendum]:
    return report_transitions.addenda_of(work, lock_report(work, order).report)


def test_signing_changes_no_bracket(harness: ServiceHarness) -> None:
    """A bracket never loses its brackets by itself: the reader of the report sees the request."""
    wanted = "Lungs: [Unremarkable.] Nodule [size]."
    order = harness.draft("A1", text=wanted)

    harness.do(sign, order)

    with harness.work() as work:
        report = lock_report(work, order).report
        assert (report.content_text, report.document) == (wanted, to_json(from_text(wanted)))
        kept = work.session.exec(select(Signature)).one()
        assert (kept.content_text, kept.document) == (wanted, report.document)
        addenda.create_addendum(work, report, harness.ann)
        addenda.save_addendum(work, report, from_text(wanted))
        signed = addenda.sign_addendum(work, report, harness.ann)
        assert (signed.content_text, signed.document) == (wanted, report.document)
