"""Processes that are killed, and processes that work side by side."""

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
    """Let a process print some lines, kill it, and give all whole lines that it printed."""
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(number)]
    process.kill()
    rest, _ = process.communicate()
    return [*first, *_whole_lines(rest)]


def _whole_lines(output: str) -> list[str]:
    return output[: output.rfind("\n") + 1].splitlines()


def _stored(store: Database) -> dict[int, str]:
    """Give the control id of every stored message, by message id."""
    statement = "SELECT message_id, payload FROM message_body"
    with store.read() as connection:
        rows = connection.execute(text(statement)).all()
    return {
        row.message_id: bytes(row.payload).split(b"|")[3].split(b"\r")[0].decode() for row in rows
    }


@pytest.mark.slow
def test_kill_minus_nine(store: Database) -> None:
    """Every order that was reported as kept is there once, under the id that was told."""
    told: dict[int, int] = {}
    for round_number in range(3):
        process = _start("ledger_process", store, str(round_number * 10**6))
        for line in _lines_until_killed(process, 300 + 77 * round_number):
            number, message_id = map(int, line.split())
            told[number] = message_id
    assert len(told) > 900
    stored = _stored(store)
    assert len(set(stored.values())) == len(stored)
    assert all(stored.get(message_id) == f"N{number}" for number, message_id in told.items())


@pytest.mark.slow
def test_two_nodes_apply_one_inbox(intake: Intake, store: Database) -> None:
    """Each message is applied by one of them, each patient's in order, even after a kill."""
    receipts = intake.keep(*(arrival(patient=str(n % 40)) for n in range(1200)))
    doomed = _start("worker_process", store, "node-1")
    before = _lines_until_killed(doomed, 100)
    assert len(before) < len(receipts)
    reborn = _start("worker_process", store, "node-1")
    other = _start("worker_process", store, "node-2")
    after = [*_whole_lines(reborn.communicate()[0]), *_whole_lines(other.communicate()[0])]
    applied = sorted(tuple(map(int, line.split())) for line in [*before, *after])
    ids = [message_id for _, _, message_id in applied]
    assert set(ids) == {receipt.message_id for receipt in receipts}
    assert len(ids) <= len(receipts) + 20 * 4  # what was in hand at the kill, twice at most
    for lane in {lane for _, lane, _ in applied}:
        mine = [message_id for _, each, message_id in applied if each == lane]
        assert mine == sorted(mine)
