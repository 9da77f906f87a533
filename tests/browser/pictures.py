"""
Pictures of the console for README, tutorial and guides: `python -m tests.browser.pictures FOLDER`.

A hospital on a working day: three senders and three receivers, of which one refuses each result,
a week of statistics, and parked messages. All patients are invented.
`--keep` leaves the service running and prints its address.
"""

import argparse
import json
import math
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from sqlalchemy import insert

from bridge.metrics import FAST
from bridge.store.databases import open_bridge_database
from bridge.store.tables import CHANNEL_STATISTICS
from config import load
from tests.acceptance.house import House
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, sink
from tests.browser.checked_pages import window
from tests.browser.console_client import ConsoleClient, enter
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link
from tests.programs import CHROMIUM

MARA = "mara@clinic.test"
MINUTE = 60_000
SIZES = {"wide": (1440, 900), "phone": (390, 844)}
PATIENTS = [
    ("MÜLLER^JÜRGEN", "19580714", "M"),
    ("ROSSI^ANNA", "19711103", "F"),
    ("NOVÁKOVÁ^ZOË", "19860227", "F"),
    ("O'BRIEN^SEÁN", "19430901", "M"),
    ("ΠΑΠΑΔΟΠΟΥΛΟΣ^ΓΙΩΡΓΟΣ", "19650517", "M"),
    ("GARCÍA LÓPEZ^INÉS", "19920322", "F"),
    ("KOWALSKI^PIOTR", "19770610", "M"),
    ("LINDQVIST^EBBA", "20041218", "F"),
]
STUDIES = [
    ("71260", "CT CHEST WITH CONTRAST", "CT"),
    ("70551", "MRI BRAIN WITHOUT CONTRAST", "MR"),
    ("71046", "CHEST 2 VIEWS", "DX"),
    ("76700", "ULTRASOUND ABDOMEN", "US"),
    ("74177", "CT ABDOMEN AND PELVIS", "CT"),
]
REPORT = "FINDINGS\nThe lungs are clear. No effusion.\n\nIMPRESSION\nNo acute disease."
PAGES = {
    "overview": "overview",
    "messages": "messages",
    "deliveries": "deliveries",
    "orders": "orders",
    "attention": "attention",
    "connection": "connections/listener/ris-north",
    "destination": "connections/destination/his-results",
    "connections": "connections",
    "message": "messages/3",
    "order": "orders/1",
    "delivery": "deliveries/1",
    "mappings": "mappings",
    "editor": "mappings/orders",
    "sites": "sites",
    "access": "access",
    "audit": "audit",
    "jobs": "jobs",
}


@dataclass(frozen=True)
class Channel:
    """A listener or destination, its messages a minute, and the share of errors."""

    kind: str
    name: str
    rate: float
    errors: float = 0.0


CHANNELS = (
    Channel("service", "", 0.0),
    Channel("listener", "ris-north", 14.0, 0.002),
    Channel("listener", "ris-south", 5.0, 0.01),
    Channel("listener", "adt", 22.0),
    Channel("listener", "orders", 0.4),
    Channel("destination", "ris-results", 9.0, 0.001),
    Channel("destination", "archive", 9.0),
    Channel("destination", "his-results", 6.0, 0.003),
)


@dataclass(frozen=True)
class Clinic:
    """The installation, the ports of its listeners, and its receivers."""

    console: ConsoleClient
    ports: dict[str, int]
    receivers: dict[str, Sink]


def _order(number: int, *, site: str = "NORTH", control: str = "NW", modality: str = "") -> bytes:
    name, born, sex = PATIENTS[number % len(PATIENTS)]
    code, title, usual = STUDIES[number % len(STUDIES)]
    sent = time.strftime("%Y%m%d%H%M%S")
    status = "CA" if control == "CA" else "SC"
    return (
        f"MSH|^~\\&|RIS|{site}|BRIDGE|RAD|{sent}||ORM^O01^ORM_O01|{site[0]}{number:06}|P|2.5.1"
        "||||||UNICODE UTF-8\r"
        f"PID|1||{10_000 + number % 97}^^^{site}^MR||{name}||{born}|{sex}\r"
        "PV1|1|O|RAD^^^NORTH||||4711^WEBER^HANNA\r"
        f"ORC|{control}|PL{number}|FL{number}||{status}\r"
        f"OBR|1|PL{number}|FL{number}|{code}^{title}^C4|||{sent}|||||||||4711^WEBER^HANNA"
        f"||ACC{number}||||||{modality or usual}|||1^^^{sent}^^R||||^COUGH, FEVER\r"
    ).encode()


def _refuse(message: bytes, _attempts: int) -> bytes:
    """Refuse the procedure, as a receiver that does not know its code."""
    error = b"ERR||OBR^1^4^1|103^Table value not found^HL70357|E|||71260 is unknown\r"
    return VT + ack(message, b"AE") + error + FS_CR


def _share_of_day(at: int) -> float:
    """Return how busy a moment (ms) is: most before noon, little at night."""
    hour = at / MINUTE / 60 % 24
    return 0.15 + math.exp(-((hour - 11) ** 2) / 18) + math.exp(-((hour - 16) ** 2) / 6) / 2


def _figures(chance: random.Random, channel: Channel, expected: float) -> dict[str, Any]:
    """Return the statistics of a span with about so many messages."""
    count = max(0, round(chance.gauss(expected, (expected + 0.01) ** 0.5)))
    bad = sum(chance.random() < channel.errors for _ in range(min(count, 500)))
    is_listener = channel.kind == "listener"
    outcomes = ("accepted", "done") if is_listener else ("delivered",)
    counts = {**dict.fromkeys(outcomes, count - bad), "refused": bad}
    latency = [0] * (len(FAST) + 1)
    for _ in range(min(count, 400)):
        seconds = chance.lognormvariate(-5.4 if is_listener else -4, 0.5)
        latency[next((index for index, bound in enumerate(FAST) if seconds <= bound), -1)] += 1
    return {
        "counts": json.dumps({outcome: number for outcome, number in counts.items() if number}),
        "latency": json.dumps(latency) if count else "",
        "waiting": round(chance.random() * channel.rate / 8) if channel.name else None,
        "oldest": round(chance.random() * 900) if channel.name else None,
    }


def _store_statistics(house: House) -> None:
    """Store a week of statistics, as a running service would have."""
    chance = random.Random(7)
    now = time.time_ns() // 1_000_000
    rows = []
    for channel in CHANNELS:
        for span, days in ((1, 1), (15, 8), (60, 8)):
            length = span * MINUTE
            first = (now - days * 24 * 60 * MINUTE) // length * length
            for at in range(first, now - 2 * MINUTE, length):
                expected = channel.rate * span * _share_of_day(at)
                key = {"span": span, "at": at, "kind": channel.kind, "name": channel.name}
                rows.append({**key, "source": "clinic", **_figures(chance, channel, expected)})
    database = open_bridge_database(load(house.home))
    with database.write() as connection:
        connection.execute(insert(CHANNEL_STATISTICS), rows)


@contextmanager
def clinic(folder: Path) -> Iterator[Clinic]:
    with ExitStack() as stack:
        receivers = {
            "ris-results": stack.enter_context(sink()),
            "archive": stack.enter_context(sink()),
            "his-results": stack.enter_context(sink(_refuse)),
        }
        house = House(folder / "home")
        for name, receiver in receivers.items():
            house.destination(name, receiver.port, retry_first="20s", retry_max="5m")
        ports = {"ris-north": house.listener("ris-north"), "adt": house.listener("adt")}
        ports["ris-south"] = house.listener("ris-south", site="SOUTH")
        house.make()
        house.bridge("site", "add", "SOUTH", "--name", "South clinic")
        house.start()
        stack.callback(house.kill)
        stack.callback(house.stop)
        _store_statistics(house)
        account = (MARA, "--name", "Mara Keller", "--site", "SITE1")
        house.bridge("user", "add", *account)
        printed = house.bridge(
            "console", "grant", MARA, "--role", "system-administrator", "--bodies"
        )
        open_link(printed.split()[-1], house.url, PASSWORD)
        found = Clinic(ConsoleClient(house), ports, receivers)
        _traffic(found)
        yield found


def _traffic(clinic: Clinic) -> None:
    house = clinic.console.house
    with Sender(clinic.ports["ris-north"]) as sender:
        for number in range(4000, 4060):
            sender.ask(_order(number, modality="XX" if number % 19 == 5 else ""))
        sender.ask(_order(4003, control="CA"))
    with Sender(clinic.ports["ris-south"]) as sender:
        for number in range(7000, 7014):
            sender.ask(_order(number, site="SOUTH"))
    house.settle()
    for number in (4000, 4001, 4002, 4006):
        mrn = str(10_000 + number % 97)
        house.draft(mrn, f"ACC{number}", REPORT)
        house.sign(mrn, f"ACC{number}")
    clinic.receivers["ris-results"].wait(4)
    clinic.receivers["his-results"].wait(1)


def take(browser: Browser, clinic: Clinic, folder: Path, names: Sequence[str]) -> None:
    """Write a picture of each page, at both sizes, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            with window(browser, color_scheme=theme, reduced_motion="reduce") as page:
                page.set_viewport_size({"width": width, "height": height})
                for name in names:
                    _open(page, clinic, PAGES[name])
                    page.screenshot(path=str(folder / f"{name}-{size}-{theme}.png"))


def _open(page: Page, clinic: Clinic, path: str) -> None:
    page.route("**/console/api/live", lambda route: route.abort())
    enter(page, clinic.console, MARA, path)
    page.wait_for_load_state("networkidle")
    page.unroute("**/console/api/live")
    page.locator("[aria-busy=true]").first.wait_for(state="detached")
    if page.locator("nav").count():  # a drawer on a phone
        page.locator("nav .badge.red").first.wait_for(state="attached")  # the first hint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the service running")
    parser.add_argument("--pages", nargs="*", default=list(PAGES), choices=list(PAGES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with clinic(options.folder) as made, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM.path, args=["--no-sandbox"])
        take(browser, made, options.folder / "pictures", options.pages)
        if options.keep:
            sys.stdout.write(f"{made.console.house.url}/console  {MARA}  {PASSWORD}\n")
            sys.stdout.flush()
            signal.pause()


if __name__ == "__main__":
    main()
