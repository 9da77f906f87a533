"""
Removes what is old and dies by kill -9 in its second pause.

Run as `python -m tests.bridge.queue.shedder URL BEFORE FILE`; what it archives is written to FILE,
an id a line.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from bridge.queue.retention import prune
from bridge.store.database import Database


def main(url: str, before: int, file: Path) -> None:
    """Remove ten at a time, until killed."""
    pauses = count(1)

    def pause(_seconds: float) -> None:
        if next(pauses) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with file.open("a") as archived:

        def archive(_table: str, rows: object) -> None:
            assert isinstance(rows, list)
            archived.writelines(f"{row['id']}\n" for row in rows)
            archived.flush()

        prune(Database(url), before, batch=10, pause=pause, archive=archive)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
