"""What the kinds of background jobs share: their work in steps, and the rows they are about."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx
import structlog

from bridge.admin.background.jobs import BackgroundJob
from bridge.admin.lists.definitions import LISTS
from bridge.admin.lists.listing import Access
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.engine_client.client import InProcess
from bridge.errors import BridgeError
from bridge.redaction import describe
from bridge.store.database import Database
from config import Settings

MAX_ACTION_ROWS: Final = 100_000
MAX_EXPORT_ROWS: Final = 1_000_000
_CHUNK: Final = 100
"""Ids read at once: a row may change its state between this and its turn."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """
    What the work of a job needs; `clock` is in ms, `owner` names the process that holds it.

    `connect` opens a connection to the report engine; None: by HTTP, as the settings say.
    """

    settings: Settings
    database: Database
    subjects_of: MessageSubjects
    clock: Callable[[], int]
    owner: str
    connect: Callable[[], httpx.AsyncClient | InProcess] | None = None


class JobFailed(BridgeError):
    """The job cannot go on; `code` says why, and pages show it."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(detail)


class JobWork(ABC):
    """The work of one job."""

    @abstractmethod
    def step(self, access: Access, until: float) -> bool:
        """
        Work until about `until`, a time of `time.monotonic`; return True after the last row.

        At least one row is handled. Raises JobFailed, LeaseLost, StoreError; what is not stored
        then is done again. Blocking.
        """

    @abstractmethod
    def result(self) -> dict[str, object]:
        """Return what pages show after the end."""

    def close(self) -> None:  # noqa: B027  # most kinds have nothing to end
        """End what goes on between two steps: the job has ended, or another process has it."""


def log_failure(text: str, job: BackgroundJob, error: Exception) -> None:
    """Log an error that is not ours by its kind and place: its text may quote patient data."""
    structlog.get_logger("background jobs").error(text, job=job.id, error=describe(error))


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """The id of a selected row; `is_hidden`: it is gone, or of a site that is not visible."""

    id: int
    is_hidden: bool = False


class SelectedRows:
    """
    The rows of a selection that a job has not handled yet, in the order of their ids.

    `cursor` is the last id that was examined; rows that do not match are passed over.
    """

    def __init__(self, database: Database, job: BackgroundJob) -> None:
        self._database = database
        self._selection = job.selection
        self._list = LISTS[job.selection.list]
        self._upper = job.upper_id
        self._except = frozenset(job.selection.except_ids)
        self._ids = sorted(set(job.selection.ids))
        self._ready: deque[SelectedRow] = deque()
        self._examined = job.cursor
        self._complete = False
        self.cursor = job.cursor

    def next(self, access: Access, until: float) -> SelectedRow | None:
        """Return the next row; None after the last one, or if none was found before `until`."""
        while not self._ready and not self._complete:
            self._read(access)
            if not self._ready:
                self.cursor = self._examined
            if time.monotonic() > until:
                break
        if not self._ready:
            return None
        row = self._ready.popleft()
        self.cursor = row.id if self._ready else max(row.id, self._examined)
        return row

    @property
    def is_complete(self) -> bool:
        return self._complete and not self._ready

    def _read(self, access: Access) -> None:
        if self._selection.filters is None:
            self._read_listed(access)
            return
        with self._database.read() as connection:
            page = self._list.ids_after(
                *(connection, self._selection.filters, access),
                *(self._examined, self._upper, _CHUNK),
            )
        self._ready.extend(SelectedRow(row) for row in page.ids if row not in self._except)
        self._examined, self._complete = page.cursor, page.complete

    def _read_listed(self, access: Access) -> None:
        left = [row for row in self._ids if row > self._examined]
        chunk = left[:_CHUNK]
        with self._database.read() as connection:
            visible = {row.id for row in self._list.rows(connection, chunk, access)}
        self._ready.extend(SelectedRow(row, row not in visible) for row in chunk)
        self._examined = chunk[-1] if chunk else self._examined
        self._complete = len(left) <= _CHUNK
