"""
A process that runs background jobs until it kills itself.

Its arguments are URL HOME OWNER MOMENT NUMBER CRASHES. It ends at the NUMBER-th `begin` or `commit`
of a write transaction, which does not take place any more.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, event

from bridge import index_key
from bridge.admin.background.runner import BackgroundJobs
from bridge.store.database import Database
from tests.bridge.admin.background.job_runs import JobRuns


def main(url: str, home: Path, owner: str, moment: str, number: int, crashes: int) -> None:
    index_key.install(bytes(range(index_key.KEY_BYTES)))
    database = Database(url)
    done = count(1)

    def passed(connection: Connection) -> None:
        writes = connection.get_execution_options().get("bridge_begin")
        if (writes or moment == "begin") and next(done) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(database.engine, moment, passed)
    runner: BackgroundJobs = JobRuns(database, home, crashes=crashes).runner(owner)
    while True:
        runner.step()


if __name__ == "__main__":
    main(
        *(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]),
        *(int(sys.argv[5]), int(sys.argv[6])),
    )
