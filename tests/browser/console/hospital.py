"""
An installation with traffic of every kind: for the tests of the tasks, of all pages, of privacy,
and for the pictures.

All patients are invented.
"""

import json
import math
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from bridge.metrics import FAST
from bridge.store.databases import open_bridge_database
from bridge.store.tables import CHANNEL_STATISTICS
from config import load
from tests.acceptance.house import House
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, sink
from tests.browser.console_client import ConsoleClient
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link
from tests.eventually import PATIENCE, eventually
from tests.trust import TRUSTED

ANALYST, VIEWER, TECHNICIAN = "ines@site1.test", "vera@site1.test", "teo@site1.test"
NAMES = {ANALYST: "Ines Keller", VIEWER: "Vera Lind", TECHNICIAN: "Teo Brand"}
ROLES = {
    ANALYST: ("--role", "system-administrator", "--bodies"),
    VIEWER: ("--role", "viewer"),
    TECHNICIAN: ("--role", "system-administrator"),  # all but the content of messages
}

UNKNOWN_PROCEDURE = b"ERR||OBR^1^4|103^Table value not found^HL70357|E||||Unknown code 71250\r"
PATIENTS = (
    ("MÜLLER^JÜRGEN", "19580714", "M"),
    ("ROSSI^ANNA", "19711103", "F"),
    ("NOVÁKOVÁ^ZOË", "19860227", "F"),
    ("O'BRIEN^SEÁN", "19430901", "M"),
    ("ΠΑΠΑΔΟΠΟΥΛΟΣ^ΓΙΩΡΓΟΣ", "19650517", "M"),
    ("GARCÍA LÓPEZ^INÉS", "19920322", "F"),
    ("KOWALSKI^PIOTR", "19770610", "M"),
    ("LINDQVIST^EBBA", "20041218", "F"),
)
STUDIES = (
    ("71260", "CT CHEST WITH CONTRAST", "CT"),
    ("70551", "MRI BRAIN WITHOUT CONTRAST", "MR"),
    ("71046", "CHEST 2 VIEWS", "DX"),
    ("76700", "ULTRASOUND ABDOMEN", "US"),
    ("74177", "CT ABDOMEN AND PELVIS WITH CONTRAST", "CT"),
)
REPORT = "FINDINGS\nThe lungs are clear. No effusion.\n\nIMPRESSION\nNo acute disease."

REFUSED_ACCESSION = "A8001"
"""Signed; `ris` has its result, and `his` refuses it."""
WITHOUT_MODALITY = ("A8031", "A8032", "A8033")
"""OBR-24 has a code without an entry, so that the modality is empty."""
STUDY_TITLE = ("StudyDescription: [OBR-4.2,", "StudyDescription: [OBR-4.1,")
"""What the analyst's draft changes in `orders`."""

MINUTE = 60_000
_NUMBER = re.compile(r"\b[AM]80\d\d\b")


def refuse(message: bytes, attempts: int) -> bytes:
    """Answer as a receiver that does not know the procedure."""
    return VT + ack(message, b"AE") + UNKNOWN_PROCEDURE + FS_CR


def hospital_order(
    number: int, *, control: str = "NW", modality: str = "", patient: int = 0
) -> bytes:
    """An order as a RIS sends it; `patient` is the number of the patient, by default the same."""
    patient = patient or number
    name, born, sex = PATIENTS[patient % len(PATIENTS)]
    code, title, usual = STUDIES[number % len(STUDIES)]
    sent = time.strftime("%Y%m%d%H%M%S")
    status = "CA" if control == "CA" else "SC"
    return (
        f"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|{sent}||ORM^O01^ORM_O01|C{number}{control}|P|2.5.1"
        "||||||UNICODE UTF-8\r"
        f"PID|1||M{patient}^^^HOSP^MR||{name}||{born}|{sex}\r"
        "PV1|1|O|RAD^^^HOSP||||4711^WEBER^HANNA\r"
        f"ORC|{control}|P{number}|F{number}||{status}\r"
        f"OBR|1|P{number}|F{number}|{code}^{title}^L|||{sent}|||||||||4711^WEBER^HANNA"
        f"||A{number}||||||{modality or usual}|||1^^^{sent}^^R||||^COUGH, FEVER\r"
        f"ZDS|1.2.826.0.1.3680043.10.{number + 1}^RIS^Application^DICOM\r"
    ).encode()


@dataclass
class Hospital(ConsoleClient):
    """The installation, `ris` that accepts each result, and `his` that refuses each."""

    ris: Sink
    his: Sink

    @cached_property
    def analyst(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.house.url,
            cookies=self.cookies(ANALYST),
            headers={"origin": self.house.url},
            timeout=PATIENCE,
            verify=TRUSTED,
        )

    def rows(self, listed: str, **filters: object) -> list[dict[str, object]]:
        """Return the rows of a list once there are any."""

        def found() -> list[dict[str, object]]:
            rows: list[dict[str, object]]
            rows = self.do("POST", f"lists/{listed}", {"filters": filters})["rows"]
            return rows

        return eventually(found)

    def has_lost(self, tag: str, accession: str) -> bool:
        """True if a message of this order is listed without the tag."""
        filters = {"number": accession, "kind": "order", "absent": [tag]}
        return bool(self.do("POST", "lists/messages", {"filters": filters})["rows"])

    def is_counted(self) -> bool:
        """True once the overview shows the traffic, and that `his` refuses it."""
        overview = self.do("GET", "overview")
        totals = [sum(channel["spark"]) for channel in overview["channels"]]
        return bool(overview["needs"]) and sum(totals) > 30

    def do(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer of an endpoint to the analyst, who signs in once."""
        answer = self.analyst.request(method, f"/console/api/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def run_job(self, path: str, body: object) -> int:
        """Start a background job, wait until it has ended, and return its number."""
        number = int(self.do("POST", path, body)["id"])
        eventually(lambda: self.do("GET", f"background-jobs/{number}")["finished_at"])
        return number

    def prepare_change(self) -> int:
        """
        Prepare a change of `orders` as the analyst does; return the number of its shadow run.

        A draft, two examples, the run over all messages, and an export.
        """
        known = self.do("GET", "mappings/orders")
        version = known["in_force"]["version"]
        text = self.do("GET", f"mappings/orders/versions/{version}")["files"]["orders.yaml"]
        assert STUDY_TITLE[0] in text
        draft = {"orders.yaml": text.replace(*STUDY_TITLE)}
        body = {"files": draft, "begun_on": version, "revision": 0}
        self.do("PUT", "mappings/orders/draft", body)
        ids = [row["id"] for row in self.rows("messages", channel=["orders"])][-2:]
        self._export(ids, {"format": "csv"})
        self._export(ids, {"format": "deidentified", "as_examples": "orders"})
        # Four digits are permuted at random: in one of fifty runs the result is a number of the
        # hospital, and looks like a patient's.
        while _NUMBER.search(json.dumps(self.do("GET", "specifications/listener/orders"))):
            for example in self.do("GET", "mappings/orders/examples")["rows"]:
                self.do("DELETE", f"mappings/orders/examples/{example['id']}")
            self._export(ids, {"format": "deidentified", "as_examples": "orders"})
        return self.run_job("mappings/orders/shadow", {})

    def _export(self, ids: list[object], options: object) -> None:
        selection = {"list": "messages", "ids": ids}
        body = {"kind": "export", "selection": selection, "options": options}
        self.run_job("background-jobs", body | {"reason": "a proof for the sender"})


@contextmanager
def opened(folder: Path, *, traffic: bool = True) -> Iterator[Hospital]:
    """A hospital with its traffic; or one that waits for its first message."""
    with sink() as ris, sink(refuse) as his:
        house = House(folder / "home")
        ports = {}
        if traffic:
            house.destination("ris", ris.port)
            house.destination("his", his.port, retry_first="1h", retry_max="1h")
            ports = {
                "stray": house.listener("stray", site="SITE9"),
                "adt": house.listener("adt"),
            }
        house.make()
        house.start()
        try:
            _add_people(house)
            if traffic:
                _send_orders(house, ports["stray"])
                _sign_reports(house, ris, his)
            hospital = Hospital(house, ris, his)
            with hospital.analyst:
                if traffic:
                    eventually(hospital.is_counted)
                yield hospital
        finally:
            house.stop()
            house.kill()


def _add_people(house: House) -> None:
    for email, role in ROLES.items():
        house.bridge("user", "add", email, "--name", NAMES[email], "--site", "SITE1")
        printed = house.bridge("console", "grant", email, *role)
        open_link(printed.split()[-1], house.url, PASSWORD)


def _send_orders(house: House, stray: int) -> None:
    with Sender(house.mllp_port) as sender:
        for number in range(8001, 8031):
            sender.ask(hospital_order(number))
        for accession in WITHOUT_MODALITY:
            sender.ask(hospital_order(int(accession[1:]), modality="24"))
        sender.ask(hospital_order(8040).replace(b"|M8040^", b"|^"))
        for number in range(8061, 8066):
            sender.ask(hospital_order(number, patient=8061))
    with Sender(stray) as sender:
        for number in (8050, 8051):
            sender.ask(hospital_order(number))
    house.settle()


def _sign_reports(house: House, ris: Sink, his: Sink) -> None:
    for number in range(8001, 8005):
        house.draft(f"M{number}", f"A{number}", REPORT)
        house.sign(f"M{number}", f"A{number}")
    house.draft("M8006", "A8006", "Begun.")
    with Sender(house.mllp_port) as sender:
        sender.ask(hospital_order(8006, control="CA"))
    house.settle()
    ris.wait(4)
    his.wait(1)


@dataclass(frozen=True)
class Channel:
    """A listener or destination, its messages a minute, and the share of errors."""

    kind: str
    name: str
    rate: float
    errors: float = 0.0


CHANNELS = (
    Channel("service", "", 0.0),
    Channel("listener", "orders", 14.0, 0.002),
    Channel("listener", "adt", 22.0),
    Channel("destination", "ris", 9.0, 0.001),
    Channel("destination", "his", 6.0, 0.003),
)


def add_week(house: House) -> None:
    """Store a week of statistics, as a service would have that ran so long."""
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
                rows.append({**key, "source": "hospital", **_figures(chance, channel, expected)})
    database = open_bridge_database(load(house.home))
    with database.write() as connection:
        connection.execute(insert(CHANNEL_STATISTICS), rows)


def _share_of_day(at: int) -> float:
    """Return how busy a moment (ms) is: most before noon, little at night."""
    hour = at / MINUTE / 60 % 24
    return 0.15 + math.exp(-((hour - 11) ** 2) / 18) + math.exp(-((hour - 16) ** 2) / 6) / 2


def _figures(chance: random.Random, channel: Channel, expected: float) -> Mapping[str, Any]:
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
