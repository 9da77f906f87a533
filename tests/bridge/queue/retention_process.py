"""
Retention in its own process. The test kills it.

Run as `python -m tests.bridge.queue.retention_process URL BEFORE FILE`. It writes the archive to
FILE.
"""

import os
import signal
import sys
from pathlib import Path

from bridge.queue.retention.policy import prune
from bridge.store.database import Database


def main(url: str, before: int, file: Path) -> None:
    """Remove twenty rows at a time until the process is killed."""

    def pause(_seconds: float) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with file.open("a") as archived:

        def archive(_table: str, rows: object) -> None:
            assert isinstance(rows, list)
            archived.writelines(f"{row['id']}\n" for row in rows)
            archived.flush()

        prune(Database(url), before, batch=1, pause=pause, archive=archive)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
