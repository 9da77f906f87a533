"""
The mixed set: orders of several vendors and countries, rendered into unique frames.

A message is a template: its control id, patient, visit and order numbers are slots. `render`
fills them before the clock starts. Senders (MSH-3, MSH-4) take turns.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tests.acceptance.orders import order
from tests.corpus import REAL_MESSAGES

ROOT = Path(__file__).resolve().parents[2]
RICH = ROOT / "sample_messages" / "rich"

VT, FS_CR = b"\x0b", b"\x1c\r"
SENDERS = (
    (b"RISA", b"NORTH"),
    (b"Epic^1.2.840.114350.1.13.145.2.7.2.695071^ISO", b"Centracare^centracare.com^DNS"),
    (b"HISB", b"SOUTH"),
    (b"ORBIS", b"KLINIKUM^2.16.840.1.113883.2.6^ISO"),
    (b"CPOE", b"EAST"),
)
IGNORED = frozenset(
    {
        "Aidbox-multi-obr", "Aidbox-non-standard-orc5", "Aidbox-with-insurance", "CDCgov-hl7_2.7",
        "CDCgov-orm_o01-full", "CDCgov-sample_orm_20230809-001", "cosyte-orm-o01-2",
        "microsoft-OMG-O19-01", "microsoft-ORM-O01-04", "microsoft-ORM-O01-05",
        "rethinkhealth-orm-o01-order",
    }
)  # fmt: skip
"""Orders of laboratories and status messages: accepted by the default definition, not applied."""

REFUSED = frozenset({"nextgenhealthcare-test-hl7-1636-output"})
"""An order message without an order."""

_DOUBLE_BYTES = re.compile(rb"\x1b\$[@B].*?\x1b\([BJ]", re.DOTALL)
_SLOT = re.compile(rb"\x00(\d+)\x00")
_ACCESSIONS = ("IPC-1", "OBR-18", "OBR-3", "ORC-3", "OBR-20", "OBR-2", "ORC-2")
_LETTERS = {
    "IPC-1": b"A", "OBR-18": b"A", "OBR-3": b"F", "ORC-3": b"F", "OBR-20": b"R",
    "OBR-2": b"P", "ORC-2": b"P",
}  # fmt: skip

_STRINGS = {(b"OBR", 18), (b"OBR", 20)}
"""Fields without components; the orders mapping takes the whole field."""

_NOTE, _SHORTEST_NOTE = 200, 9
_PADDING = b"Padding of equal length. " * 16

Frame = tuple[bytes, bytes]
"""Control id, and the framed message."""


@dataclass(frozen=True)
class Template:
    """One message of the set; `%(n)d` in `text` and `accessions` is the number of a frame."""

    name: str
    text: bytes
    accessions: Sequence[bytes]

    def frame(self, number: int) -> Frame:
        app, facility = SENDERS[number % len(SENDERS)]
        body = self.text % {b"n": number, b"app": app, b"facility": facility}
        return b"C%d" % number, VT + body + FS_CR

    def orders(self, number: int) -> list[str]:
        return [(accession % {b"n": number}).decode("ascii") for accession in self.accessions]

    @cached_property
    def size(self) -> int:
        return len(self.frame(1_000_000)[1])

    def padded(self, size: int) -> "Template":
        """Return the template with notes after its last segment, up to a size in bytes."""
        missing, lines = size - self.size, list[bytes]()
        while missing >= _SHORTEST_NOTE:
            length = missing if missing < 2 * _NOTE else _NOTE
            lines.append((b"NTE|9||" + _PADDING)[: length - 1] + b"\r")
            missing -= length
        return replace(self, text=self.text + b"".join(lines))


def mixed() -> list[Template]:
    return [*corpus(), *rich(), plain()]


def plain() -> Template:
    """Return the plain order: ASCII, eleven answers of equal form, about 1.4 kB."""
    extra = "".join(
        f"OBX|{n}|ST|{n}^Question {n} asked at order entry^L||An answer as people type it||||||O\r"
        for n in range(1, 12)
    )
    return template("plain", order(1, extra=extra))


def rich() -> list[Template]:
    return [template(file.stem, file.read_bytes()) for file in sorted(RICH.glob("*.hl7"))]


def corpus() -> list[Template]:
    """Return every order of the corpus that the default definition accepts."""
    files = REAL_MESSAGES
    read = [(file.stem, _lines(file.read_bytes())) for file in files if file.stem not in REFUSED]
    return [
        template(name, raw, applied=name not in IGNORED)
        for name, raw in read
        if re.match(rb"MSH\|.{4}\|([^|]*\|){6}(ORM\^O01|OMG\^O19|OMI\^O23)", raw)
    ]


def render(templates: Sequence[Template], first: int, count: int) -> list[Frame]:
    """Render frames `first` to `first + count - 1`, the templates in turn."""
    return [templates[n % len(templates)].frame(n) for n in range(first, first + count)]


def orders(templates: Sequence[Template], numbers: Iterable[int]) -> list[str]:
    return [item for n in numbers for item in templates[n % len(templates)].orders(n)]


def template(name: str, raw: bytes, *, applied: bool = True) -> Template:
    """
    Replace the numbers of a message by slots.

    MSH-15 and MSH-16 are emptied, because the peers only support the original mode.
    """
    kept: list[bytes] = []

    def mask(found: "re.Match[bytes]") -> bytes:
        kept.append(found[0])
        return b"\x00%d\x00" % (len(kept) - 1)

    masked = _DOUBLE_BYTES.sub(mask, raw.replace(b"%", b"%%"))
    segments = [line.split(b"|") for line in masked.split(b"\r") if line]
    accessions = _fill(segments)
    text = b"".join(b"|".join(segment) + b"\r" for segment in segments)
    text = _SLOT.sub(lambda found: kept[int(found[1])], text)
    return Template(name, text, accessions if applied else [])


def _fill(segments: list[list[bytes]]) -> list[bytes]:
    header = segments[0]
    header[2], header[3], header[9] = b"%(app)b", b"%(facility)b", b"C%(n)d"
    header[14:16] = [b""] * len(header[14:16])
    group, found = 0, list[dict[str, bytes]]()
    for segment in segments[1:]:
        match segment[0]:
            case b"PID":
                _patient(segment)
            case b"PV1":
                _component(segment, 19, b"V%(n)d")
            case b"ORC":
                group += 1
                found.append({})
                _component(segment, 4, b"G%(n)d")
                _numbers(segment, group, found[-1])
            case b"OBR" | b"IPC" if found:
                _numbers(segment, group, found[-1])
                if segment[0] == b"IPC":
                    _component(segment, 3, b"1.2.826.0.1.3680043.10.%%(n)d.%d" % group)
            case b"ZDS":
                _component(segment, 1, b"1.2.826.0.1.3680043.10.%%(n)d.%d" % group)
    return [next(item[name] for name in _ACCESSIONS if name in item) for item in found if item]


def _patient(segment: list[bytes]) -> None:
    """Number the patient in the first identifier and in the one of type MR."""
    if len(segment) > 3:
        repetitions = [part.split(b"^") for part in segment[3].split(b"~")]
        for position, repetition in enumerate(repetitions):
            if position == 0 or repetition[4:5] == [b"MR"]:
                repetition[0] = b"M%(n)d"
        segment[3] = b"~".join(b"^".join(repetition) for repetition in repetitions)
    _component(segment, 18, b"V%(n)d")


def _numbers(segment: list[bytes], group: int, found: dict[str, bytes]) -> None:
    name = segment[0].decode("ascii")
    for field, letter in _LETTERS.items():
        place, _, position = field.partition("-")
        if place == name and _component(segment, int(position), letter + b"%%(n)d.%d" % group):
            found[field] = letter + b"%%(n)d.%d" % group


def _component(segment: list[bytes], position: int, value: bytes) -> bool:
    """Replace the first component of a field; return whether it had a value."""
    if len(segment) <= position or not segment[position]:
        return False
    first, caret, rest = segment[position].partition(b"^")
    if not first:
        return False
    if (segment[0], position) in _STRINGS:
        caret = rest = b""
    segment[position] = value + caret + rest
    return True


def _lines(raw: bytes) -> bytes:
    """Return a stored message as it is sent: without a byte order mark, segments ending in CR."""
    raw = raw.removeprefix(b"\xef\xbb\xbf").strip(VT + FS_CR)
    return re.sub(rb"[\r\n]+", b"\r", raw)
