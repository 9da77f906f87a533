"""Actions of the report page: one writer, no lost text, permissions, shares."""

from typing import Any

import pytest

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, Share
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.launch.report_updates import open_for
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports import shares
from bridge.engine.service.reports.export import export_report
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.reports.patients import update_patient
from bridge.engine.service.signing import lease, page_actions
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.sign import unsign
from bridge.engine.service.sites.site_settings import preferences_of
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from bridge.store.options import DatabaseOptions
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def editor(harness: ServiceHarness, session: str = "s1", role: SiteRole = SiteRole.USER) -> Editor:
    return Editor(harness.ann, role, session)


def page(harness: ServiceHarness, order: OrderKey, user: Editor, **options: Any) -> dict[str, Any]:
    return harness.do(page_actions.load, user, harness.record(order).report_id, **options)


def text(value: str) -> dict[str, Any]:
    return to_json(from_text(value))


def test_load_and_save(harness: ServiceHarness) -> None:
    """A page loads a version and saves on it; the feed reports the changed content."""
    order = harness.draft("A1")
    ann = editor(harness)
    loaded = page(harness, order, ann)
    assert loaded["writable"]
    assert loaded["content"] == "Clear lungs."

    saved = harness.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("a\nb"))

    assert harness.content(order) == "a\nb"
    assert saved.version > loaded["version"]
    assert harness.events()[-1] == "report_content_updated"
    again = harness.do(page_actions.save, ann, loaded["reportId"], saved.version, text("a\nb"))
    assert again.version == saved.version


def test_an_applied_template_is_kept(harness: ServiceHarness) -> None:
    """The number of an applied template is saved, kept, and counts as content."""
    order = harness.draft("A1", text="")
    ann = editor(harness)
    loaded = page(harness, order, ann)

    saved = harness.do(
        page_actions.save, ann, loaded["reportId"], loaded["version"], text(""), template=3
    )
    harness.do(page_actions.save, ann, loaded["reportId"], saved.version, text("  "))

    assert harness.record(order).has_content


def test_one_writer_at_a_time(harness: ServiceHarness) -> None:
    """The lease lasts 30 seconds; other sessions are read-only unless they take over."""
    order = harness.draft("A1")
    here, there = editor(harness, "here"), editor(harness, "there")
    loaded = page(harness, order, here)

    assert not page(harness, order, there)["writable"]
    with refused(ErrorCode.BEING_EDITED):
        harness.do(page_actions.save, there, loaded["reportId"], loaded["version"], text("x"))

    assert page(harness, order, there, take_over=True)["writable"]
    with refused(ErrorCode.BEING_EDITED):
        harness.do(page_actions.save, here, loaded["reportId"], loaded["version"], text("x"))
    harness.later(30)
    assert page(harness, order, here)["writable"]


def test_only_the_owner_writes(harness: ServiceHarness) -> None:
    """For another user the page is read-only; a preliminary reader cannot sign."""
    order = harness.draft("A1")
    report_id = harness.record(order).report_id
    bob = Editor(harness.bob, SiteRole.USER, "b")
    resident = Editor(harness.ann, SiteRole.PRELIM, "a")
    version = page(harness, order, resident)["version"]

    assert not page(harness, order, bob)["writable"]
    for user in (bob, resident):
        with refused(ErrorCode.FORBIDDEN):
            harness.do(page_actions.sign, user, report_id, version)
    harness.do(page_actions.prelim, resident, report_id, version, "Night", "CT")
    assert harness.status(order) == "Preliminary"


def test_an_administrator_acts_in_the_own_name(harness: ServiceHarness) -> None:
    """The page signs and reads in the name of its user, who may be another than the owner."""
    admin = Editor(harness.admin, SiteRole.ADMINISTRATOR, "a")
    order, other = harness.draft("A1"), harness.draft("A2")
    report_id, other_id = (harness.record(item).report_id for item in (order, other))
    harness.do(page_actions.prelim, admin, report_id, 1, "Night", "CT")
    harness.do(page_actions.sign, admin, other_id, 1)

    with harness.work() as work:
        (read,) = export_report(work.session, read_report(work.session, order)).prelims
        signed_by = read_report(work.session, other).signed_by
    assert read.by.email == "admin@example.org"
    assert signed_by is not None
    assert signed_by["email"] == "admin@example.org"


def test_a_report_that_another_window_writes(harness: ServiceHarness) -> None:
    """Another window of the owner neither discards the report nor ends the lease."""
    order = harness.draft("A1")
    here, there = editor(harness, "here"), editor(harness, "there")
    report_id = page(harness, order, here)["reportId"]

    with refused(ErrorCode.BEING_EDITED):
        harness.do(page_actions.discard_report, there, report_id)
    harness.on_report(order, lambda work, report: lease.release(work, "there", report))
    assert not page(harness, order, there)["writable"]
    harness.on_report(order, lambda work, report: lease.release(work, "here", report))
    assert page(harness, order, there)["writable"]


def test_signing_requires_the_displayed_version(harness: ServiceHarness) -> None:
    order = harness.draft("A1")
    ann = editor(harness)
    loaded = page(harness, order, ann)
    harness.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("later"))

    with refused(ErrorCode.VERSION_CONFLICT):
        harness.do(page_actions.sign, ann, loaded["reportId"], loaded["version"])
    fresh = page(harness, order, ann)
    harness.do(page_actions.sign, ann, loaded["reportId"], fresh["version"])

    assert harness.status(order) == "Final"
    with pytest.raises(EngineError):
        harness.do(page_actions.save, ann, loaded["reportId"], fresh["version"] + 1, text("late"))


def test_a_transfer_ends_the_lease(harness: ServiceHarness) -> None:
    """The new owner writes at once, although the window of the former owner is open."""
    order = harness.draft("A1")
    page(harness, order, editor(harness))

    harness.on_report(order, open_for, harness.bob)

    assert page(harness, order, Editor(harness.bob, SiteRole.USER, "b"))["writable"]


def test_signing_ends_the_lease(harness: ServiceHarness) -> None:
    """After a recall another window of the signer can write at once."""
    harness.delay(60)
    order = harness.draft("A1")
    here, there = editor(harness, "here"), editor(harness, "there")
    loaded = page(harness, order, here)
    harness.do(page_actions.sign, here, loaded["reportId"], loaded["version"])
    harness.do(page_actions.unsign, here, loaded["reportId"])

    assert page(harness, order, there)["writable"]


def test_an_addendum_from_creation_to_release(harness: ServiceHarness) -> None:
    """Create, save, sign, recall, sign and release an addendum on the page."""
    harness.delay(60)
    order = harness.draft("A1")
    ann = editor(harness)
    report_id = page(harness, order, ann)["reportId"]
    harness.do(page_actions.sign, ann, report_id, page(harness, order, ann)["version"])

    harness.do(page_actions.create_addendum, ann, report_id)
    harness.do(page_actions.save_addendum, ann, report_id, 1, text("more"))
    with refused(ErrorCode.VERSION_CONFLICT):
        harness.do(page_actions.save_addendum, ann, report_id, 1, text("stale"))
    harness.do(page_actions.sign_addendum, ann, report_id, 2)
    harness.do(page_actions.unsign_addendum, ann, report_id)
    assert page(harness, order, ann)["addenda"][0]["state"] == "draft"
    harness.do(
        page_actions.sign_addendum,
        ann,
        report_id,
        page(harness, order, ann)["addenda"][0]["version"],
    )
    harness.do(page_actions.release_addendum, ann, report_id)

    assert harness.status(order) == "Addendum"
    assert harness.releases() == [("addendum", 1)]
    assert page(harness, order, ann)["addenda"][0]["released"]


def test_a_recalled_text_is_offered_again(harness: ServiceHarness) -> None:
    """A recall to a preliminary read restores its text; the page still offers the signed one."""
    harness.delay(60)
    order = harness.draft("A1", text="first read")
    harness.do(prelim, order, "G", "T")
    ann = editor(harness)
    loaded = page(harness, order, ann)
    saved = harness.do(
        page_actions.save, ann, loaded["reportId"], loaded["version"], text("corrected")
    )
    harness.do(page_actions.sign, ann, loaded["reportId"], saved.version)

    harness.do(unsign, order)

    fresh = page(harness, order, ann)
    assert fresh["content"] == "first read"
    assert fresh["recalled"]["content"] == "corrected"


def test_an_order_change_does_not_stop_the_writer(harness: ServiceHarness) -> None:
    """A save succeeds although tags, demographics or links of the report changed."""
    order, other = harness.draft("A1"), harness.order("A2")
    ann = editor(harness)
    loaded = page(harness, order, ann)

    harness.do(register, SITE, OrderInput("M1", "A1", tags={"Modality": "MR"}))
    harness.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B"})
    harness.do(link_orders, [order, other])
    harness.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("typed"))

    assert harness.content(order) == "typed"


NOW = 1_800_000_000_000
JUMP = 10**9  # ms


@pytest.mark.parametrize("jump", [JUMP, -JUMP])
def test_a_clock_jump_does_not_end_a_lease(
    database_url: str, database: Database, jump: int
) -> None:
    """A session on a node with a wrong clock does not get the lease."""
    opened = Database(database_url, DatabaseOptions(lease_clock=True))
    own, other = (Editor(number, SiteRole.USER, f"session {number}") for number in (1, 2))
    report = Report(
        report_id="R", site_id="S", status=ReportStatus.DRAFT, origin=ReportOrigin.LAUNCH
    )
    with opened.read() as connection:
        here, there = (Work(connection, ActorRef(1), now) for now in (NOW, NOW + jump))
        lease.renew(here, own, report)
        here.close()
        assert lease.is_held(there, own, report)
        assert not lease.is_free(there, other, report)
        report.lease_until = NOW + JUMP * 10  # from an older release, or before a reboot
        assert lease.is_free(here, other, report)
    opened.dispose()


def test_a_share_ends_when_the_site_requires_it(harness: ServiceHarness) -> None:
    """A longer lifetime is shortened, a shorter one is kept."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    report_id = harness.record(harness.draft("A1")).report_id
    with harness.work() as work:
        longest = preferences_of(work.connection, SITE).shareSeconds
    for seconds, lifetime in ((longest + 1, longest), (60, 60), (None, longest)):
        made = harness.do(shares.create_share, ann, report_id, bytes, seconds)
        assert made.expires_at == harness.now + lifetime * 1000
        harness.do(shares.revoke, ann, report_id, made.pk)
        with harness.work() as work:
            work.session.delete(work.session.get_one(Share, made.pk))


def test_a_share_is_revoked_at_its_own_report(harness: ServiceHarness) -> None:
    """The key of another report's share is unknown, and that share stays valid."""
    ann = Editor(harness.ann, SiteRole.USER, "s")
    one, other = (harness.record(harness.draft(accession)).report_id for accession in ("A1", "A2"))
    made = harness.do(shares.create_share, ann, one, bytes, None)

    with refused(ErrorCode.NOT_FOUND):
        harness.do(shares.revoke, ann, other, made.pk)

    assert [share["id"] for share in harness.do(shares.list_shares, ann, one)] == [made.pk]
