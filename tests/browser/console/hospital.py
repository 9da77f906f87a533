"""An installation with traffic of every kind, for the tests of the tasks and of all screens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, sink
from tests.browser.console_client import ConsoleClient
from tests.browser.signing_in import PASSWORD
from tests.enrolment import open_link
from tests.eventually import eventually

ANALYST, VIEWER = "ines@site1.test", "vera@site1.test"
ROLES = {
    ANALYST: ("--role", "system-administrator", "--bodies"),
    VIEWER: ("--role", "viewer"),
}

UNKNOWN_PROCEDURE = b"ERR||OBR^1^4|103^Table value not found^HL70357|E||||Unknown code 71250\r"
NAMES = ("ROSSI^ANNA", "MÜLLER^JÜRGEN", "NOVÁKOVÁ^ZOË", "O'BRIEN^SEAN", "DE LA CRUZ^MARIA")
TITLES = ("CT CHEST", "CT HEAD WITHOUT CONTRAST", "CT ABDOMEN AND PELVIS WITH CONTRAST")

REFUSED_ACCESSION = "A8001"
"""Signed; `ris` has its result, and `his` refuses it."""
WITHOUT_MODALITY = ("A8031", "A8032", "A8033")
"""OBR-24 has a code without an entry, so that the modality is empty."""


def refuse(message: bytes, attempts: int) -> bytes:
    """Answer as a receiver that does not know the procedure."""
    return VT + ack(message, b"AE") + UNKNOWN_PROCEDURE + FS_CR


@dataclass
class Hospital(ConsoleClient):
    """The installation, `ris` that accepts each result, and `his` that refuses each."""

    ris: Sink
    his: Sink

    def rows(self, listed: str, **filters: object) -> list[dict[str, object]]:
        """Return the rows of a list once there are any."""

        def found() -> list[dict[str, object]]:
            answer = self.call(ANALYST, "POST", f"lists/{listed}", {"filters": filters})
            rows: list[dict[str, object]] = answer.json()["rows"]
            return rows

        return eventually(found)

    def is_counted(self) -> bool:
        """True once the overview shows the traffic, and that `his` refuses it."""
        overview = self.call(ANALYST, "GET", "overview").json()
        totals = [sum(channel["spark"]) for channel in overview["channels"]]
        return bool(overview["needs"]) and sum(totals) > 30


@contextmanager
def opened(folder: Path, *, traffic: bool = True) -> Iterator[Hospital]:
    """A hospital with its traffic; or one that waits for its first message."""
    with sink() as ris, sink(refuse) as his:
        house = House(folder / "home")
        stray = 0
        if traffic:
            house.destination("ris", ris.port)
            house.destination("his", his.port, retry_first="1h", retry_max="1h")
            stray = house.listener("stray", site="SITE9")
        house.make()
        house.start()
        try:
            _add_people(house)
            if traffic:
                _send_orders(house, stray)
                _sign_reports(house, ris, his)
            hospital = Hospital(house, ris, his)
            if traffic:
                eventually(hospital.is_counted)
            yield hospital
        finally:
            house.stop()
            house.kill()


def _add_people(house: House) -> None:
    for email, role in ROLES.items():
        name = email.partition("@")[0].title()
        house.bridge("user", "add", email, "--name", name, "--site", "SITE1")
        printed = house.bridge("console", "grant", email, *role)
        open_link(printed.split()[-1], house.url, PASSWORD)


def _send_orders(house: House, stray: int) -> None:
    with Sender(house.mllp_port) as sender:
        for number in range(8001, 8031):
            name, title = NAMES[number % len(NAMES)], TITLES[number % len(TITLES)]
            sender.ask(order(number, name=name, title=title))
        for accession in WITHOUT_MODALITY:
            number = int(accession[1:])
            sender.ask(order(number, name="ROSSI^ANNA").replace(b"||||||CT|||", b"||||||24|||"))
        sender.ask(order(8040).replace(b"|M8040^", b"|^"))
    with Sender(stray) as sender:
        for number in (8050, 8051):
            sender.ask(order(number))
    house.settle()


def _sign_reports(house: House, ris: Sink, his: Sink) -> None:
    for number in range(8001, 8005):
        house.draft(f"M{number}", f"A{number}", "No acute finding.")
        house.sign(f"M{number}", f"A{number}")
    house.draft("M8006", "A8006", "Begun.")
    with Sender(house.mllp_port) as sender:
        name = NAMES[8006 % len(NAMES)]
        sender.ask(order(8006, name=name, control="CA", msh10="C8006CA"))
    house.settle()
    ris.wait(4)
    his.wait(1)
