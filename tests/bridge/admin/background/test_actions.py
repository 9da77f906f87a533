"""Bulk actions: one result for each row, also after kill -9, and only with the rights."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.admin.access.grants import remove_grant
from bridge.admin.access.permissions import ConsoleRole
from bridge.admin.background import actions, jobs
from bridge.admin.background.jobs import JobKind, JobState, TooManyJobs
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.queue import queries
from bridge.queue.states import QueueState
from bridge.store.database import Database
from tests.bridge.admin.background.job_runs import OPERATOR, JobRuns
from tests.bridge.admin.lists.filled_lists import FilledLists

PARKED = {"state": "parked"}


def kill(runs: JobRuns, url: str, moment: str, number: int) -> None:
    """Run jobs in a process that kills itself."""
    module = "tests.bridge.admin.background.killed_process"
    arguments = (url, str(runs.home), f"killed-{runs.crashes}", moment, str(number))
    command = [sys.executable, "-m", module, *arguments, str(runs.crashes)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)  # ours
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    runs.crashes += 1


def test_each_row_has_one_result_although_processes_are_killed(
    lists: FilledLists, runs: JobRuns, database_url: str
) -> None:
    """Killed before and after commits, each continued by another process."""
    wanted = sorted(lists.expected(lambda item: item.state == "parked"))
    job = runs.create(JobKind.CANCEL, PARKED)
    for moment, number in (("commit", 4), ("begin", 17), ("commit", 8)):
        kill(runs, database_url, moment, number)
    done = runs.finish(job)
    assert (done.state, done.handled, done.succeeded, done.failed) == (
        *(JobState.DONE, len(wanted), len(wanted)),
        0,
    )
    assert [(row.row_id, row.outcome) for row in runs.rows(job)] == [(n, "done") for n in wanted]
    cancelled = [event["target_id"] for event in runs.events("cancel")]
    assert sorted(map(int, cancelled)) == wanted
    assert cancelled == list(map(str, wanted))  # the older messages of a patient go first
    states = {queries.message(runs.database, n).row.state for n in wanted}
    assert states == {QueueState.CANCELLED}


def test_a_row_that_fails_has_its_reason_and_the_others_go_on(
    lists: FilledLists, runs: JobRuns
) -> None:
    """The change of a finished message is refused, one that does not exist is not found."""
    done = lists.expected(lambda item: item.state == "done")[0]
    parked = lists.expected(lambda item: item.state == "parked")[0]
    job = runs.finish(runs.create(JobKind.CANCEL, ids=(done, parked, 9999)))
    results = {row.row_id: (row.outcome, bool(row.detail)) for row in runs.rows(job)}
    assert results == {
        done: ("illegal_transition", True),
        parked: ("done", False),
        9999: ("not_found", True),
    }
    assert (job.handled, job.succeeded, job.failed) == (3, 1, 2)
    outcomes = {event["target_id"]: event["outcome"] for event in runs.events("cancel")}
    assert outcomes[str(parked)] == "success"
    assert {outcomes[str(done)], outcomes["9999"]} == {"refused"}


def test_a_job_ends_when_the_role_of_its_creator_is_gone(runs: JobRuns) -> None:
    job = runs.create(JobKind.CANCEL, PARKED)
    runner = runs.runner()
    while not runs.rows(job):
        runner.step()
    remove_grant(runs.database, OPERATOR.account_id)
    ended = runs.finish(job, runner)
    assert (ended.state, ended.result["error"]) == (JobState.FAILED, "not_permitted")
    assert 0 < ended.handled == len(runs.rows(job)) < ended.expected


def test_a_job_ends_when_the_permission_is_gone(runs: JobRuns) -> None:
    job = runs.create(JobKind.CANCEL, PARKED)
    runs.grant_role(replace(OPERATOR, role=ConsoleRole.VIEWER))
    ended = runs.finish(job)
    assert (ended.state, ended.handled, runs.rows(job)) == (JobState.FAILED, 0, [])


def test_rows_of_other_sites_are_not_changed(lists: FilledLists, runs: JobRuns) -> None:
    """Neither those that match nor those that are named; a later restriction counts, too."""
    limited = replace(OPERATOR, sites=frozenset({"A"}))
    foreign = lists.expected(lambda item: item.state == "parked" and item.site == "B")
    named = runs.create(JobKind.CANCEL, ids=tuple(foreign))
    everything = runs.create(JobKind.CANCEL, PARKED)
    runs.grant_role(limited)
    runner = runs.runner()
    runs.finish(named, runner)
    runs.finish(everything, runner)
    assert {row.outcome for row in runs.rows(named)} == {"not_found"}
    own = lists.expected(lambda item: item.state == "parked" and item.site == "A")
    assert [row.row_id for row in runs.rows(everything)] == sorted(own)


def test_a_job_stops_after_its_current_row(runs: JobRuns) -> None:
    """What it has done stays; a job that waits stops at once."""
    job, waiting = runs.create(JobKind.CANCEL, PARKED), runs.create(JobKind.CANCEL, PARKED)
    runner = runs.runner()
    while not runs.rows(job):
        runner.step()
    jobs.stop(runs.database, job.id, 1)
    jobs.stop(runs.database, waiting.id, 1)
    stopped = runs.finish(job, runner)
    assert stopped.state is JobState.STOPPED
    assert 0 < stopped.handled == len(runs.rows(job)) < stopped.expected


def test_all_that_match_but_some(lists: FilledLists, runs: JobRuns) -> None:
    """Messages that arrive after the creation are not included."""
    parked = sorted(lists.expected(lambda item: item.state == "parked"))
    job = runs.create(JobKind.CANCEL, PARKED, except_ids=tuple(parked[:2]))
    lists.fill(121, 140)
    done = runs.finish(job)
    assert [row.row_id for row in runs.rows(job)] == parked[2:]
    assert done.expected == done.handled == len(parked) - 2


def test_an_action_has_a_limit(runs: JobRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a count has found are changed up to the limit; the job says so."""
    job = runs.create(JobKind.CANCEL, PARKED)
    monkeypatch.setattr(actions, "MAX_ACTION_ROWS", 4)
    done = runs.finish(job)
    assert (done.state, done.handled, done.result) == (JobState.DONE, 4, {"more": True})


def test_a_second_process_does_not_run_a_claimed_job(runs: JobRuns) -> None:
    job = runs.create(JobKind.CANCEL, PARKED)
    first, second = runs.runner("first"), runs.runner("second")
    while not runs.rows(job):
        first.step()
    before = len(runs.rows(job))
    second.step()
    assert len(runs.rows(job)) == before
    runs.finish(job, first)


def test_a_process_that_ends_leaves_its_jobs_to_others(runs: JobRuns) -> None:
    job = runs.create(JobKind.CANCEL, PARKED)
    first, second = runs.runner("first"), runs.runner("second")
    while not runs.rows(job):
        first.step()
    first.close()
    assert runs.finish(job, second).state is JobState.DONE


def test_a_process_that_lost_its_lease_changes_nothing(runs: JobRuns, lists: FilledLists) -> None:
    """A process that was suspended while another one continued: each row is changed once."""
    job = runs.create(JobKind.CANCEL, PARKED)
    slow = runs.runner("slow")
    while not runs.rows(job):
        slow.step()
    runs.crashes += 1  # its lease ends
    fast = runs.runner("fast")
    while len(runs.rows(job)) < 5:
        fast.step()
    for _ in range(3):
        slow.step()
    runs.finish(job, fast)
    wanted = sorted(lists.expected(lambda item: item.state == "parked"))
    assert [int(event["target_id"]) for event in runs.events("cancel")] == wanted


def test_private_filters_are_not_stored(runs: JobRuns) -> None:
    """A search by name or number is stored as keyed hashes, and still selects the same."""
    job = runs.create(JobKind.CANCEL, {"number": "P12", "kind": "order", "state": "parked"})
    stored = jobs.find(runs.database, job.id)
    assert "P12" not in f"{stored.selection} {stored.title} {stored.options}"
    assert [row.row_id for row in runs.rows(runs.finish(job))] == []
    again = runs.create(JobKind.CANCEL, {"number": "P16", "kind": "order"})
    assert [row.row_id for row in runs.rows(runs.finish(again))] == [16]


def test_what_is_refused(runs: JobRuns) -> None:
    """Actions without a filter, unknown lists, missing permissions, too many jobs."""
    with pytest.raises(InvalidContent):
        runs.create(JobKind.CANCEL, {})
    with pytest.raises(InvalidContent):
        runs.create(JobKind.RETRY, PARKED)
    with pytest.raises(InvalidContent):
        runs.create(JobKind.CANCEL, {"state": "parked"}, list_name="orders")
    runs.grant = replace(OPERATOR, role=ConsoleRole.VIEWER)
    with pytest.raises(PermissionDenied):
        runs.create(JobKind.CANCEL, PARKED)
    runs.grant = OPERATOR
    for _ in range(jobs.MAX_OPEN_OF_ACCOUNT):
        runs.create(JobKind.CANCEL, PARKED)
    with pytest.raises(TooManyJobs):
        runs.create(JobKind.CANCEL, PARKED)


def test_deliveries_are_skipped_and_retried(database: Database, tmp_path: Path) -> None:
    runs = JobRuns(database, tmp_path)
    runs.grant_role()
    row = text(
        "INSERT INTO delivery (destination, lane, report_id, release_key, event, orders,"
        " release_at, created_at, state, not_before, attempts)"
        " VALUES ('d', :n, 'r', :key, 'final', '{}', 1, 1, 'parked', 99, 3)"
    )
    with database.write() as connection:
        connection.execute(row, [{"n": n, "key": str(n)} for n in (1, 2)])
    skipped = runs.create(JobKind.SKIP, ids=(1,), list_name="deliveries")
    retried = runs.create(JobKind.RETRY, {"destination": "d"}, list_name="deliveries")
    runner = runs.runner()
    runs.finish(skipped, runner)
    runs.finish(retried, runner)
    assert {row.outcome for row in runs.rows(skipped)} == {"done"}
    assert queries.delivery(database, 2).row.state is QueueState.QUEUED
    assert [event["target_id"] for event in runs.events("retry")] == ["1", "2"]
