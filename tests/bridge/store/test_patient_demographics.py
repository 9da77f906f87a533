"""The latest demographics of each patient are stored as long as they may be needed."""

from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import order_writes, patient_demographics
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from bridge.store.records.patient_demographics import DemographicsUpdate


def test_demographics_without_orders_are_removed(database: Database) -> None:
    """An old correction without a later order is removed. Others stay."""
    upgrade(database)
    patients = [("S", mrn) for mrn in ("old", "ordered", "new")]
    with database.write() as connection:
        for place, (site, mrn) in enumerate(patients):
            patient_demographics.save(
                connection, DemographicsUpdate(site, mrn, 1 + 9 * (place == 2), {})
            )
        order_writes.save(
            connection, [IndexedOrder(OrderIndexKey("S", "ordered", "A1"), "ordered", 1, 1)]
        )
    assert patient_demographics.delete_old(database, 5) == 1
    with database.read() as connection:
        assert set(patient_demographics.find(connection, patients)) == set(patients[1:])
