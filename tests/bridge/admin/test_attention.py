"""What needs a person, by cause: parked rows, and the alerts that no other group is about."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.admin.lists.listing import UNLIMITED, Access
from bridge.admin.overview import attention
from bridge.admin.overview.attention import AttentionGroup
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.baseline import MINUTE
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.monitoring.statistics import store_check
from bridge.store.database import Database
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from config import Settings
from config.listeners import ListenerSettings
from config.sections import DestinationSettings
from tests.bridge.message_store import START, MessageStore

SETTINGS = Settings(
    home=Path("/none"),
    listener=[ListenerSettings(name="odd", bind="127.0.0.1:2575", site="B", mappings=["orders"])],
    destination=[
        DestinationSettings(name="ris", address="127.0.0.1:2577", sites=["A", "B"]),
        DestinationSettings(name="pacs", address="127.0.0.1:2578", sites=["A"]),
    ],
)


def raise_alerts(database: Database, *keys: str) -> None:
    """Raise an alert for each key, a critical one if the key begins with `!`."""
    conditions = [
        AlertCondition(
            key.removeprefix("!"),
            AlertSeverity.CRITICAL if key.startswith("!") else AlertSeverity.WARNING,
            f"text of {key}",
        )
        for key in keys
    ]
    update_alerts(database, conditions, START, 0)


def groups(database: Database, access: Access = UNLIMITED) -> list[AttentionGroup]:
    return list(attention.groups(SETTINGS, database, access, START).groups)


def link(group: AttentionGroup) -> tuple[str, Mapping[str, object]]:
    return group.list, group.filters


def test_alerts_are_groups(database: Database) -> None:
    """Each in words, with what to do, and the list or the connection where it can be done."""
    raise_alerts(
        database,
        *("growing:listener odd", "!rejecting:destination ris", "depth:the inbox"),
        *("certificate:ca of destination ris", "disk", "silence:odd", "refused:DICOM port"),
    )
    MessageStore(database).fill(5, 7, state="queued")
    found = {group.key: group for group in groups(database)}
    assert groups(database)[0].key == "rejecting:destination ris"
    assert {key: link(group) for key, group in found.items()} == {
        "growing:listener odd": ("messages", {"channel": ["odd"], "state": ["open"]}),
        "rejecting:destination ris": (
            "deliveries",
            {"destination": ["ris"], "state": ["open", "parked"]},
        ),
        "depth:the inbox": ("messages", {"state": ["open"]}),
        "certificate:ca of destination ris": ("", {}),
        "disk": ("", {}),
        "silence:odd": ("", {}),
        "refused:DICOM port": ("", {}),
    }
    assert (found["growing:listener odd"].count, found["depth:the inbox"].count) == (2, 3)
    certificate, disk = found["certificate:ca of destination ris"], found["disk"]
    assert (certificate.kind, certificate.channel) == ("destination", "ris")
    assert (certificate.action, disk.action) == ("check connection", "")
    assert found["refused:DICOM port"].action == "check peers"
    assert (found["silence:odd"].kind, found["silence:odd"].channel) == ("listener", "odd")
    assert certificate.words == "Text of certificate:ca of destination ris"
    assert {group.severity for group in found.values()} == {"red", "amber"}
    assert all(group.advice and group.first_at == START for group in found.values())


def test_nothing_is_listed_twice(database: Database) -> None:
    """Parked rows are grouped by cause, in place of the alert that counts them."""
    MessageStore(database).fill(1, 4, state="parked")
    with database.write() as connection:
        connection.execute(text("UPDATE message SET code = 'patient_conflict'"))
        items = [(1, "patient_conflict"), (4, "patient_conflict")]
        exceptions.add(connection, ExceptionSubject.MESSAGE, items, START)
    raise_alerts(database, "parked:listener odd", "concern:message 1", "differs:no_report")
    found = groups(database)
    assert [(group.subject, group.kind, group.channel, group.count) for group in found] == [
        ("messages", "listener", "even", 2),
        ("messages", "listener", "odd", 2),
    ]


def test_alerts_of_other_sites_are_not_seen(database: Database) -> None:
    """Of a shared destination only those that reveal no counts; of the installation none."""
    raise_alerts(
        database,
        *("paused:destination ris", "growing:destination ris", "growing:destination pacs"),
        *("quiet:listener odd", "disk"),
    )
    own = {group.key for group in groups(database, Access(frozenset({"A"})))}
    assert own == {"paused:destination ris", "growing:destination pacs"}
    assert groups(database, Access(frozenset())) == []
    assert len(groups(database)) == 5


@pytest.mark.parametrize(
    ("minutes", "expected"), [(None, False), (0, True), (1, True), (10, False)]
)
def test_nothing_is_said_to_be_well_before_the_first_check(
    database: Database, minutes: int | None, expected: bool
) -> None:
    """Checks of the last minutes count, on any node."""
    if minutes is not None:
        store_check(database, START - minutes * MINUTE)
    assert attention.groups(SETTINGS, database, UNLIMITED, START).checked is expected
