"""
Data of the demonstration: the sample messages, their senders, and the texts of the reports.

Patients and accession numbers are those of `sample_messages/`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridge.demo.narration import Narrator, SamplesMissing
from bridge.demo.participants import Hospital, Order, Radiologist, System

SAMPLES: Final = Path(__file__).parents[2] / "sample_messages"

RIS_A, HIS_B = "RIS A", "HIS B"

Groups = frozenset[tuple[str, ...]]
"""Accession numbers, sorted and grouped by report."""


@dataclass(frozen=True, slots=True)
class SampleMessage:
    """A message to send: its file, sender, description, and expected acknowledgment."""

    file: str
    system: str
    description: str
    code: str = "AA"
    place: str = ""

    def read(self) -> bytes:
        """Return the message. Raises SamplesMissing."""
        path = SAMPLES / self.file
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise SamplesMissing(path) from None


NEW: Final = (
    SampleMessage("orders/01-ris-a-orm-new.hl7", RIS_A, "new: CT chest, Müller Jürgen"),
    SampleMessage("orders/02-ris-a-orm-two-groups.hl7", RIS_A, "new: MR of both knees, one group"),
    SampleMessage("orders/03-ris-a-omg-new.hl7", RIS_A, "new: US abdomen, Okafor Ada"),
    SampleMessage("orders/04-ris-a-omi-new.hl7", RIS_A, "new: MR brain, Wang Xiaoming"),
    SampleMessage(
        "orders/12-ris-a-orm-same-study.hl7", RIS_A, "new: CT abdomen, same study as the chest"
    ),
    SampleMessage("orders/05-his-b-orm-printset-1.hl7", HIS_B, "new: CT neck, Höß Käthe, printset"),
    SampleMessage("orders/06-his-b-orm-printset-2.hl7", HIS_B, "new: CT chest, the same printset"),
    SampleMessage("orders/07-his-b-orm-new.hl7", HIS_B, "new: X-ray chest, Bär Jan"),
)
CHANGED: Final = (
    SampleMessage(
        "orders/08-ris-a-orm-change.hl7", RIS_A, "change: Müller's chest without contrast"
    ),
    SampleMessage("orders/11-ris-a-omi-examined.hl7", RIS_A, "change: Wang is examined"),
    SampleMessage("orders/09-ris-a-orm-cancel.hl7", RIS_A, "cancel: Okafor did not come"),
    SampleMessage("orders/10-his-b-orm-discontinue.hl7", HIS_B, "discontinue: Bär's X-ray"),
    SampleMessage("orders/14-ris-a-adt-update.hl7", RIS_A, "patient: Kim is called Kim-Park now"),
    SampleMessage("orders/15-his-b-adt-merge.hl7", HIS_B, "patient: two numbers of Höß become one"),
)
AGAIN: Final = SampleMessage(NEW[0].file, RIS_A, "again: CT chest, Müller Jürgen")
REFUSED: Final = (
    SampleMessage(
        "invalid/no-order-number.hl7", RIS_A, "an order without a number", "AE", "OBR-18"
    ),
    SampleMessage("invalid/no-patient.hl7", RIS_A, "an order without a patient", "AE", "PID-3.1"),
    SampleMessage("invalid/not-hl7.hl7", HIS_B, "something that is no HL7", "AR", "MSH"),
)

TO_TRY: Final = SampleMessage("quirks/latin-1-undeclared.hl7", HIS_B, "an order without MSH-18")

FINAL_GROUPS: Final[Groups] = frozenset(
    {("ACC7001", "ACC7006"), ("ACC7002", "ACC7003"), ("ACC7005",), ("B81001", "B81002")}
)
"""The reports on the worklist at the end."""
CANCELLED_GROUPS: Final[Groups] = frozenset({("ACC7004",), ("B81003",)})
"""Reports that are cancelled."""

NAMES: Final = {
    "ACC7001": "Müller^Jürgen^K^Dr.",
    "ACC7002": "Kim-Park^Soo-Jin",
    "ACC7005": "Wang^Xiaoming",
    "B81001": "Höß^Käthe",
}

MUELLER, KIM = Order("A10001", "ACC7001"), Order("A10002", "ACC7002")
WANG, HOESS = Order("A10003", "ACC7005"), Order("0020001", "B81001")

MUELLER_TEXT: Final = (
    "Findings",
    "Chest: no nodule, no effusion. Heart size normal.",
    "Abdomen: simple cyst of the left kidney, 12 mm. Otherwise unremarkable.",
    "",
    "Impression",
    "No cause of the cough found.",
)
MUELLER_ADDENDUM: Final = "Compared with the study of 2024: the cyst is unchanged."
WANG_FIRST: Final = ("No haemorrhage. No mass.", "Impression: normal MR of the brian.")
WANG_SECOND: Final = ("No haemorrhage. No mass.", "Impression: normal MR of the brain.")
HOESS_TEXT: Final = ("Hals und Thorax: keine vergrößerten Lymphknoten.",)
KIM_TEXT: Final = ("Right knee: small joint effusion.",)


@dataclass(slots=True)
class DemoStatistics:
    """
    Counts for the summary.

    `orders`, `patients` and `senders` count each accepted message once. `replies` has the first
    acknowledgment of each message. `seconds` has the times from a release to its result at the RIS.
    """

    orders: Counter[str] = field(default_factory=Counter)
    patients: Counter[str] = field(default_factory=Counter)
    senders: Counter[str] = field(default_factory=Counter)
    replies: dict[bytes, bytes] = field(default_factory=dict)
    acks: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DemoContext:
    """The participants of the demonstration."""

    narrator: Narrator
    hospital: Hospital
    systems: Mapping[str, System]
    radiologist: Radiologist
    statistics: DemoStatistics = field(default_factory=DemoStatistics)
