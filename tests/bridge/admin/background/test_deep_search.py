"""Deep search: messages are found by any field or tag, and their list is a filter."""

import pytest

from bridge.admin.background.jobs import JobKind
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.definitions import MESSAGES
from bridge.admin.lists.listing import ListRequest
from tests.bridge.admin.background.job_runs import JobRuns
from tests.bridge.admin.background.test_actions import kill
from tests.bridge.admin.lists.filled_lists import FilledLists, ids, page_of


def test_messages_are_found_by_a_field(
    lists: FilledLists, runs: JobRuns, database_url: str
) -> None:
    """After kill -9 too; the filter `job` lists what was found, and the conditions are deleted."""
    where = {"PID-5.1": {"matches": "^M"}, "MSH-3": ["RIS1"], "PV1-3": {"absent": True}}
    job = runs.create(JobKind.SEARCH, {"channel": "ris"}, where=where)
    assert "RIS1" not in job.title
    kill(runs, database_url, "commit", 2)
    done = runs.finish(job)
    found = lists.expected(
        lambda item: item.channel == "ris" and item.name[0] == "M" and item.n % 2 == 1
    )
    assert [row.row_id for row in runs.rows(job)] == sorted(found)
    page = page_of(runs.database, MESSAGES, ListRequest({"job": job.id}))
    assert ids(page.rows) == found
    examined = lists.expected(lambda item: item.channel == "ris")
    assert (done.handled, done.succeeded) == (len(examined), len(found))
    assert "where" not in done.options


@pytest.mark.parametrize(
    "where", [{}, {"Modality": {"looks": "odd"}}, {"no path": ["x"]}, {"PID-5": {"matches": "("}}]
)
def test_conditions_that_cannot_be_read(runs: JobRuns, where: dict[str, object]) -> None:
    with pytest.raises(InvalidContent):
        runs.create(JobKind.SEARCH, {}, where=where)
