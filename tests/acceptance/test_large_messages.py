"""Large messages: a worker process reads them; it starts on demand, may die, and ends."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.test_crowd import repeating
from tests.acceptance.wire import Sender, verdict
from tests.eventually import eventually

LARGE = b"OBX|1|ED|PDF||^AP^^Base64^" + b"QUJD" * 2**18 + b"||||||F\r"
_WORKER = b"bridge.workers.offload"


def workers(parent: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in path.read_text().split():
            with suppress(OSError):
                if _WORKER in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def kill_workers(parent: int) -> None:
    for worker in workers(parent):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def states(house: House) -> list[str]:
    listed = json.loads(house.bridge("messages", "list", "--json"))
    return sorted(row["state"] for row in listed)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "home")
    made.make()
    made.start()
    yield made
    made.kill()


def test_a_worker_killed_while_it_reads(house: House) -> None:
    """The service refuses the message and accepts it when resent; the worker ends with it."""
    assert house.service is not None
    service = house.service.process.pid
    large = order(1) + LARGE
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(2))) == ("AA", "C2")
        assert workers(service) == []
        with repeating(partial(kill_workers, service), 0.001):
            assert verdict(sender.ask(large)) == ("AE", "C1")
        assert verdict(sender.ask(large)) == ("AA", "C1")
        (worker,) = workers(service)
    eventually(lambda: states(house) == ["done", "done", "refused"])
    house.stop()
    assert not Path(f"/proc/{worker}").exists()


def test_large_messages_of_an_earlier_release(house: House) -> None:
    """
    An earlier release stored them as files, which the service still reads.

    `bridge check` reports missing files. A replay parks their message until they are restored.
    """
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(1) + LARGE)) == ("AA", "C1")
    house.settle()
    assert house.stop() == 0
    folder = put_in_files(house.home / "bridge.db")
    house.start()
    assert replayed(house)["state"] == "done"
    folder.rename(house.home / "away")
    assert f"the content of 1 large messages is missing; restore {folder}" in house.bridge(
        "check", expect=1
    )
    parked = replayed(house)
    assert (parked["state"], parked["code"]) == ("parked", "content_missing")
    (house.home / "away").rename(folder)
    house.bridge("check")
    assert replayed(house)["state"] == "done"


def put_in_files(database: Path) -> Path:
    """Move the chunks of all large messages into files, as earlier releases stored them."""
    folder = database.with_name(f"{database.name}-large")
    folder.mkdir(mode=0o700)
    with closing(sqlite3.connect(database)) as connection:
        for identity, digest in connection.execute(
            "SELECT identity, digest FROM payload_blob"
        ).fetchall():
            chunks = connection.execute(
                "SELECT content FROM payload_chunk WHERE identity = ? AND digest = ? "
                "ORDER BY number",
                (identity, digest),
            )
            file = folder / f"{identity % 2**64:016x}-{digest % 2**64:016x}"
            file.write_bytes(b"".join(chunk for (chunk,) in chunks))
            file.chmod(0o600)
        connection.execute("UPDATE payload_blob SET chunks = 0")
        connection.execute("DELETE FROM payload_chunk")
        connection.commit()
    return folder


def replayed(house: House) -> dict[str, Any]:
    """Replay the first message; return its row."""
    house.bridge("messages", "replay", "1")
    house.settle()
    rows: list[dict[str, Any]] = json.loads(house.bridge("messages", "list", "--json"))
    return rows[0]
