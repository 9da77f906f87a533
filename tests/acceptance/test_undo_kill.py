"""kill -9 within the undo of a merge: it is whole or not there, and ends complete."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from bridge.store.databases import bridge_database
from bridge.store.tables import MERGE_UNDOS
from tests.acceptance.forked import Forked, patched
from tests.acceptance.house import House
from tests.acceptance.orders import adt, order
from tests.acceptance.wire import Sender, verdict
from tests.eventually import eventually

POINTS = {
    "before the engine's commit": "bridge.engine.http.routes.api.reports undo_merge after",
    "after the engine": "bridge.engine_client.client EngineClient.undo_merge after",
    "before the bridge's commit": "bridge.store.records.identifier_changes undo after",
}
KILLING = """
import asyncio, functools, importlib, os, signal
module, name, moment = {point!r}.split()
def kill(at):
    if at == moment:
        try:
            os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
real = getattr(owner, last)
if asyncio.iscoroutinefunction(real):
    @functools.wraps(real)
    async def replaced(*arguments, **options):
        kill("before")
        done = await real(*arguments, **options)
        kill("after")
        return done
else:
    @functools.wraps(real)
    def replaced(*arguments, **options):
        kill("before")
        done = real(*arguments, **options)
        kill("after")
        return done
setattr(owner, last, replaced)
"""
MERGED = {"A1": ("M2", "SURVIVOR^EVA"), "A2": ("M2", "SURVIVOR^EVA")}
UNDONE = {"A1": ("M1", "FREED^IDA"), "A2": ("M2", "SURVIVOR^EVA")}


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    url = "" if database_url.startswith("sqlite") else database_url
    made = House(tmp_path / "home", database=url)
    made.make()
    yield made
    made.kill()


def shown(house: House) -> dict[str, tuple[str, str]]:
    """Return number and name of the patient of each order, as the report engine has them."""
    return {
        tags["Accession"]: (tags["PatientMRN"], tags["PatientName"])
        for row in house.worklist()
        for tags in row["orders"]
    }


def pass_a_minute(house: House) -> None:
    """After a minute an undo counts as interrupted."""
    with bridge_database(house.home) as database, database.write() as connection:
        earlier = MERGE_UNDOS.c.begun_at - 60_000
        connection.execute(update(MERGE_UNDOS).values(begun_at=earlier))


def is_undone(house: House) -> bool:
    return bool(json.loads(house.bridge("merges", "list", "--undone", "--json")))


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("by", ["A43", "operator"])
def test_kill_within_an_undo(house: House, tmp_path: Path, by: str, point: str) -> None:
    """
    The service completes what was interrupted, and later orders are those of their own patients.

    An order that is sent meanwhile waits, and is never shown under the other patient.
    """
    marker = tmp_path / "killed"
    killing = patched(KILLING.format(point=POINTS[point], marker=str(marker)))
    if by == "A43":
        house.program = killing
    house.start()
    house.program = Forked
    merge = adt("A40", 3, "M2", "SURVIVOR^EVA", "M1").replace(b"20260102030405", b"20260102030406")
    house.send(order(1, name="FREED^IDA"), order(2, name="SURVIVOR^EVA"), merge)
    assert shown(house) == MERGED
    if by == "A43":
        undo = adt("A43", 4, "M1", "FREED^IDA", "M2").replace(b"20260102030405", b"20260102030407")
        with Sender(house.mllp_port) as sender:
            assert verdict(sender.ask(undo))[0] == "AA"
        eventually(marker.exists)
        house.kill()
        house.start()
    else:
        command = ["merges", "undo", "M1", "--reason", "two persons", "--home", str(house.home)]
        killing(command, {}, tmp_path / "out", tmp_path / "err").wait(120)
        assert marker.exists()
        pass_a_minute(house)
    house.send(order(5, mrn="M1", name="FREED^IDA", accession="A5"))
    eventually(lambda: is_undone(house))
    house.settle()
    assert shown(house) == {**UNDONE, "A5": ("M1", "FREED^IDA")}
    assert json.loads(house.bridge("merges", "list", "--json")) == []
