"""Killed processes, and concurrent processes."""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import arrival

ROOT = Path(__file__).parents[3]


def _start(module: str, database: Database, *arguments: str) -> subprocess.Popen[str]:
    url = database.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", f"tests.bridge.queue.{module}", url, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _lines_until_killed(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(number)]
    process.kill()
    rest, _ = process.communicate()
    return [*first, *_whole_lines(rest)]


def _whole_lines(output: str) -> list[str]:
    return output[: output.rfind("\n") + 1].splitlines()


def _stored(store: Database) -> dict[int, str]:
    statement = "SELECT message_id, payload FROM message_body"
    with store.read() as connection:
        rows = connection.execute(text(statement)).all()
    return {
        row.message_id: bytes(row.payload).split(b"|")[3].split(b"\r")[0].decode() for row in rows
    }


@pytest.mark.slow
def test_a_killed_ledger(store: Database) -> None:
    """Each order reported as stored is stored once, with the reported id."""
    reported: dict[int, int] = {}
    for round_number in range(3):
        process = _start("ledger_process", store, str(round_number * 10**6))
        for line in _lines_until_killed(process, 300 + 77 * round_number):
            number, message_id = map(int, line.split())
            reported[number] = message_id
    assert len(reported) > 900
    stored = _stored(store)
    assert len(set(stored.values())) == len(stored)
    assert all(stored.get(message_id) == f"N{number}" for number, message_id in reported.items())


@pytest.mark.slow
def test_two_nodes_apply_one_inbox(intake: Intake, store: Database) -> None:
    """One of two nodes applies each message, in order for each patient, also after a kill."""
    receipts = intake.enqueue(*(arrival(patient=str(n % 40)) for n in range(1200)))
    doomed = _start("worker_process", store, "node-1")
    before = _lines_until_killed(doomed, 100)
    assert len(before) < len(receipts)
    reborn = _start("worker_process", store, "node-1")
    other = _start("worker_process", store, "node-2")
    after = [*_whole_lines(reborn.communicate()[0]), *_whole_lines(other.communicate()[0])]
    applied = sorted(tuple(map(int, line.split())) for line in [*before, *after])
    ids = [message_id for _, _, message_id in applied]
    assert set(ids) == {receipt.message_id for receipt in receipts}
    assert len(ids) <= len(receipts) + 20 * 4  # claims at the kill: twice at most
    for lane in {lane for _, lane, _ in applied}:
        mine = [message_id for _, each, message_id in applied if each == lane]
        assert mine == sorted(mine)
