"""The service in several processes, one for each role, and with a remote report engine."""

from pathlib import Path

import httpx
import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, sink, verdict


@pytest.mark.slow
def test_three_processes(database_url: str, tmp_path: Path) -> None:
    """Separate engine, intake and delivery processes work together; each exits with 0."""
    url = "" if database_url.startswith("sqlite") else database_url
    house = House(tmp_path / "home", database=url)
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        try:
            engine = house.start("--role", "engine")
            intake = house.start("--role", "intake", beside=True)
            delivery = house.start("--role", "delivery", beside=True)
            with Sender(house.mllp_port) as sender:
                answers = [verdict(sender.ask(order(number)))[0] for number in range(5)]
            house.await_rows(5)
            house.draft("M1", "A1", "Read elsewhere.")
            house.sign("M1", "A1")
            result = ris.wait(1)[0]
            assert [item.stop() for item in (intake, delivery, engine)] == [0, 0, 0]
        finally:
            house.kill()

    assert answers == ["AA"] * 5
    assert b"Read elsewhere." in result


@pytest.mark.slow
def test_engine_at_another_address(house: House, tmp_path: Path) -> None:
    """The bridge works with a report engine at another address."""
    service = House(tmp_path / "service")
    service.make()
    house.settings = f'[engine]\nbase_url = "{service.url}"\n'
    with sink() as ris:
        house.destination("ris", ris.port)
        house.make()
        token = (service.home / "secrets" / "engine.token").read_text("utf-8")
        (house.home / "secrets" / "engine.token").write_text(token, "utf-8")
        try:
            service.start("--role", "engine")
            house.start()
            with Sender(house.mllp_port) as sender:
                assert verdict(sender.ask(order(7))) == ("AA", "C7")
            service.await_rows(1)
            service.draft("M7", "A7", "Far away.")
            service.sign("M7", "A7")
            assert b"Far away." in ris.wait(1)[0]
        finally:
            service.kill()


@pytest.mark.slow
def test_sigterm_under_load(house: House) -> None:
    """The service exits with 0; after a restart, every acknowledged order is on the worklist."""
    house.make()
    house.start()
    with Sender(house.mllp_port) as sender:
        sender.post(*(order(number) for number in range(200)))
        first = sender.reply()
        assert house.stop() == 0
        answers = [first, *sender.replies(1)]
    accepted = [name for reply in answers for code, name in [verdict(reply)] if code == "AA"]
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{house.url}/healthz")
    house.start()
    house.settle()
    listed = {item["Accession"] for row in house.worklist() for item in row["clinicalInfo"]}

    assert {name.replace("C", "A") for name in accepted} <= listed
