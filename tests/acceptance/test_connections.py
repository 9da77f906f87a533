"""Listeners and destinations that an administrator sets up in the console of a running service."""

import base64
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.admin.packages.activation import pack_zip
from tests.acceptance.cluster import Cluster
from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.receiver import Receiver
from tests.acceptance.wire import Sender, sink, verdict
from tests.browser.signing_in import PASSWORD
from tests.conftest import empty
from tests.enrolment import open_link
from tests.eventually import PATIENCE, eventually
from tests.trust import TRUSTED

pytestmark = pytest.mark.slow

MARA = "mara@example.org"
NUMBERS = count(7600)


class Console:
    def __init__(self, house: House) -> None:
        self.house = house
        form = {"email": MARA, "password": PASSWORD, "token": "", "next": ""}
        answer = httpx.post(
            f"{house.url}/reporting/login", data=form, timeout=PATIENCE, verify=TRUSTED
        )
        self.cookies = dict(answer.cookies)

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        url, headers = f"{self.house.url}/console/api/{path}", {"origin": self.house.url}
        return httpx.request(
            method,
            url,
            json=body,
            cookies=self.cookies,
            headers=headers,
            timeout=PATIENCE,
            verify=TRUSTED,
        )

    def put(self, kind: str, name: str, table: dict[str, Any] | None, new: bool = False) -> None:
        body = {"table": table, "reason": "a test", "begun_on": self.version(kind, name)}
        answer = self.call("PUT", f"connections/{kind}/{name}", {**body, "new": new})
        assert answer.status_code == 200, answer.text

    def version(self, kind: str, name: str) -> str:
        """Return the version of the active settings; empty if there are none."""
        found = self.call("GET", f"connections/{kind}/{name}").json().get("in_force")
        return found["version"] if found else ""


def enrol(house: House) -> None:
    house.bridge("user", "add", MARA, "--name", "Mara Keeper", "--site", "SITE1")
    role = ("--role", "system-administrator", "--bodies")
    printed = house.bridge("console", "grant", MARA, *role)
    open_link(printed.split()[-1], house.url, PASSWORD)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A service without any receiver."""
    house = House(Path(tmp_path_factory.mktemp("connections")) / "home")
    house.make()
    house.start()
    enrol(house)
    yield Console(house)
    assert house.stop() == 0
    house.kill()


def signed(house: House, port: int = 0) -> str:
    """Send an order and sign its report; return the accession."""
    number = next(NUMBERS)
    with Sender(port or house.mllp_port) as sender:
        assert verdict(sender.ask(order(number, accession=f"A{number}")))[0] == "AA"
    eventually(lambda: house.row(f"A{number}") is not None)
    house.draft(f"M{number}", f"A{number}", "Nothing found.")
    house.sign(f"M{number}", f"A{number}")
    return f"A{number}"


def test_a_destination_is_added_changed_disabled_and_rolled_back(console: Console) -> None:
    """It delivers by MLLP, then by HTTP, then not at all, then by HTTP again, without a restart."""
    house, web = console.house, Receiver()
    with sink() as first:
        console.put("destination", "street", {"address": f"127.0.0.1:{first.port}"}, new=True)
        eventually(lambda: "connected" in house.log())
        one = signed(house)
        assert first.about(one)
        console.put("destination", "street", {"address": f"http://127.0.0.1:{web.port}/hl7"})
        eventually(lambda: house.log().count(" connected ") > 1)
        two = signed(house)
        eventually(lambda: any(two.encode() in body for _, body in web.received))
        assert not any(two.encode() in message for message in first.received)
        off = {"address": f"http://127.0.0.1:{web.port}/hl7", "enabled": False}
        console.put("destination", "street", off)
        eventually(lambda: house.log().count(" disconnected ") > 1)
        three = signed(house)
        body = {"reason": "on again", "begun_on": console.version("destination", "street")}
        done = console.call("POST", "connections/destination/street/rollback", body)
        assert done.status_code == 200, done.text
        eventually(lambda: house.log().count(" connected ") > 2)
        four = signed(house)
        eventually(lambda: any(four.encode() in body for _, body in web.received))
        assert not any(three.encode() in body for _, body in web.received)
    web.server.shutdown()
    web.server.server_close()


def test_a_listener_is_added_and_disabled(console: Console) -> None:
    """It accepts orders while it is enabled; orders that it stored are applied after that."""
    house, port = console.house, free_port()
    table = {"bind": f"127.0.0.1:{port}", "site": "SITE1"}
    console.put("listener", "north", table, new=True)

    def open_now() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(open_now)
    signed(house, port)
    console.put("listener", "north", {**table, "enabled": False})
    eventually(lambda: not open_now())
    house.settle()


def test_a_port_in_use_is_reported_and_retried(console: Console) -> None:
    """The console shows that the listener cannot bind until the port is free."""

    def trouble() -> str:
        found = console.call("GET", "channels").json()["listeners"]
        return next(str(row["trouble"]) for row in found if row["name"] == "south")

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        table = {"bind": f"127.0.0.1:{port}", "site": "SITE1"}
        console.put("listener", "south", table, new=True)
        eventually(lambda: "is it in use?" in trouble())
    eventually(lambda: not trouble())
    signed(console.house, port)


@pytest.mark.postgres
def test_all_nodes_run_an_imported_interface(postgres_url: str, tmp_path: Path) -> None:
    """One node imports a ZIP with listener, destination and mapping; both nodes run them."""
    empty(postgres_url)
    cluster, port = Cluster(tmp_path, postgres_url), free_port()
    try:
        cluster.make()
        cluster.start()
        one, two = cluster.nodes
        enrol(one)
        with sink() as receiver:
            data = pack_zip(interface(port, receiver.port))
            console, body = Console(one), {"zip": base64.b64encode(data).decode()}
            mark = console.call("POST", "interfaces/look", body).json()["mark"]
            taken = {**body, "mark": mark, "replace": False, "reason": "a test"}
            answer = console.call("POST", "interfaces/import", taken)
            assert answer.status_code == 200, answer.text
            eventually(lambda: all(f":{port}" in node.log() for node in (one, two)))
            eventually(lambda: all("connected" in node.log() for node in (one, two)))
            for _ in range(6):
                assert receiver.about(signed(two, port))
    finally:
        cluster.close()


def interface(port: int, receiver: int) -> dict[str, str]:
    """An interface package whose port both nodes of one machine share."""
    text = f"""
[[listener]]
name = "north"
bind = "127.0.0.1:{port}"
share_port = true
site = "SITE1"
mappings = ["north"]
[[destination]]
name = "street"
address = "127.0.0.1:{receiver}"
"""
    return {"interface.toml": text, "mappings/north.yaml": "include: orders.yaml\n"}
