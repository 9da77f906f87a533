"""
The main scenarios of the product. The sweep runs each one once for every fault.

A scenario uses a running installation and records its observations. It may fail at any point; it
never assumes that a call succeeded.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from tests.acceptance.house import House
from tests.acceptance.orders import adt, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sender, verdict
from tests.history import Event, Kind

FAILURES = (OSError, AssertionError, httpx.HTTPError, KeyError, ValueError)
"""The errors of a caller of a failing service: no response, a refusal, or an empty response."""


@dataclass
class Observations:
    events: list[Event] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    """Messages without a positive acknowledgment, which their sender repeats."""
    merged: dict[str, str] = field(default_factory=dict)
    """Patients by the accession of their order, after an acknowledged merge."""

    def record(self, kind: Kind, accession: str, step: int = 1) -> None:
        self.events.append(Event(kind, accession, step))


def send(
    house: House, observed: Observations, message: bytes, accession: str = "", step: int = 1
) -> bool:
    if accession:
        observed.record(Kind.SENT, accession, step)
    code = ""
    with suppress(*FAILURES), Sender(house.mllp_port, timeout=10) as sender:
        code, _ = verdict(sender.ask(message))
    if code != "AA":
        observed.refused.append(message)
    elif accession:
        observed.record(Kind.ACKNOWLEDGED, accession, step)
    return code == "AA"


def run_order(house: House, observed: Observations, number: int) -> None:
    send(house, observed, order(number), f"A{number}")


def run_retransmission(house: House, observed: Observations, number: int) -> None:
    for _ in range(2):
        send(house, observed, order(number), f"A{number}")


def run_change(house: House, observed: Observations, number: int) -> None:
    first = send(house, observed, order(number, title="STEP 1"), f"A{number}", 1)
    if first:
        message = order(number, control="XO", title="STEP 2", msh10=f"X{number}")
        send(house, observed, message, f"A{number}", 2)


def run_merge(house: House, observed: Observations, number: int) -> None:
    """An order whose patient is merged into another one."""
    if send(house, observed, order(number), f"A{number}"):
        message = adt("A40", 1_000_000 + number, f"N{number}", "DOE^JANE", f"M{number}")
        if send(house, observed, message):
            observed.merged[f"A{number}"] = f"N{number}"


def run_signature(house: House, observed: Observations, number: int) -> None:
    with suppress(*FAILURES):
        observed.record(Kind.SENT, f"A{number}")
        house.draft(f"M{number}", f"A{number}", f"Read A{number}.")
        observed.record(Kind.ACKNOWLEDGED, f"A{number}")
        house.sign(f"M{number}", f"A{number}")
        observed.record(Kind.RELEASED, f"A{number}")


def run_addendum(house: House, observed: Observations, number: int) -> None:
    run_signature(house, observed, number)
    with suppress(*FAILURES):
        addendum(house, f"M{number}", f"A{number}", f"More about A{number}.")
        observed.record(Kind.RELEASED, f"A{number}", 2)


def run_activation(house: House, observed: Observations, number: int) -> None:
    with suppress(*FAILURES):
        file = house.home / "mappings" / "orders.yaml"
        lines = [
            line for line in file.read_text("utf-8").splitlines() if not line.startswith("about:")
        ]
        file.write_text("\n".join([*lines, f"about: version {number}"]) + "\n", "utf-8")
        house.bridge("mapping", "activate", expect=None)
    run_order(house, observed, number)


def run_prune(house: House, observed: Observations, number: int) -> None:
    """Old messages are removed while an order arrives."""
    run_order(house, observed, number)
    with suppress(*FAILURES):
        house.bridge("prune", "--older-than", "1h", expect=None)


def run_rotation(house: House, observed: Observations, number: int) -> None:
    with suppress(*FAILURES):
        house.bridge("rotate-keys", expect=None)
    run_signature(house, observed, number)


SCENARIOS: dict[str, Callable[[House, Observations, int], None]] = {
    "order": run_order,
    "retransmission": run_retransmission,
    "change": run_change,
    "merge": run_merge,
    "signature": run_signature,
    "addendum": run_addendum,
    "activation": run_activation,
    "prune": run_prune,
    "rotation": run_rotation,
}
