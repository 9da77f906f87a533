"""The report page's services: one writer, no lost text, who may do what."""

from typing import Any

import pytest

from bridge.engine.errors import BeingEdited, Forbidden, RuleBroken, VersionConflict
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.reports.linking import link_orders
from bridge.engine.service.reports.patients import update_patient
from bridge.engine.service.signing import page_actions, page_state
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.sign import unsign
from tests.bridge.engine.service.ward import SITE, Ward


def editor(ward: Ward, session: str = "s1", role: SiteRole = SiteRole.USER) -> Editor:
    """Ann at her page."""
    return Editor(ward.ann, role, session)


def page(ward: Ward, order: OrderId, who: Editor, **options: Any) -> dict[str, Any]:
    """Load the page."""
    return ward.do(page_state.load, who, ward.record(order).report_id, **options)


def text(value: str) -> dict[str, Any]:
    """Make the JSON of a document."""
    return to_json(from_text(value))


def test_load_and_save(ward: Ward) -> None:
    """The page loads a version, saves on it, and the feed says that the content changed."""
    order = ward.draft("A1")
    ann = editor(ward)
    loaded = page(ward, order, ann)
    assert loaded["writable"]
    assert loaded["content"] == "Clear lungs."

    saved = ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("a\nb"))

    assert ward.content(order) == "a\nb"
    assert saved.version > loaded["version"]
    assert ward.events()[-1] == "report_content_updated"
    again = ward.do(page_actions.save, ann, loaded["reportId"], saved.version, text("a\nb"))
    assert again.version == saved.version


def test_an_applied_template_is_kept(ward: Ward) -> None:
    """G25: the template's number comes with a save, stays, and counts as content by itself."""
    order = ward.draft("A1", text="")
    ann = editor(ward)
    loaded = page(ward, order, ann)

    saved = ward.do(
        page_actions.save, ann, loaded["reportId"], loaded["version"], text(""), template=3
    )
    ward.do(page_actions.save, ann, loaded["reportId"], saved.version, text("  "))

    assert ward.record(order).has_content


def test_a_stale_save_is_refused(ward: Ward) -> None:
    """Somebody saved in between: 409, and the text that is stored stays."""
    order = ward.draft("A1")
    ann = editor(ward)
    loaded = page(ward, order, ann)
    ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("first"))

    with pytest.raises(VersionConflict):
        ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("second"))

    assert ward.content(order) == "first"


def test_one_writer_at_a_time(ward: Ward) -> None:
    """V100: a server lease of 30 seconds; others read only, unless they take over."""
    order = ward.draft("A1")
    here, there = editor(ward, "here"), editor(ward, "there")
    loaded = page(ward, order, here)

    assert not page(ward, order, there)["writable"]
    with pytest.raises(BeingEdited):
        ward.do(page_actions.save, there, loaded["reportId"], loaded["version"], text("x"))

    assert page(ward, order, there, take_over=True)["writable"]
    with pytest.raises(BeingEdited):
        ward.do(page_actions.save, here, loaded["reportId"], loaded["version"], text("x"))
    ward.later(30)
    assert page(ward, order, here)["writable"]


def test_only_the_owner_writes(ward: Ward) -> None:
    """V61: another user reads; a preliminary reader never signs."""
    order = ward.draft("A1")
    report_id = ward.record(order).report_id
    bob = Editor(ward.bob, SiteRole.USER, "b")
    resident = Editor(ward.ann, SiteRole.PRELIM, "a")
    version = page(ward, order, resident)["version"]

    assert not page(ward, order, bob)["writable"]
    for service, who in ((page_actions.sign, bob), (page_actions.sign, resident)):
        with pytest.raises(Forbidden):
            ward.do(service, who, report_id, version)
    ward.do(page_actions.prelim, resident, report_id, version, "Night", "CT")
    assert ward.status(order) == "Preliminary"


def test_sign_what_one_sees(ward: Ward) -> None:
    """Signing names the version on the page; a later one was not read."""
    order = ward.draft("A1")
    ann = editor(ward)
    loaded = page(ward, order, ann)
    ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("later"))

    with pytest.raises(VersionConflict):
        ward.do(page_actions.sign, ann, loaded["reportId"], loaded["version"])
    fresh = page(ward, order, ann)
    ward.do(page_actions.sign, ann, loaded["reportId"], fresh["version"])

    assert ward.status(order) == "Final"
    with pytest.raises(RuleBroken):
        ward.do(page_actions.save, ann, loaded["reportId"], fresh["version"] + 1, text("late"))


def test_addendum_from_begin_to_release(ward: Ward) -> None:
    """Create, save, sign, recall, sign, release at the page."""
    ward.delay(60)
    order = ward.draft("A1")
    ann = editor(ward)
    report_id = page(ward, order, ann)["reportId"]
    ward.do(page_actions.sign, ann, report_id, page(ward, order, ann)["version"])

    ward.do(page_actions.create_addendum, ann, report_id)
    ward.do(page_actions.save_addendum, ann, report_id, 1, text("more"))
    with pytest.raises(VersionConflict):
        ward.do(page_actions.save_addendum, ann, report_id, 1, text("stale"))
    ward.do(page_actions.sign_addendum, ann, report_id, 2)
    ward.do(page_actions.unsign_addendum, ann, report_id)
    assert page(ward, order, ann)["addenda"][0]["state"] == "draft"
    ward.do(
        page_actions.sign_addendum, ann, report_id, page(ward, order, ann)["addenda"][0]["version"]
    )
    ward.do(page_actions.release_addendum, ann, report_id)

    assert ward.status(order) == "Addendum"
    assert ward.releases() == [("addendum", 1)]
    assert page(ward, order, ann)["addenda"][0]["released"]


def test_a_recalled_text_is_offered_again(ward: Ward) -> None:
    """Recalling to a preliminary read brings the read back, and does not lose what was signed."""
    ward.delay(60)
    order = ward.draft("A1", text="first read")
    ward.do(prelim, order, "G", "T")
    ann = editor(ward)
    loaded = page(ward, order, ann)
    saved = ward.do(
        page_actions.save, ann, loaded["reportId"], loaded["version"], text("corrected")
    )
    ward.do(page_actions.sign, ann, loaded["reportId"], saved.version)

    ward.do(unsign, order)

    fresh = page(ward, order, ann)
    assert fresh["content"] == "first read"
    assert fresh["recalled"]["content"] == "corrected"


def test_a_bad_document_is_refused_with_its_place(ward: Ward) -> None:
    """What is not of the content model is 400, and nothing is stored."""
    order = ward.draft("A1")
    ann = editor(ward)
    loaded = page(ward, order, ann)

    with pytest.raises(RuleBroken) as refused:
        ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], {"type": "html"})

    assert (refused.value.code, refused.value.pointer) == ("bad_document", "/document/type")


def test_an_order_change_does_not_stop_the_writer(ward: Ward) -> None:
    """Tags, demographics and links change around a report; what is being typed is saved."""
    order, other = ward.draft("A1"), ward.order("A2")
    ann = editor(ward)
    loaded = page(ward, order, ann)

    ward.do(register, SITE, OrderInput("M1", "A1", tags={"Modality": "MR"}))
    ward.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B"})
    ward.do(link_orders, [order, other])
    ward.do(page_actions.save, ann, loaded["reportId"], loaded["version"], text("typed"))

    assert ward.content(order) == "typed"
