"""
The commands of the guides for accounts, connections and the cluster have the documented effect.

The tests replace only ports and addresses.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bridge.store.database import Database
from tests.acceptance.house import House, bridge, free_port
from tests.acceptance.orders import order
from tests.acceptance.radiologist import Window
from tests.acceptance.wire import Sender, sink
from tests.bridge.admin.mirth.exports import channel, mapper, place
from tests.bridge.dicom.worklist_items import insert, make_item
from tests.conftest import address_of, ask_server, drop_database
from tests.eventually import eventually
from tests.programs import DCMTK
from tests.release.guides import ROOT, commands, run
from tests.trust import TRUSTED

GUIDES = "docs/guides"
SERVING = ("bridge serve", "bridge send")
"""The commands of the README that need the running service."""

SAMPLES = ROOT / "docs" / "tutorial" / "samples.hl7"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """An installation that is not started."""
    house = House(tmp_path / "home")
    try:
        house.make()
        yield house
    finally:
        house.kill()


def add_settings(house: House, text: str) -> None:
    file = house.home / "bridge.toml"
    file.write_text(f"{file.read_text('utf-8')}\n{text}\n", "utf-8")


@pytest.mark.slow
def test_a_first_installation(tmp_path: Path) -> None:
    """The README's commands make an installation that `check` accepts, with an administrator."""
    script = commands("README.md", "A first installation")
    lines = [line for line in script.splitlines() if not line.startswith(SERVING)]
    home = tmp_path / "home"
    printed = run("\n".join(lines).replace("HOME", str(home)))
    assert "/reporting/enrol" in printed
    assert "system-administrator" in bridge("console", "list", "--home", str(home))


def test_the_first_order(house: House) -> None:
    """The README's first order is accepted and becomes a report."""
    house.start()
    script = commands("README.md", "A first installation")
    (send,) = [line for line in script.splitlines() if line.startswith("bridge send")]
    run(f"cd {ROOT}\n{send.replace('2575', str(house.mllp_port))}")
    house.settle()
    assert len(house.worklist()) == 1


@pytest.mark.slow
def test_accounts(tmp_path: Path) -> None:
    """The chapters on accounts, roles, tokens and the audit trail work in one data directory."""
    home, guide = tmp_path / "home", f"{GUIDES}/accounts-and-sign-in.md"
    bridge("init", str(home))
    environment = {"BRIDGE_HOME": home}
    printed = run(commands(guide, "The first account"), **environment)
    assert printed.count("/reporting/enrol") >= 2
    run(commands(guide, "Forgotten password, lost phone, person leaves"), **environment)
    assert "olga.operator@example.org" in bridge("console", "list", "--home", str(home))
    assert "viewer integration" in run(commands(guide, "Access tokens"), **environment)
    run(f"cd {tmp_path}\n{commands(guide, 'Audit trail')}", **environment)
    events = (tmp_path / "audit.ndjson").read_text("utf-8").splitlines()
    assert {json.loads(event)["resourceType"] for event in events} == {"AuditEvent"}


@pytest.mark.slow
def test_a_sender_is_connected(house: House, tmp_path: Path) -> None:
    """The guide's listener and mapping accept the sample messages."""
    guide, port = f"{GUIDES}/connect-a-sender.md", free_port()
    settings = commands(guide, "1. Choose an address", language="toml")
    settings = settings.replace("0.0.0.0:2575", f"127.0.0.1:{port}")
    settings = settings.replace("10.1.0.0/16", "127.0.0.0/8")
    add_settings(house, settings)
    (tmp_path / "samples.hl7").write_bytes(SAMPLES.read_bytes())
    environment, begin = {"BRIDGE_HOME": house.home}, f"cd {tmp_path}\n"
    tried = run(begin + commands(guide, "2. Write a mapping"), **environment)
    assert "Accession" in tried
    run(begin + commands(guide, "3. Check, and activate"), **environment)
    house.start()
    script = commands(guide, "4. Send a test message").replace("2575", str(port))
    assert run(begin + script, **environment).count("ris-a") == 6
    house.settle()
    assert house.worklist()


@pytest.mark.slow
def test_reports_from_elsewhere(house: House, tmp_path: Path) -> None:
    """The guide's definition takes the report of the night service."""
    guide, port = f"{GUIDES}/reports-from-elsewhere.md", free_port()
    environment, begin = {"BRIDGE_HOME": house.home}, f"cd {tmp_path}\n"
    run(begin + commands(guide, "1. Name the sender"), **environment)
    settings = commands(guide, "2. Add it to a listener", language="toml")
    add_settings(house, settings.replace("0.0.0.0:2575", f"127.0.0.1:{port}"))
    tried = run(begin + commands(guide, "3. Try and activate"), **environment)
    assert "No acute finding." in tried
    house.start()
    script = commands(guide, "4. Send a message").replace("2575", str(port))
    assert "AA" in run(begin + script, **environment)
    house.settle()
    house.send(order(1, mrn="M7001", name="EXAMPLE^NORA"))
    window = Window(house, "M7001", "A1")
    headers = {"Authorization": f"Bearer {window.session}"}
    address = f"{house.url}/reporting/api/session/priors"
    (prior,) = httpx.get(address, headers=headers, verify=TRUSTED).json()["priors"]
    assert prior["outside"]["sender"] == "NIGHTREADS NORTH"


@pytest.mark.slow
@pytest.mark.needs(DCMTK)
def test_the_modality_worklist(house: House, tmp_path: Path) -> None:
    """The guide's port answers the guide's query with a step."""
    guide, port = f"{GUIDES}/modality-worklist.md", free_port()
    settings = commands(guide, "1. Name the port and the modalities", language="toml")
    settings = settings.replace("0.0.0.0:11112", f"127.0.0.1:{port}")
    add_settings(house, settings.replace("10.1.4.17", "127.0.0.1"))
    environment = {"BRIDGE_HOME": house.home}
    run(commands(guide, "2. Check and restart"), **environment)
    house.start()
    database = Database(f"sqlite:///{house.home / 'bridge.db'}")
    insert(database, make_item(1), make_item(2, modality="MR"))
    database.dispose()
    script = commands(guide, "3. Ask as a modality").replace("11112", str(port))
    path = f"{Path(DCMTK.require()).parent}:/bin"  # pynetdicom has programs of the same names
    printed = run(f"cd {tmp_path}\n{script}", **environment, PATH=path)
    assert "Find Response: 1 (Pending)" in printed
    assert "Find Response: 2" not in printed


@pytest.mark.slow
def test_a_receiver_is_connected(house: House, tmp_path: Path) -> None:
    """The guide's destination gets a result, which the commands show and send again."""
    guide = f"{GUIDES}/connect-a-receiver.md"
    settings = commands(guide, "1. Describe the destination", language="toml")
    with sink() as receiver:
        add_settings(house, settings.replace("his.example.org:6661", f"127.0.0.1:{receiver.port}"))
        house.start()
        with Sender(house.mllp_port) as sender:
            sender.ask(order(1, accession="A1"))
        house.settle()
        house.draft("M1", "A1", "No fracture.")
        house.sign("M1", "A1")
        eventually(lambda: any(b"No fracture" in message for message in receiver.received))
        environment = {"BRIDGE_HOME": house.home}
        run(commands(guide, "2. Check the connection", ("bridge receive",)), **environment)
        assert "old-his" in run(commands(guide, "3. Look at a result"), **environment)
        run(commands(guide, "When the receiver does not accept a result"), **environment)


@pytest.mark.slow
def test_a_partner_gets_the_specification(house: House, tmp_path: Path) -> None:
    """The commands of the guide write the documents, also with the changes since a version."""
    guide = f"{GUIDES}/partner-specification.md"
    channels = """
        [[listener]]
        name = "ris-a"
        bind = "127.0.0.1:1"
        site = "SITE1"
        [[destination]]
        name = "his-results"
        address = "127.0.0.1:2"
    """
    add_settings(house, channels)
    house.start()
    environment = {"BRIDGE_HOME": house.home}
    script = commands(guide, "Write the document").replace("HOME=HOME", f"HOME={house.home}")
    printed = run(f"cd {tmp_path}\n{script}", **environment)
    assert "HL7 interface: listener ris-a" in printed
    assert (tmp_path / "his-results.pdf").read_bytes().startswith(b"%PDF-")
    assert "ORC-1" in (tmp_path / "ris-a.html").read_text("utf-8")
    history = json.loads(
        bridge("mapping", "history", "orders", "--home", str(house.home), "--json")
    )
    script = commands(guide, "Show what changes").replace("3f9a21c4", history[0]["version"][:8])
    run(f"cd {tmp_path}\n{script}", **environment)
    page = (tmp_path / "ris-a-changes.html").read_text("utf-8")
    assert "Nothing changes for the partner." in page


def test_bridge_receive(tmp_path: Path) -> None:
    """`bridge receive` acknowledges and stores a message of `bridge send`."""
    guide, port = f"{GUIDES}/connect-a-receiver.md", str(free_port())
    receive = commands(guide, "2. Check the connection", ("bridge check",)).replace("2576", port)
    sent = ROOT / "sample_messages" / "orders" / "01-ris-a-orm-new.hl7"
    script = f"""
        cd {tmp_path}
        {receive} > log 2>&1 & PID=$!
        until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do kill -0 $PID; done
        bridge send 127.0.0.1:{port} {sent}
        kill -INT $PID; wait $PID || true
    """
    assert "AA" in run(script)
    assert len(list((tmp_path / "received").iterdir())) == 1


def test_a_channel_of_mirth_is_moved(house: House, tmp_path: Path) -> None:
    """The guide infers a definition from messages; `check` accepts it and `try` applies it."""
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "one.hl7").write_bytes(SAMPLES.read_bytes())
    script = commands(f"{GUIDES}/coming-from-mirth.md", "Move a channel")
    tried = run(f"cd {tmp_path}\n{script}", BRIDGE_HOME=house.home)
    assert "Accession" in tried


def test_an_export_of_mirth_is_converted(house: House, tmp_path: Path) -> None:
    """The commands of the guide convert an export, import the package, and try messages."""
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "one.hl7").write_bytes(SAMPLES.read_bytes())
    export = channel(name="RIS Orders", steps=[mapper("ward", place("PV1-3.1"))])
    (tmp_path / "RIS-Orders.xml").write_bytes(export)
    script = commands(f"{GUIDES}/coming-from-mirth.md", "Convert an export")
    printed = run(f"cd {tmp_path}\n{script}", BRIDGE_HOME=house.home)
    assert "Metadata ward: PV1-3.1" in printed
    assert "added ris-orders" in printed
    assert "Accession" in printed


@pytest.mark.slow
def test_messages_are_found_and_repaired(tmp_path: Path) -> None:
    """The commands for everyday work succeed with the connections that `init` creates."""
    home = tmp_path / "home"
    bridge("init", str(home))
    bridge("migrate", "--home", str(home))
    script = commands("docs/reference/alerts.md", "Find and repair messages")
    run(script, BRIDGE_HOME=home)
    listed = json.loads(bridge("listeners", "list", "--home", str(home), "--json"))
    assert [row["paused_at"] for row in listed] == [None]


def test_the_interface_is_called(house: House, tmp_path: Path) -> None:
    """The request on the page of the HTTP interface returns the worklist."""
    house.start()
    (tmp_path / "admin.token").write_text(house.token, "utf-8")
    script = commands("docs/reference/http-api.md", "Authentication")
    printed = run(f"cd {tmp_path}\n{script.replace('8575', str(house.http_port))}")
    assert '"items"' in printed


def test_a_site_lets_a_host_embed_the_app(house: House, tmp_path: Path) -> None:
    """The guide creates the token and the host origin of the example host."""
    script = commands(f"{GUIDES}/embed-the-app.md", "Try it")
    lines = [line for line in script.splitlines() if line.startswith("bridge ")]
    text = "\n".join(lines).replace("--home HOME", f"--home {house.home}")
    run(f"cd {tmp_path}\n{text.replace('admin@example.org', 'ada@example.org')}")
    assert (tmp_path / "admin.token").read_text("utf-8").strip()
    shown = bridge("site", "show", "SITE1", "--home", str(house.home))
    assert re.search(r"http://localhost:8600", shown)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_cluster_is_set_up(postgres_server: str, tmp_path: Path) -> None:
    """The guide's second data directory passes `check` on the same PostgreSQL."""
    name = f"cluster-{tmp_path.name[-20:]}"
    ask_server(postgres_server, f'CREATE DATABASE "{name}"')
    guide, first, second = f"{GUIDES}/cluster.md", tmp_path / "one", tmp_path / "two"
    environment = {"BRIDGE_HOME": first, "SECOND_HOME": second}
    try:
        second.mkdir()
        script = commands(guide, "Set up")
        address = address_of(postgres_server, name)
        script = script.replace("tar -C", "migrate; tar -C", 1)
        migrate = f"""migrate() {{
            sed -i 's#^url = .*#url = "{address}"#' "$BRIDGE_HOME/bridge.toml"
            bridge site add SITE1 --home "$BRIDGE_HOME"; bridge migrate --home "$BRIDGE_HOME"
        }}"""
        run(f"{migrate}\n{script}", **environment)
        statement = commands(guide, "Partitions", language="sql").replace("\n", " ")
        plain = address.replace("+psycopg", "")
        assert "message_rest" in run(f'psql -At -c "$SQL" {plain!r}', SQL=statement)
    finally:
        drop_database(postgres_server, f'"{name}"')
