"""Ports of the tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.store.database import Database
from tests.conformance.dicom.port import Port, close, open_port
from tests.databases import fresh_file


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Database]:
    """A database for steps."""
    database = Database(fresh_file(tmp_path / "bridge.db"))
    yield database
    database.dispose()


@pytest.fixture
def serve(steps: Database) -> Iterator[Callable[..., Port]]:
    """Opens ports on the database `steps`; closes them after the test."""
    opened: list[Port] = []

    def make(*peers: dict[str, Any], **settings: Any) -> Port:
        opened.append(open_port(steps, *peers, **settings))
        return opened[-1]

    yield make
    for port in opened:
        close(port)
