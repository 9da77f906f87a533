"""Messages of two sites, and an operator who may see them."""

from pathlib import Path

import pytest

from bridge.store.database import Database
from tests.bridge.admin.background.job_runs import JobRuns
from tests.bridge.admin.lists.filled_lists import FilledLists


@pytest.fixture
def lists(database: Database) -> FilledLists:
    filled = FilledLists(database)
    filled.fill()
    return filled


@pytest.fixture
def runs(lists: FilledLists, tmp_path: Path) -> JobRuns:
    made = JobRuns(lists.database, tmp_path)
    made.grant_role()
    return made
