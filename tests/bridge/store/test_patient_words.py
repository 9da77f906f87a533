"""The last word on each patient: kept as long as it may still be needed."""

from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import order_saving, patient_demographics
from bridge.store.records.order_index import IndexedOrder, Key
from bridge.store.records.patient_demographics import PatientWord


def test_of_whom_nothing_is_known_but_a_name_it_is_forgotten(database: Database) -> None:
    """An old correction goes where it came before no order; others stay."""
    upgrade(database)
    patients = [("S", mrn) for mrn in ("old", "ordered", "new")]
    with database.write() as connection:
        for place, (site, mrn) in enumerate(patients):
            patient_demographics.say(connection, PatientWord(site, mrn, 1 + 9 * (place == 2), {}))
        order_saving.save(connection, [IndexedOrder(Key("S", "ordered", "A1"), "ordered", 1, 1)])
    assert patient_demographics.forget(database, 5) == 1
    with database.read() as connection:
        assert set(patient_demographics.words(connection, patients)) == set(patients[1:])
