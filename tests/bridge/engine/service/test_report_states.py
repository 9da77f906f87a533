"""Unsigned reports: register, open, reset, discard, delete, prelim, assign, files."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy
from sqlmodel import select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import Attachment
from bridge.engine.records.tables import (
    PrelimGroup,
    Report,
    ReportFile,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.launch.registration import MAX_METADATA, OrderInput, Registration
from bridge.engine.service.launch.report_updates import open_for, unassign
from bridge.engine.service.report_lookup import key_of, lock_report, orders_of
from bridge.engine.service.reports.deletion import discard, reset_order
from bridge.engine.service.reports.files import FILES, attach
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import list_waiting, prelim, withdraw
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.work import Work
from bridge.engine.service.worklist import assign_order
from tests.bridge.engine.refusals import refused
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

    assert [task.outcome for task in done] == ["created", "updated", "updated", "created"]
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
    assert [order["Modality"] for order in change["orders"]] == ["MR", "MR", "MR"]


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
    assert [order["Accession"] for order in change["orders"]] == ["A1"]


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


def test_discard(harness: ServiceHarness) -> None:
    """A launched Draft is deleted, a Draft from an order is reset to Ordered."""
    launched, ordered = harness.draft("A1"), harness.order("A2")
    harness.on_report(ordered, open_for, harness.ann)

    harness.on_report(launched, discard)
    harness.on_report(ordered, discard)

    assert harness.status(ordered) == "Ordered"
    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.status(launched)
    assert harness.events()[-2:] == ["report_discarded", "report_discarded"]


def register_again(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Register the order of a launched Draft, with the tags that it has."""
    return [harness.order(launched.accession)]


def register_while_signed(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Register the order while its report is signed, and recall the signature."""
    harness.delay(60)
    harness.do(sign, launched)
    order = harness.order(launched.accession)
    harness.do(unsign, launched)
    return [order]


def link_another(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Link a registered order to a launched Draft."""
    orders = [launched, harness.order("A2")]
    harness.do(link_orders, orders)
    return orders


def merge_another(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    harness.order(launched.accession, mrn="OLD")
    harness.do(merge_patients, SITE, launched.mrn, "OLD")
    return [launched]


@pytest.mark.parametrize(
    "arrive", [register_again, register_while_signed, link_another, merge_another]
)
def test_a_registered_order_stays_when_a_launched_draft_is_discarded(
    harness: ServiceHarness, arrive: Callable[[ServiceHarness, OrderKey], list[OrderKey]]
) -> None:
    """The report becomes an empty, unassigned order with all its orders."""
    launched = harness.draft("A1")
    orders = arrive(harness, launched)

    harness.on_report(launched, discard)

    record = harness.record(launched)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)
    assert harness.group(launched) == orders


def test_linked_launched_drafts_are_deleted(harness: ServiceHarness) -> None:
    """A group without a registered order is no order: discarding its Draft deletes it."""
    launched = harness.draft("A1")
    other = harness.draft("A2", text="")
    harness.do(unassign, other)
    harness.do(link_orders, [launched, other])

    harness.on_report(launched, discard)

    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.status(launched)


STORED = Attachment(
    FileKind.STRUCTURED_REPORT, "a", b"", sop_instance_uid="1.2", details={"text": "Of another."}
)
ASIDE = Attachment(
    FileKind.SET_ASIDE, "a", b"", sop_instance_uid="1.2", details={"contradicts": ["PatientName"]}
)
CORRECTED = Attachment(
    FileKind.STRUCTURED_REPORT, "b", b"", sop_instance_uid="1.2", details={"text": "Corrected."}
)


def add(work: Work, report: Report, files: list[Attachment]) -> list[tuple[str, str]]:
    attach(work, report, files, orders_of(work.session, key_of(report))[0])
    kinds = sqlalchemy.select(FILES.c.kind, FILES.c.sha256)
    query = kinds.where(FILES.c.report_pk == key_of(report))
    return sorted((row.kind, row.sha256) for row in work.connection.execute(query))


@pytest.mark.parametrize("files", [[ASIDE, CORRECTED], [CORRECTED, ASIDE]], ids=["first", "last"])
@pytest.mark.parametrize("stored", [[], [STORED]], ids=["new", "known"])
def test_one_instance_with_two_contents(
    harness: ServiceHarness, stored: list[Attachment], files: list[Attachment]
) -> None:
    order = harness.draft("A1")
    harness.on_report(order, add, stored)
    found = harness.on_report(order, add, files)
    assert found == [("dicomSR", "b"), ("setAside", "a")]
