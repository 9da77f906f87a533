"""
The traffic of a hospital: orders at a rate, changes of each order, and signed reports.

Each sender has its own patients and repeats a message until it is acknowledged. The title of an
order is a growing counter, so that the worklist must show the last one.
"""

import threading
import time
from contextlib import suppress

from typing_extensions import override

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sender, verdict

CHANGES = 4  # messages about each order: a new one, then changes
AMENDED = 3  # every so many reports get an addendum


class OrderSender(threading.Thread):
    """Sends orders on one connection, `rate` a second, until `ending` is set."""

    def __init__(self, port: int, number: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.port, self.first, self.rate = port, number * 10_000_000, rate
        self.sent = 0
        self.latest: dict[str, int] = {}
        self.ending = threading.Event()
        self._sender: Sender | None = None

    @override
    def run(self) -> None:
        """Send; after an outage catch up, as a sender's queue does."""
        began = time.monotonic()
        while not self.ending.is_set():
            if self.sent > (time.monotonic() - began) * self.rate:
                time.sleep(1 / self.rate / 2)
                continue
            self._one()
        if self._sender is not None:
            self._sender.close()

    def _one(self) -> None:
        number = self.first + self.sent // CHANGES
        step = self.sent % CHANGES
        name, control = f"S{number}-{step}", "XO" if step else "NW"
        message = order(number, control=control, title=f"STEP {step}", msh10=name)
        while not self._accepted(name, message):
            time.sleep(0.1)
        self.latest[f"A{number}"] = step
        self.sent += 1

    def _accepted(self, name: str, message: bytes) -> bool:
        try:
            self._sender = self._sender or Sender(self.port, timeout=10)
            code, about = verdict(self._sender.ask(message))
            if about not in {name, ""}:
                raise SystemExit(f"another message's acknowledgment: {code}")
            if code == "AA":
                return True
        except (OSError, AssertionError):
            pass
        if self._sender is not None:
            self._sender.close()
        self._sender = None
        return False


class Reader(threading.Thread):
    """A radiologist who signs reports at an available node and adds an addendum to each third."""

    def __init__(self, nodes: list[House], every: float) -> None:
        super().__init__(daemon=True)
        self.nodes, self.every = nodes, every
        self.begun: list[str] = []
        self.signed: list[str] = []
        self.amended: list[str] = []
        """Reports whose addendum was confirmed, after a single attempt."""
        self.ending = threading.Event()

    @override
    def run(self) -> None:
        """Sign reports one after the other; retry each at the next node until it is signed."""
        number = 0
        while not self.ending.wait(self.every):
            accession, turn = f"R{number}", 0
            self.begun.append(accession)
            while not self._signed(accession, self.nodes[turn % len(self.nodes)]):
                turn += 1
                if self.ending.wait(0.3):
                    return
            self.signed.append(accession)
            if number % AMENDED == 0:
                self._amend(accession, self.nodes[turn % len(self.nodes)])
            number += 1

    def _amend(self, accession: str, node: House) -> None:
        with suppress(Exception):  # as below
            addendum(node, f"MR{accession}", accession, f"More on {accession}.")
            self.amended.append(accession)

    def _signed(self, accession: str, node: House) -> bool:
        """Sign unless signed already: an earlier attempt may have succeeded without a response."""
        identity = {"SiteID": "SITE1", "PatientMRN": f"MR{accession}", "Accession": accession}
        try:
            known = node.post("/api/report/status", {"clinicalInfo": [identity]}, expect=None)
            if not isinstance(known, list) or all(row["status"] != "Final" for row in known):
                node.draft(f"MR{accession}", accession, f"Nothing found in {accession}.")
                node.sign(f"MR{accession}", accession)
        except Exception:  # noqa: BLE001  # any error of a failing node
            return False
        return True
