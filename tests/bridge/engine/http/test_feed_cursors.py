"""Cursors of the change feed after a restored backup."""

from typing import Any

import httpx
from sqlalchemy import text

from bridge.contract import split_cursor
from bridge.engine.service.change_feed import prune_changes
from tests.bridge.engine.http.engine_service import Service, identity

_SEQUENCES = {
    "sqlite": "UPDATE sqlite_sequence SET seq = :keep WHERE name = 'engine_change'",
    "postgresql": "SELECT setval(pg_get_serial_sequence('engine_change', 'cursor'), :keep)",
}


def changes(service: Service, after: int = 0, **query: Any) -> httpx.Response:
    return service.get("report/changes", after=after, **query)


def restore(service: Service, keep: int) -> None:
    """Restore the feed to its first changes."""
    with service.database.write() as connection:
        connection.execute(text("DELETE FROM engine_change WHERE cursor > :keep"), {"keep": keep})
        connection.execute(text(_SEQUENCES[service.database.dialect]), {"keep": keep})


def test_a_cursor_beyond_the_end_is_refused(service: Service) -> None:
    """With its own code, also for a cursor of an older release, which has no mark."""
    for number in range(4):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    position, mark = split_cursor(page["cursor"])
    assert mark is not None

    restore(service, keep=2)

    for cursor in (page["cursor"], position, 10**9, 2**62):
        refused = changes(service, cursor)
        assert (refused.status_code, refused.json()["code"]) == (409, "cursor_beyond_end")
        assert refused.json()["retryable"] is False
    assert len(changes(service).json()["changes"]) == 2


def test_a_cursor_of_a_feed_with_another_history_is_refused(service: Service) -> None:
    """The restored feed has grown beyond the cursor again, with other changes."""
    for number in range(4):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    restore(service, keep=2)
    for number in range(5):
        service.launch(accession=f"B{number}")

    refused = changes(service, page["cursor"])

    assert (refused.status_code, refused.json()["code"]) == (409, "cursor_of_another_feed")
    assert changes(service, changes(service, limit=2).json()["cursor"]).status_code == 200


def test_cursors_of_older_releases_are_accepted(service: Service) -> None:
    """They are the plain numbers of changes, which each change still contains."""
    for number in range(3):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    numbers = [each["cursor"] for each in page["changes"]]

    rest = changes(service, numbers[0]).json()

    assert [each["cursor"] for each in rest["changes"]] == numbers[1:]
    assert rest["cursor"] == page["cursor"] > numbers[-1]
    assert changes(service, numbers[-1]).json() == {"changes": [], "cursor": numbers[-1]}


def test_cursors_increase_and_stay_valid_after_retention(service: Service) -> None:
    """A cursor is accepted after its change was pruned, also in an empty feed."""
    cursors = [0]
    for number in range(3):
        service.launch(accession=f"A{number}")
        cursors.append(changes(service, cursors[-1]).json()["cursor"])
    assert cursors == sorted(set(cursors))
    with service.database.write() as connection:
        prune_changes(connection, service.clock.now + 1, 100)

    for cursor in cursors:
        assert changes(service, cursor).json() == {"changes": [], "cursor": cursor}

    service.post("report/sign", {"clinicalInfo": identity("A1")})
    assert len(changes(service, cursors[-1]).json()["changes"]) == 1


def test_a_cursor_includes_filtered_changes(service: Service) -> None:
    """It is at the last change that was read, also if that was filtered."""
    service.launch()

    page = changes(service, without=["report_created", "report_opened"]).json()

    assert page["changes"] == []
    assert split_cursor(page["cursor"])[1] is not None
    assert changes(service, page["cursor"]).json() == {"changes": [], "cursor": page["cursor"]}


def test_a_full_page_skips_no_changes(service: Service) -> None:
    """The cursor of a full page is at its last change, also if others are filtered."""
    for number in range(3):
        service.launch(accession=f"A{number}")

    page = changes(service, limit=2, without=["report_signed"]).json()

    rest = changes(service, page["cursor"], without=["report_signed"]).json()
    whole = changes(service).json()["changes"]
    assert page["changes"] + rest["changes"] == whole
    assert len(whole) > 2
