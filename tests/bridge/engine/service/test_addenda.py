"""Addenda: the interface document's rows, with a cooling period of their own."""

import pytest

from bridge.engine.errors import (
    CoolingElapsed,
    NoSignedAddendum,
    RuleBroken,
    SignDelayDisabled,
)
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.text.document import from_text
from bridge.engine.service.reports.export import export_order
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.releases import release_due
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.ward import Ward


def signed_report(ward: Ward, delay: int = 60) -> OrderId:
    """Sign a report and let its own cooling period end."""
    ward.delay(delay)
    order = ward.draft("A1")
    ward.do(sign, order)
    ward.later(delay)
    release_due(ward.database, ward.now)
    return order


def addend(ward: Ward, order: OrderId, text: str = "More.") -> None:
    """Write and sign an addendum."""
    ward.on_report(order, addenda.create_addendum, ward.bob)
    ward.on_report(order, addenda.save_addendum, from_text(text))
    ward.on_report(order, addenda.sign_addendum, ward.bob)


def test_a_signed_addendum_cools_on_its_own(ward: Ward) -> None:
    """V58: same site setting, own timer; the report's own window stays closed."""
    order = signed_report(ward)

    addend(ward, order)

    record = ward.record(order)
    assert record.status == "Addendum"
    assert record.unsign_until is None
    assert record.addendum_unsign_until == ward.now + 60_000
    ward.later(60)
    release_due(ward.database, ward.now)
    assert ward.releases() == [("final", 1), ("addendum", 1)]
    assert ward.record(order).addendum_unsign_until is None


def test_release_now(ward: Ward) -> None:
    """addendum/sign: finalized, pending delivery cancelled, delivered once, not re-signed."""
    order = signed_report(ward)
    addend(ward, order)
    ward.later(10)

    ward.do(addenda.release_addendum, order)

    assert ward.releases() == [("final", 1), ("addendum", 1)]
    assert ward.events()[-1] == "addendum_finalized"
    ward.later(100)
    assert release_due(ward.database, ward.now) == 0
    with ward.work() as work:
        (addendum,) = export_order(work.session, order).addenda
        assert addendum.signed_by.email == "bob@example.org"
        assert addendum.signed_at.timestamp() * 1000 == ward.now - 110_000


def test_release_without_site_cooling_fails_with_500(ward: Ward) -> None:
    """addendum/sign: site has no sign cooling enabled."""
    order = signed_report(ward, delay=0)
    addend(ward, order)

    with pytest.raises(SignDelayDisabled) as refused:
        ward.do(addenda.release_addendum, order)

    assert refused.value.status == 500


@pytest.mark.parametrize("service", [addenda.release_addendum, addenda.unsign_addendum])
@pytest.mark.parametrize("state", ["Draft", "Final", "Final with draft addendum", "Ordered"])
def test_no_signed_addendum_fails_with_500(ward: Ward, service: object, state: str) -> None:
    """addendum/sign and addendum/unsign: no signed addendum."""
    ward.delay(60)
    order = ward.order("A1") if state == "Ordered" else ward.draft("A1")
    if state.startswith("Final"):
        ward.do(sign, order)
    if state.endswith("addendum"):
        ward.on_report(order, addenda.create_addendum, ward.ann)

    with pytest.raises(NoSignedAddendum) as refused:
        ward.do(service, order)  # type: ignore[arg-type]  # one of two services

    assert refused.value.status == 500


@pytest.mark.parametrize("service", [addenda.release_addendum, addenda.unsign_addendum])
@pytest.mark.parametrize("released", [True, False])
def test_after_the_cooling_window_fails_with_500(
    ward: Ward, service: object, released: bool
) -> None:
    """addendum/sign and addendum/unsign: cooling window elapsed, or skipped before."""
    order = signed_report(ward)
    addend(ward, order)
    if released:
        ward.do(addenda.release_addendum, order)
    else:
        ward.later(60)

    with pytest.raises(CoolingElapsed):
        ward.do(service, order)  # type: ignore[arg-type]  # one of two services


def test_unsign_the_only_addendum(ward: Ward) -> None:
    """Addendum unsign, no other signed addendum remains: Final; nothing is delivered."""
    order = signed_report(ward)
    addend(ward, order)

    ward.do(addenda.unsign_addendum, order)

    assert ward.status(order) == "Final"
    ward.later(100)
    assert release_due(ward.database, ward.now) == 0
    with ward.work() as work:
        assert export_order(work.session, order).addenda == ()


def test_unsign_the_newest_of_two_addenda(ward: Ward) -> None:
    """Addendum unsign, other signed addenda remain: Addendum, the most recent one unsigned."""
    order = signed_report(ward)
    addend(ward, order, "first")
    ward.later(1)
    addend(ward, order, "second")

    ward.do(addenda.unsign_addendum, order)

    assert ward.status(order) == "Addendum"
    ward.do(addenda.unsign_addendum, order)
    assert ward.status(order) == "Final"


def test_one_addendum_is_written_at_a_time(ward: Ward) -> None:
    """V57: one open draft per report; cancelled, another can be begun, with the next number."""
    order = signed_report(ward)
    first = ward.on_report(order, addenda.create_addendum, ward.ann).number

    with pytest.raises(RuleBroken, match="already has an addendum"):
        ward.on_report(order, addenda.create_addendum, ward.ann)

    ward.on_report(order, addenda.cancel_addendum)
    assert ward.on_report(order, addenda.create_addendum, ward.ann).number == first
    assert ward.status(order) == "Final"


def test_an_empty_addendum_is_not_signed(ward: Ward) -> None:
    """Nothing to read is nothing to sign."""
    order = signed_report(ward)
    ward.on_report(order, addenda.create_addendum, ward.ann)

    with pytest.raises(RuleBroken, match="without text"):
        ward.on_report(order, addenda.sign_addendum, ward.ann)


def test_only_signed_reports_get_addenda(ward: Ward) -> None:
    """A Draft is edited, not added to."""
    order = ward.draft("A1")

    with pytest.raises(RuleBroken) as refused:
        ward.on_report(order, addenda.create_addendum, ward.ann)

    assert refused.value.code == "report_not_signed"
