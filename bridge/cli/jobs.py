"""`bridge jobs`: background jobs of the console and of commands."""

from dataclasses import asdict
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, Id, Limit
from bridge.cli.output import print_record, print_rows, with_times

group = typer.Typer(
    help="Bulk actions, exports and searches that run in the background.", no_args_is_help=True
)

_COLUMNS = (
    *("id", "created_at", "title", "actor", "state", "handled", "succeeded", "failed"),
    "finished_at",
)


@group.command("list")
def jobs_list(home: Home, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List background jobs, newest first."""
    from bridge.admin.background.commands import list_jobs

    print_rows([with_times(job) for job in list_jobs(home, limit)], _COLUMNS, as_json=as_json)


@group.command("show")
def jobs_show(
    job_id: Id,
    home: Home,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only rows that failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a job and the results of its first 1,000 rows."""
    from bridge.admin.background.commands import show_job

    job, rows = show_job(home, job_id, failed_only=failed)
    if as_json:
        print_record({**with_times(job), "rows": [asdict(row) for row in rows]}, {}, as_json=True)
        return
    print_record(with_times(job), {}, as_json=False)
    if rows:
        print()
        print_rows([asdict(row) for row in rows], ("row_id", "outcome", "detail"), as_json=False)


@group.command("stop")
def jobs_stop(job_id: Id, home: Home) -> None:
    """Let a job end after its current row. What it has done stays."""
    from bridge.admin.background.commands import stop_job

    job = stop_job(home, job_id)
    print(f"job {job_id} is {job['state']}")
