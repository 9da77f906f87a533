"""
Mapping of orders of 1.4 kB beside a compiled extraction of 20 fields: CPU per order and ratio.

No two messages are equal. The extraction is code generated for its paths: one decode, the required
segments, repetitions, components and escapes.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mappings.compiler import DEFINITIONS, compile_sources, load, read_folder
from mappings.hl7.escapes import unescape
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.path import Path as Place
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from tests.benchmarks.tables import Options, show

FLOOR = "extraction of 20 fields"
CHARSET, SITE = "utf-8", "SITE1"
MESSAGES = 2000
SLOW = 4  # slow work gets every fourth message
DEFAULTS = ListenerDefaults(SITE, "Europe/Zurich", datetime(2026, 11, 21, tzinfo=UTC))
PLACES = [
    *("MSH-3", "MSH-4", "MSH-10", "PID-3.1", "PID-3.4", "PID-5.1", "PID-5.2", "PID-7", "PID-8"),
    *("PV1-2", "PV1-3.1", "ORC-1", "ORC-2.1", "ORC-3.1", "OBR-4.1", "OBR-4.2", "OBR-7", "OBR-18"),
    *("OBR-24", "ZDS-1.1"),
]
MORE_RULES = 10

Work = Callable[[bytes], object]


def order(number: int) -> bytes:
    """An ORM^O01 of nine segments with accents, repetitions and an escape."""
    n, day = number, f"{number % 12 + 1:02d}{number % 28 + 1:02d}"
    return (
        f"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102{n % 24:02d}0405||ORM^O01^ORM_O01|C{n}|P|2.5.1"
        "||||||UNICODE UTF-8\r"
        f"PID|1||M{n}^^^HOSP^MR~9{n}^^^NAT^NI||MÜLLER-{n}^JÜRGEN^K||19{40 + n % 60}{day}|M"
        f"|||Rue du Général {n}^^Genève^GE^1200^CH||+41 22 555 01 {n % 100:02d}\r"
        f"PV1|1|O|CT^12^3^HOSP||||1234^ROE^RICHARD^^^DR|5678^WELBY^ANN|||||||||||V{n}\r"
        f"ORC|NW|P{n}|F{n}|G{n}|SC||1^^^2026{day}0300^^R||2026{day}0230|77^KEYER^KIM\r"
        f"OBR|1|P{n}|F{n}|71250^CT CHEST W/O CONTRAST^L||R|2026{day}03{n % 60:02d}00|||||||||"
        f"1234^ROE^RICHARD^^^DR||A{n}||||||CT|||1^^^2026{day}0300^^R||||R07.9^Chest pain^I10\r"
        f"NTE|1|P|Hard of hearing; speaks French \\T\\ German. Interpreter booked for room {n}.\r"
        f"NTE|2|L|{'Reacted to iodinated contrast in 2019; premedication was given since. ' * 9}\r"
        "DG1|1||R07.9^Chest pain, unspecified^I10||20260101|W\r"
        f"ZDS|1.2.826.0.1.3680043.10.{n}^RIS^Application^DICOM\r"
    ).encode()


def extraction(places: Sequence[str]) -> Work:
    """Generate and compile a function that reads these fields."""
    paths = [Place.parse(each) for each in places]
    wanted: dict[str, int] = {}
    for path in paths:
        wanted[path.segment] = max(wanted.get(path.segment, 0), path.field)
    lines = ["def extract(raw):", " text = raw.decode('utf-8')", " rows = {}"]
    lines += [" for line in text.split('\\r'): rows.setdefault(line[:3], line)"]
    for segment, most in wanted.items():
        lines.append(f" {segment} = rows.get('{segment}', '').split('|', {most + 1})")
    for number, path in enumerate(paths):
        at = path.field - (path.segment == "MSH")
        lines.append(f" v{number} = {path.segment}[{at}] if len({path.segment}) > {at} else ''")
        lines.append(f" if '~' in v{number}: v{number} = v{number}.partition('~')[0]")
        if path.component:
            parts = f"v{number}.split('^', {path.component})"
            lines.append(f" p = {parts}")
            take = f"p[{path.component - 1}] if len(p) >= {path.component} else ''"
            lines.append(f" v{number} = {take}")
        lines.append(f" if '\\\\' in v{number}: v{number} = unescape(v{number})")
        lines.append(f" v{number} = v{number}.strip()")
    lines.append(f" return ({', '.join(f'v{number}' for number in range(len(paths)))})")
    space: dict[str, object] = {"unescape": unescape}
    exec("\n".join(lines), space)  # noqa: S102  # generated above
    found: Work = space["extract"]  # type: ignore[assignment]  # defined by exec
    return found


def lazily(raw: bytes) -> object:
    """Read the same fields through the message model."""
    message = Message.parse(raw)
    return tuple([message.value(each).strip() for each in PLACES])


def shipped() -> InboundMapping:
    found = load(DEFINITIONS, "orders")
    assert isinstance(found, InboundMapping)
    return found


def with_more_rules() -> InboundMapping:
    """Return the shipped definition with ten times as many rules that do not match."""
    places = ["PID-2", "PID-40", "OBR-13", "OBR-60", "ORC-20", "IN1-2.1", "ZAB-3", "{all: OBX-5}"]
    rules = [
        f"X{number}: [{', '.join(places[number % 8 :])}, ZZ{number % 10}-{number % 30 + 1}]"
        for number in range(47 * MORE_RULES)
    ]
    values = "".join(f"\n    {each}" for each in rules)
    text = f"include: orders.yaml\nmetadata:\n  values:{values}\n"
    sources = {**read_folder(DEFINITIONS), "mine.yaml": text}
    found = compile_sources(sources, "mine")
    assert isinstance(found, InboundMapping)
    return found


def mapped(mapping: InboundMapping) -> Work:
    """Return the work of the bridge from bytes to events."""
    return lambda raw: mapping.apply(Message.parse(raw, fallback=CHARSET), DEFAULTS)


def check(mapping: InboundMapping) -> Work:
    """Return the work on an order before its ACK: header, and patient."""

    def checked(raw: bytes) -> object:
        header = peek(raw)
        assert mapping.accepts(header)
        message = Message.parse(raw, fallback=CHARSET, head=header)
        found = mapping.pre_check(message, DEFAULTS)
        assert found.lanes
        return found.lanes

    return checked


def contestants() -> dict[str, tuple[Work, int]]:
    """Return the measured functions, each with its share of the messages."""
    mapping, long = shipped(), with_more_rules()
    extract = extraction(PLACES)
    assert extract(order(1)) == lazily(order(1))
    return {
        FLOOR: (extract, 1),
        "lazy split, 20 fields": (lazily, SLOW),
        "check before the ACK": (check(mapping), 1),
        "mapping": (mapped(mapping), SLOW),
        "  10 x the rules": (mapped(long), 4 * SLOW),
    }


def _spent(work: Work, messages: Sequence[bytes]) -> float:
    """Return the CPU microseconds per message, without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        for raw in messages:
            work(raw)
        return (time.process_time() - before) / len(messages) * 1e6
    finally:
        gc.enable()


def main(_folder: Path, options: Options) -> None:
    """Measure all functions round by round and print medians."""
    messages = [order(number) for number in range(options.count or MESSAGES)]
    runners, figures = contestants(), dict[str, list[float]]()
    for _ in range(max(options.rounds, 5)):
        for name, (work, share) in runners.items():
            figures.setdefault(name, []).append(_spent(work, messages[::share]))
    ratios = {
        name: statistics.median(a / b for a, b in zip(each, figures[FLOOR], strict=True))
        for name, each in figures.items()
    }
    size = f"{len(messages[-1]):,} bytes"
    rows = [
        (name, size, f"{statistics.median(each):.1f}", f"{ratios[name]:.2f}")
        for name, each in figures.items()
    ]
    columns = ("work", "message", "CPU µs", "/ extraction")
    show(f"mapping, medians of {max(options.rounds, 5)} interleaved rounds", columns, rows)
