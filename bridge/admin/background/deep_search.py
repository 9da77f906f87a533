"""
Deep search: finds messages by values that no index has, such as a tag or a field.

Conditions are written as in a definition: `{"Modality": {"absent": true}, "PV1-3.1": ["WARD1"]}`.
A message matches if each named tag or field has a value that passes the test; of a tag, in one of
its orders. What was found are rows of the job, and the list filter `job` selects them.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from bridge.admin.background import jobs
from bridge.admin.background.jobs import FOUND, BackgroundJob, JobRow, Progress
from bridge.admin.background.work import (
    MAX_ACTION_ROWS,
    MAX_EXPORT_ROWS,
    JobContext,
    JobWork,
    SelectedRows,
)
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.listing import Access
from bridge.admin.lists.message_columns import ValuesReader, values_reader
from bridge.admin.messages.message_index import origin_of
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from mappings.language.conditions import Test, compile_condition_test
from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics

MAX_CONDITIONS: Final = 20
MAX_TEXT: Final = 4000
"""Characters of the conditions as JSON."""
_STORE_ROWS: Final = 500
_STORE_SECONDS: Final = 2.0


def compile_conditions(where: Mapping[str, Any]) -> list[tuple[ValuesReader, Test]]:
    """Compile conditions by the names of tags or fields. Raises InvalidContent."""
    written = json.dumps(where)
    if not 0 < len(where) <= MAX_CONDITIONS or len(written) > MAX_TEXT:
        raise InvalidContent(f"a search needs one to {MAX_CONDITIONS} short conditions")
    diagnostics = Diagnostics()
    tree = parse_yaml(written, "where", diagnostics)
    found = []
    for name, node in diagnostics.read_mapping(tree).items() if tree else ():
        found.append((values_reader(name), compile_condition_test(node, diagnostics)))
    if diagnostics.failed or not found:
        issues = "; ".join(issue.message for issue in diagnostics.issues)
        raise InvalidContent(issues or "the conditions cannot be read")
    return found


class DeepSearch(JobWork):
    """The work of a deep search."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._rows = SelectedRows(context.database, job)
        self._conditions = compile_conditions(job.options["where"])
        self._examined = 0
        self._left = MAX_EXPORT_ROWS - job.handled
        self._room = MAX_ACTION_ROWS - job.succeeded
        self._found: list[int] = []
        self._stored_at = time.monotonic()
        self._cursor = job.cursor

    @override
    def step(self, access: Access, until: float) -> bool:
        while not self._is_complete:
            row = self._rows.next(access, until)
            if row is not None:
                self._examine(row.id, is_hidden=row.is_hidden)
            if time.monotonic() >= until:
                break
        if self._is_complete or self._is_due():
            self._store()
        return self._is_complete

    @override
    def result(self) -> dict[str, object]:
        return {"more": not self._rows.is_complete}

    @property
    def _is_complete(self) -> bool:
        return self._rows.is_complete or self._left <= 0 or len(self._found) >= self._room

    def _examine(self, row_id: int, *, is_hidden: bool) -> None:
        self._examined += 1
        self._left -= 1
        if not is_hidden and self._matches(row_id):
            self._found.append(row_id)

    def _matches(self, row_id: int) -> bool:
        try:
            detail = queries.message(self._context.database, row_id)
        except NoSuchRow:  # retention has deleted it
            return False
        message, events = self._context.subjects_of.read(origin_of(detail))
        if message is None:
            return False
        return all(any(map(test, read(message, events))) for read, test in self._conditions)

    def _is_due(self) -> bool:
        if self._examined >= _STORE_ROWS:
            return True
        is_old = time.monotonic() - self._stored_at > _STORE_SECONDS
        return is_old and self._rows.cursor != self._cursor

    def _store(self) -> None:
        """Store what was found, and the progress."""
        counts = Progress(self._rows.cursor, self._examined, len(self._found))
        with self._context.database.write_without_sync() as connection:
            for row_id in self._found:
                jobs.store_row(connection, self._job.id, JobRow(row_id, FOUND, ""))
            jobs.store_progress(connection, self._job.id, self._context.owner, counts)
        self._room -= len(self._found)
        self._examined, self._found = 0, []
        self._cursor, self._stored_at = self._rows.cursor, time.monotonic()
