"""Registration of orders in the transaction of a test, as a batch of launches registers them."""

from collections.abc import Sequence

from sqlmodel import select

from bridge.contract import OrderKey, ReportStatus
from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.launch.registration import (
    NewReport,
    OrderInput,
    RegisteredOrder,
    create_reports,
    first_text_of,
    register_orders,
)
from bridge.engine.service.report_lookup import follow_pointers, lock_patients
from bridge.engine.service.work import Work


def register(work: Work, site_id: str, order: OrderInput) -> RegisteredOrder:
    """Register one order; raise Conflict (from the database) if another node did so first."""
    return register_many(work, site_id, [order])[0]


def register_many(work: Work, site_id: str, orders: Sequence[OrderInput]) -> list[RegisteredOrder]:
    lock_patients(work, site_id, (order.mrn for order in orders))
    pointers = follow_pointers(work.connection, site_id, (order.mrn for order in orders))
    identities = [
        OrderKey(site_id, pointers.get(order.mrn, order.mrn), order.accession) for order in orders
    ]
    return register_orders(work, identities, orders)


def create_draft(work: Work, site_id: str, order: OrderInput, owner: SiteUser, text: str) -> Report:
    """Create a Draft for a user, as a launch does."""
    first = first_text_of(work.connection, site_id, order.reporting, text)
    identity = OrderKey(site_id, order.mrn, order.accession)
    new = NewReport(
        identity, order, ReportStatus.DRAFT, ReportOrigin.LAUNCH, owner.id, owner.email, first
    )
    (report_id,) = create_reports(work, [new])
    return work.session.exec(select(Report).where(Report.report_id == report_id)).one()
