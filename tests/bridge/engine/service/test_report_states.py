"""Unsigned reports: register, open, reset, delete, prelim, assign."""

from contextlib import suppress
from typing import Any

import pytest
from sqlmodel import select

from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    PrelimGroup,
    ReportFile,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.launch.registration import MAX_METADATA, OrderInput, Registration
from bridge.engine.service.launch.report_updates import open_for
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.reports.deletion import reset_order
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import list_waiting, prelim, withdraw
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.worklist import assign_order
from tests.bridge.engine.registrations import register, register_many
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def test_registering_an_order(harness: ServiceHarness) -> None:
    """An order is registered as an empty, unassigned Ordered report."""
    order = harness.order("A1", Modality="CT")

    record = harness.record(order)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)
    (change,) = harness.changes()
    assert change["event"] == "order_registered"
    assert change["record"] == record.model_dump(mode="json")
    assert change["orders"][0]["Modality"] == "CT"


def test_registering_again_updates_the_tags(harness: ServiceHarness) -> None:
    """Registering a known order changes the tags of an unsigned report; empty tags are removed."""
    order = harness.order("A1", Modality="CT", StudyDate="20260101")
    again = OrderInput("M1", "A1", tags={"Modality": "MR", "StudyDate": ""}, metadata={"k": 1})

    first = harness.do(register, SITE, again)
    second = harness.do(register, SITE, again)

    assert first.outcome is Registration.UPDATED
    assert second.outcome is Registration.UNCHANGED
    assert harness.events() == ["order_registered", "order_updated"]
    tags = harness.changes()[-1]["orders"][0]
    assert (tags["Modality"], tags["Metadata"], "StudyDate" in tags) == ("MR", {"k": 1}, False)
    assert tags["PatientName"] == "EXAMPLE^ADA"
    assert harness.record(order).report_id == first.report_id


def test_registering_many_keeps_their_order(harness: ServiceHarness) -> None:
    """New, known and repeated orders of a batch have their outcomes in order."""
    harness.order("A2")
    batch = [OrderInput("M1", name, tags={"Modality": "CT"}) for name in ("A1", "A2", "A1", "A3")]
    batch[2] = OrderInput("M1", "A1", tags={"Modality": "MR"})

    done = harness.do(register_many, SITE, batch)

    assert [each.outcome for each in done] == ["created", "updated", "updated", "created"]
    assert done[0].report_id == done[2].report_id
    with harness.work() as work:
        assert lock_report(work, harness.identity("A1")).order.tags["Modality"] == "MR"


def test_a_batch_announces_a_report_once(harness: ServiceHarness) -> None:
    """A change has all orders of its report: one for each order would be their square."""
    orders = [harness.order(name) for name in ("A1", "A2", "A3")]
    harness.do(link_orders, orders)
    before = harness.changes()[-1]["cursor"]

    tags = {"Modality": "MR"}
    harness.do(
        register_many, SITE, [OrderInput("M1", name, tags=tags) for name in ("A1", "A2", "A3")]
    )

    (change,) = harness.changes(before)
    assert change["event"] == "order_updated"
    assert [each["Modality"] for each in change["orders"]] == ["MR", "MR", "MR"]


def test_an_update_that_was_rolled_back_is_not_announced(harness: ServiceHarness) -> None:
    """A refused launch of a batch hides no update of another one, and is not announced itself."""
    harness.order("A1")
    harness.order("A2")
    before = harness.changes()[-1]["cursor"]
    with harness.work() as work:
        register(work, SITE, OrderInput("M1", "A1", tags={"Modality": "MR"}))
        with suppress(ZeroDivisionError), work.savepoint():
            register(work, SITE, OrderInput("M1", "A2", tags={"Modality": "MR"}))
            raise ZeroDivisionError
    (change,) = harness.changes(before)
    assert [each["Accession"] for each in change["orders"]] == ["A1"]


def test_metadata_of_many_launches(harness: ServiceHarness) -> None:
    """Launches add keys to the Metadata of an order until a limit."""
    harness.order("A1")
    large = "x" * (MAX_METADATA // 2)
    harness.do(register, SITE, OrderInput("M1", "A1", metadata={"one": large}))
    with pytest.raises(EngineError) as error:
        harness.do(register, SITE, OrderInput("M1", "A1", metadata={"two": large}))
    assert (error.value.code, error.value.pointer) == (
        "metadata_too_large",
        "/clinicalInfo/Metadata",
    )


def test_an_applied_template_is_content(harness: ServiceHarness) -> None:
    """A template that was applied counts as content, until the order is reset."""
    order = harness.order("A1")
    harness.on_report(order, open_for, harness.ann)
    harness.on_report(order, lambda _, report: setattr(report, "template_number", 3))
    assert harness.record(order).has_content

    harness.do(reset_order, order)

    assert not harness.record(order).has_content


def test_a_reset_order_has_nothing_of_its_reader(harness: ServiceHarness) -> None:
    """Text, key findings and files are deleted, and another session may write."""
    order = harness.order("A1")
    harness.on_report(order, open_for, harness.ann)
    with harness.work() as work:
        report = lock_report(work, order).report
        report.content_text, report.key_findings = "Begun.", "Nodule."
        file: dict[str, Any] = {
            "kind": FileKind.KEY_IMAGE,
            "sha256": "1",
            "data": b"1",
            "created_at": harness.now,
        }
        work.session.add(ReportFile(report_pk=key_of(report), **file))
        lease.renew(work, Editor(harness.ann, SiteRole.USER, "session 1"), report)

    harness.do(reset_order, order)

    with harness.work() as work:
        report = lock_report(work, order).report
        assert (report.content_text, report.key_findings) == ("", "")
        assert work.session.exec(select(ReportFile)).all() == []
        assert lease.is_free(work, Editor(harness.bob, SiteRole.USER, "session 2"), report)


def test_a_report_is_listed_under_its_newest_tag_only(harness: ServiceHarness) -> None:
    """The group and tag of its newest active read."""
    order = harness.draft("A1")
    for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR")):
        harness.later(1)
        harness.do(prelim, order, group, tag)

    def listed() -> list[tuple[str, str]]:
        with harness.work() as work:
            return [
                (group, tag)
                for group, tag in (("Night", "CT"), ("Night", "MR"), ("Day", "MR"))
                if list_waiting(work.session, SITE, group, tag, harness.now).reports
            ]

    assert listed() == [("Day", "MR")]
    harness.do(withdraw, order)
    assert listed() == [("Night", "MR")]


def test_withdrawing_the_only_read_makes_the_report_a_draft(harness: ServiceHarness) -> None:
    """Text and owner stay; withdrawing is refused if the report is not Preliminary."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)

    harness.do(withdraw, order)

    assert (harness.status(order), harness.content(order)) == ("Draft", "Clear lungs.")
    assert harness.record(order).user_email == "ann@example.org"
    assert harness.events()[-1] == "report_prelim_withdrawn"
    for status, code in (("Draft", "report_not_preliminary"), ("Final", "report_signed")):
        if status == "Final":
            harness.do(sign, order)
        with pytest.raises(EngineError) as refused:
            harness.do(withdraw, order)
        assert refused.value.code == code


def test_a_withdrawn_read_does_not_count(harness: ServiceHarness) -> None:
    """Neither the next withdrawal nor a recall of the signature restores it."""
    harness.delay(60)
    order = harness.draft("A1")
    for _ in range(2):
        harness.do(prelim, order, "Night", "CT")
        harness.do(withdraw, order)
        assert harness.status(order) == "Draft"
    harness.do(sign, order)
    harness.do(unsign, order)
    assert harness.status(order) == "Draft"


def test_withdrawing_a_read_undoes_its_review(harness: ServiceHarness) -> None:
    """The earlier read, which the withdrawn read had reviewed, is unreviewed again."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)
    harness.on_report(order, open_for, harness.bob)
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)

    harness.do(withdraw, order)

    assert harness.status(order) == "Preliminary"
    with harness.work() as work:
        (one,) = list_waiting(work.session, SITE, "Night", "CT", harness.now).reports
        assert one.read_at == harness.now - 2000


def add_groups(harness: ServiceHarness, **more: Any) -> None:
    """Add the groups Night and Day; `more` are further columns of Night."""
    with harness.work() as work:
        night = PrelimGroup(site_id=SITE, name="Night", tags=["CT"], **more)
        work.session.add(night)
        work.session.add(PrelimGroup(site_id=SITE, name="Day", tags=["CT"]))


def test_a_group_accepts_the_reads_of_its_members(harness: ServiceHarness) -> None:
    """A read of a user who is not a member is refused with 400. E-mail addresses ignore case."""
    add_groups(harness, members=["Ann@Example.org"])
    own, foreign = harness.draft("A1"), harness.draft("A2")
    harness.on_report(foreign, open_for, harness.bob)

    harness.do(prelim, own, "Night", "CT")
    with pytest.raises(EngineError) as refused:
        harness.do(prelim, foreign, "Night", "CT")

    assert (refused.value.code, refused.value.pointer) == ("not_prelim_member", "/prelimGroup")
    assert (harness.status(own), harness.status(foreign)) == ("Preliminary", "Draft")
    harness.do(prelim, foreign, "Day", "CT")  # a group without members is open to all users


@pytest.mark.parametrize(
    ("reviewers", "members", "taken"),
    [
        (None, ["ann@example.org"], True),  # Bob is in no group
        (None, ["ann@example.org", "bob@example.org"], False),
        (["BOB@example.org"], ["ann@example.org"], True),
        (["admin@example.org"], ["ann@example.org"], False),
        ([], [], False),
    ],
)
def test_only_a_reviewer_becomes_owner_of_a_preliminary(
    harness: ServiceHarness, reviewers: list[str] | None, members: list[str], *, taken: bool
) -> None:
    """A reviewer who opens the report becomes its owner; for other users it is read-only."""
    add_groups(harness, members=members, reviewers=reviewers)
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")

    harness.on_report(order, open_for, harness.bob)

    owner = "bob@example.org" if taken else "ann@example.org"
    assert harness.record(order).user_email == owner
    if not taken:
        with pytest.raises(EngineError) as refused:
            harness.do(assign_order, order, "bob@example.org")
        assert refused.value.code == "not_prelim_reviewer"


def test_a_preliminary_reader_is_no_reviewer(harness: ServiceHarness) -> None:
    """A user who may not sign is not a reviewer, unless the group names them."""
    order = harness.draft("A1")
    harness.do(prelim, order, "Night", "CT")
    set_role(harness, harness.bob, SiteRole.PRELIM)

    harness.on_report(order, open_for, harness.bob)

    assert harness.record(order).user_email == "ann@example.org"


def set_role(harness: ServiceHarness, account_id: int, role: SiteRole) -> None:
    with harness.database.session() as session:
        member = session.get(SiteMembership, (SITE, account_id))
        assert member is not None
        member.role = role
        session.add(member)
