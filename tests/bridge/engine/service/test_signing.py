"""Sign, unsign and release: the rows of the interface document's tables, one by one."""

import pytest
from sqlmodel import select

from bridge.engine.errors import (
    AlreadySigned,
    AuthorNotPermitted,
    CoolingElapsed,
    NoSignedReport,
    ReportNotFound,
    RuleBroken,
)
from bridge.engine.records.tables import (
    Account,
    Addendum,
    Billing,
    Share,
    Signature,
    SiteMembership,
)
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.reports.export import export_order
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.releases import next_due, release_due
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.work import Work
from bridge.engine.service.worklist.assignment import open_for, unassign
from tests.bridge.engine.service.ward import SITE, Ward


def test_sign_without_cooling_is_final_and_released(ward: Ward) -> None:
    """Draft, sign, no site cooling period: Final, and delivered downstream at once."""
    order = ward.draft("A1")

    ward.do(sign, order)

    assert ward.status(order) == "Final"
    assert ward.record(order).unsign_until is None
    assert ward.events()[-2:] == ["report_signed", "report_finalized"]
    assert ward.releases() == [("final", 1)]


@pytest.mark.parametrize("gone", ["prelim", "left", "disabled"])
def test_the_api_signs_for_nobody_who_may_not_sign(ward: Ward, gone: str) -> None:
    """As in the application: not for a preliminary reader, and not for who has left the site."""
    order, ready = ward.draft("A1"), ward.draft("A2")
    ward.delay(60)
    ward.do(sign, ready)
    with ward.database.session() as session:
        member, account = (
            session.get(SiteMembership, (SITE, ward.ann)),
            session.get(Account, ward.ann),
        )
        assert member is not None
        assert account is not None
        member.role = SiteRole.PRELIM if gone == "prelim" else member.role
        member.left_at = ward.now if gone == "left" else None
        account.disabled_at = ward.now if gone == "disabled" else None
        session.add_all([member, account])

    with pytest.raises(AuthorNotPermitted) as refused:
        ward.do(sign, order)

    assert (refused.value.status, refused.value.code) == (403, "author_may_not_sign")
    assert ward.status(order) == "Draft"
    ward.do(sign, ready, ignore_delay=True)  # what was signed before may still be released
    assert ward.record(ready).unsign_until is None


def test_a_signature_over_the_api_names_who_acted(ward: Ward) -> None:
    """Signed in the owner's name by an administrator's token: both are in the signature."""
    order = ward.draft("A1")

    ward.do(sign, order)

    with ward.work() as work:
        report = lock_report(work, order).report
        kept = work.session.exec(select(Signature)).one()
    acted = {"name": "Admin", "email": "admin@example.org"}
    assert report.signed_by == kept.signed_by
    assert (kept.signed_by["email"], kept.signed_by["actedBy"]) == ("ann@example.org", acted)


def test_sign_with_cooling_can_be_recalled_until(ward: Ward) -> None:
    """Draft, sign, cooling period configured: Final within the cooling period, nothing released."""
    ward.delay(60)
    order = ward.draft("A1")

    ward.do(sign, order)

    assert ward.status(order) == "Final"
    assert ward.record(order).unsign_until == ward.now + 60_000
    assert ward.releases() == []


def test_ignore_sign_delay_on_a_draft(ward: Ward) -> None:
    """G5: ignoreSignDelay on a Draft of a cooling site is final and delivered at once."""
    ward.delay(60)
    order = ward.draft("A1")

    ward.do(sign, order, ignore_delay=True)

    assert ward.record(order).unsign_until is None
    assert ward.releases() == [("final", 1)]


def test_sign_again_with_ignore_ends_cooling_and_keeps_time_and_content(ward: Ward) -> None:
    """Signed within cooling, ignoreSignDelay true: delivered once, not re-signed."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    signed_at = ward.now
    ward.later(10)

    ward.do(sign, order, ignore_delay=True)

    with ward.work() as work:
        report = lock_report(work, order).report
        assert (report.signed_at, report.content_text) == (signed_at, "Clear lungs.")
    assert ward.releases() == [("final", 1)]
    ward.later(120)
    assert release_due(ward.database, ward.now) == 0
    assert ward.releases() == [("final", 1)]


@pytest.mark.parametrize(("seconds", "ignore"), [(10, False), (60, False), (60, True), (90, True)])
def test_sign_again_fails_with_500(ward: Ward, seconds: int, ignore: bool) -> None:
    """Signed: within cooling without ignoreSignDelay, and after cooling in any case, 500."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    ward.later(seconds)

    with pytest.raises(AlreadySigned) as refused:
        ward.do(sign, order, ignore_delay=ignore)

    assert (refused.value.status, refused.value.code) == (500, "already_signed")


def test_sign_again_on_a_site_without_cooling(ward: Ward) -> None:
    """G6: a second sign on a site without cooling is 500, with ignoreSignDelay too."""
    order = ward.draft("A1")
    ward.do(sign, order)

    with pytest.raises(AlreadySigned):
        ward.do(sign, order, ignore_delay=True)


def test_sign_an_ordered_report_is_refused(ward: Ward) -> None:
    """V48: what nobody owns cannot be signed: 400."""
    order = ward.order("A1")

    with pytest.raises(RuleBroken) as refused:
        ward.do(sign, order)

    assert (refused.value.status, refused.value.code) == (400, "report_not_assigned")


def test_the_release_happens_when_the_cooling_period_ends(ward: Ward) -> None:
    """A pending release leaves at its time, on whichever node looks, and only once."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    with ward.database.read() as connection:
        assert next_due(connection) == ward.now + 60_000
    ward.later(59.999)
    assert release_due(ward.database, ward.now) == 0
    ward.later(0.001)

    assert release_due(ward.database, ward.now) == 1
    assert release_due(ward.database, ward.now) == 0

    assert ward.events()[-1] == "report_finalized"
    assert ward.releases() == [("final", 1)]
    with ward.database.read() as connection:
        assert next_due(connection) is None


def test_unsign_within_cooling_returns_to_draft_and_nothing_is_ever_sent(ward: Ward) -> None:
    """Final within cooling, unsign, no prelim read: Draft; the release is gone."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    ward.later(59.9)

    ward.do(unsign, order)

    assert ward.status(order) == "Draft"
    assert ward.content(order) == "Clear lungs."
    assert ward.record(order).user_email == "ann@example.org"
    ward.later(100)
    assert release_due(ward.database, ward.now) == 0
    assert ward.releases() == []


def test_sign_recall_sign_releases_once(ward: Ward) -> None:
    """Signed, recalled and signed again: one final release."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    ward.do(unsign, order)
    ward.later(30)
    ward.do(sign, order)
    ward.later(60)

    release_due(ward.database, ward.now)

    assert ward.releases() == [("final", 1)]


def test_unsign_restores_the_most_recent_prelim_read(ward: Ward) -> None:
    """Unsign, an active prelim read exists: Preliminary, its text restored, its review open."""
    ward.delay(60)
    order = ward.draft("A1", text="first read")
    ward.do(prelim, order, "Residents", "CT")
    ward.on_report(order, open_for, ward.bob)
    with ward.work() as work:
        lock_report(work, order).report.content_text = "corrected by Bob"
    ward.later(5)
    ward.do(sign, order)
    with ward.work() as work:
        assert export_order(work.session, order).prelims[0].reviewed_by.email == "bob@example.org"

    ward.do(unsign, order)

    assert (ward.status(order), ward.content(order)) == ("Preliminary", "first read")
    with ward.work() as work:
        assert export_order(work.session, order).prelims[0].reviewed_by is None
        history = work.session.exec(select(Signature)).one()
        assert (history.content_text, history.withdrawn_at) == ("corrected by Bob", ward.now)


@pytest.mark.parametrize("state", ["Draft", "Preliminary", "Ordered", "Ordered with content"])
def test_unsign_what_is_not_signed_fails_with_500(ward: Ward, state: str) -> None:
    """Draft, Preliminary or Ordered, unsign: 500, unchanged."""
    order = ward.order("A1") if state == "Ordered" else ward.draft("A1")
    if state == "Preliminary":
        ward.do(prelim, order, "G", "T")
    if state == "Ordered with content":
        ward.do(unassign, order)

    with pytest.raises(NoSignedReport) as refused:
        ward.do(unsign, order)

    assert refused.value.status == 500
    assert ward.status(order) == state.split(maxsplit=1)[0]


@pytest.mark.parametrize("delay", [0, 60])
def test_unsign_after_cooling_fails_with_500(ward: Ward, delay: int) -> None:
    """Final, cooling elapsed or none configured, unsign: 500, also where no ticker ran yet."""
    ward.delay(delay)
    order = ward.draft("A1")
    ward.do(sign, order)
    ward.later(delay)

    with pytest.raises(CoolingElapsed) as refused:
        ward.do(unsign, order)

    assert refused.value.status == 500
    assert ward.status(order) == "Final"


def test_unsign_clears_what_was_made_after_signing(ward: Ward) -> None:
    """Unsign clears addenda, billing codes and shares created after signing, no earlier ones."""
    ward.delay(60)
    order = ward.draft("A1")
    with ward.work() as work:
        own = lock_report(work, order).report.pk
        work.session.add(Billing(report_pk=own, codes={"early": 1}, created_at=work.now))
    ward.later(5)
    ward.do(sign, order)
    with ward.work() as work:
        work.session.add(Billing(report_pk=own, codes={"late": 1}, created_at=work.now))
        work.session.add(Share(report_pk=own, handle_hash="x", created_at=work.now))
    ward.on_report(order, addenda.create_addendum, ward.ann)

    ward.do(unsign, order)

    with ward.work() as work:
        assert [row.codes for row in work.session.exec(select(Billing))] == [{"early": 1}]
        assert list(work.session.exec(select(Share))) == []
        assert ward_addenda(work, order) == []


def test_a_delivered_addendum_is_retracted_when_its_report_is_recalled(ward: Ward) -> None:
    """G36: an addendum delivered early and then cleared by unsign leads to a retraction."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)
    write_addendum(ward, order, "late finding")
    ward.on_report(order, addenda.sign_addendum, ward.ann)
    ward.do(addenda.release_addendum, order)

    ward.do(unsign, order)
    ward.do(sign, order)
    write_addendum(ward, order, "second try")
    ward.on_report(order, addenda.sign_addendum, ward.ann)
    ward.later(60)
    release_due(ward.database, ward.now)

    assert ward.releases() == [("addendum", 1), ("retraction", 1), ("final", 1), ("addendum", 2)]


def test_unknown_orders_are_not_found(ward: Ward) -> None:
    """A triple that nobody launched is 404 for sign and unsign."""
    for service in (sign, unsign):
        with pytest.raises(ReportNotFound):
            ward.do(service, ward.identity("NOWHERE"))


def write_addendum(ward: Ward, order: OrderId, text: str) -> None:
    """Write the text of an addendum."""
    ward.on_report(order, addenda.create_addendum, ward.ann)
    ward.on_report(order, addenda.save_addendum, from_text(text))


def ward_addenda(work: Work, order: OrderId) -> list[Addendum]:
    """Return the addenda there are."""
    return addenda.addenda_of(work, lock_report(work, order).report)


def test_signing_accepts_default_text_on_every_path(ward: Ward) -> None:
    """No bracket of default text is in what is signed, stored and released; a request stays."""
    draft = "Lungs: [Unremarkable.] Nodule [size]."
    order = ward.draft("A1", text=draft)

    ward.do(sign, order)

    wanted = "Lungs: Unremarkable. Nodule [size]."
    with ward.work() as work:
        report = lock_report(work, order).report
        assert (report.content_text, report.document) == (wanted, to_json(from_text(wanted)))
        kept = work.session.exec(select(Signature)).one()
        assert (kept.content_text, kept.document) == (wanted, report.document)
        addenda.create_addendum(work, report, ward.ann)
        addenda.save_addendum(work, report, from_text(draft))
        signed = addenda.sign_addendum(work, report, ward.ann)
        assert (signed.content_text, signed.document) == (wanted, report.document)
