"""Rules about patients, orders and results do not depend on the database: SQLite is enough."""

import pytest

RULES = {
    *("test_demographics", "test_name_forms", "test_names", "test_several_identifiers"),
    *("test_undone_merges", "test_visit_transfers", "test_clocks", "test_early_events"),
    *("test_order_stories", "test_partial_cancellations", "test_procedures"),
    *("test_scheduled_steps", "test_handler", "test_addenda", "test_deleted_sections"),
    *("test_delivery_history", "test_faults", "test_late_results", "test_slow_hooks"),
    *("test_unmapped_codes", "test_withdrawn_reads"),
}
"""Modules of `intake` and `delivery`; the others run on both databases."""


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    package, _, name = metafunc.module.__name__.rpartition(".")
    is_rule = package.startswith(("tests.bridge.intake", "tests.bridge.delivery")) and name in RULES
    if is_rule and "database_url" in metafunc.fixturenames:
        on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
        metafunc.definition.add_marker(on_sqlite)
