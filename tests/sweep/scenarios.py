"""
The main scenarios of the product. The sweep runs each one once for every fault.

A scenario drives a running installation and records what it saw. It may fail at any point; it never
assumes that a call succeeded.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from tests.acceptance.house import House
from tests.acceptance.orders import adt, order
from tests.acceptance.wire import Sender, verdict
from tests.history import Event, Kind

FAILURES = (OSError, AssertionError, httpx.HTTPError, KeyError, ValueError)
"""What a caller of a failing service sees: no answer, a refusal, or an answer without a body."""


@dataclass
class Seen:
    """What the callers saw."""

    events: list[Event] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    """Messages without a positive acknowledgment, which their sender repeats."""
    merged: dict[str, str] = field(default_factory=dict)
    """Patients by the accession of their order, after an acknowledged merge."""

    def see(self, kind: Kind, accession: str, step: int = 1) -> None:
        """Record an event."""
        self.events.append(Event(kind, accession, step))


def send(house: House, seen: Seen, message: bytes, accession: str = "", step: int = 1) -> bool:
    """Send a message; tell whether it was acknowledged positively."""
    if accession:
        seen.see(Kind.SENT, accession, step)
    code = ""
    with suppress(*FAILURES), Sender(house.mllp_port, timeout=10) as sender:
        code, _ = verdict(sender.ask(message))
    if code != "AA":
        seen.refused.append(message)
    elif accession:
        seen.see(Kind.ACKNOWLEDGED, accession, step)
    return code == "AA"


def run_order(house: House, seen: Seen, number: int) -> None:
    """An order."""
    send(house, seen, order(number), f"A{number}")


def run_retransmission(house: House, seen: Seen, number: int) -> None:
    """An order that its sender repeats."""
    for _ in range(2):
        send(house, seen, order(number), f"A{number}")


def run_change(house: House, seen: Seen, number: int) -> None:
    """An order and a change of it."""
    first = send(house, seen, order(number, title="STEP 1"), f"A{number}", 1)
    if first:
        message = order(number, control="XO", title="STEP 2", msh10=f"X{number}")
        send(house, seen, message, f"A{number}", 2)


def run_merge(house: House, seen: Seen, number: int) -> None:
    """An order whose patient is merged into another one."""
    if send(house, seen, order(number), f"A{number}"):
        message = adt("A40", 1_000_000 + number, f"N{number}", "DOE^JANE", f"M{number}")
        if send(house, seen, message):
            seen.merged[f"A{number}"] = f"N{number}"


def run_signature(house: House, seen: Seen, number: int) -> None:
    """A report that is written and signed."""
    with suppress(*FAILURES):
        seen.see(Kind.SENT, f"A{number}")
        house.draft(f"M{number}", f"A{number}", f"Read A{number}.")
        seen.see(Kind.ACKNOWLEDGED, f"A{number}")
        house.sign(f"M{number}", f"A{number}")
        seen.see(Kind.RELEASED, f"A{number}")


def run_activation(house: House, seen: Seen, number: int) -> None:
    """A mapping that is changed and activated."""
    with suppress(*FAILURES):
        file = house.home / "mappings" / "orders.yaml"
        lines = [
            line for line in file.read_text("utf-8").splitlines() if not line.startswith("about:")
        ]
        file.write_text("\n".join([*lines, f"about: version {number}"]) + "\n", "utf-8")
        house.bridge("mapping", "activate", expect=None)
    run_order(house, seen, number)


def run_prune(house: House, seen: Seen, number: int) -> None:
    """Old messages are removed while orders come in."""
    run_order(house, seen, number)
    with suppress(*FAILURES):
        house.bridge("prune", "--older-than", "1h", expect=None)


def run_rotation(house: House, seen: Seen, number: int) -> None:
    """The keys of links are rotated, and a link is made."""
    with suppress(*FAILURES):
        house.bridge("rotate-keys", expect=None)
    run_signature(house, seen, number)


SCENARIOS: dict[str, Callable[[House, Seen, int], None]] = {
    "order": run_order,
    "retransmission": run_retransmission,
    "change": run_change,
    "merge": run_merge,
    "signature": run_signature,
    "activation": run_activation,
    "prune": run_prune,
    "rotation": run_rotation,
}
