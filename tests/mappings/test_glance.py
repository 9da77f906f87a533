"""The short check says the same as the full one, or nothing; and it does say something."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mappings.compiler import DEFINITIONS, load
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.inbound import InboundMapping
from mappings.scope import Defaults
from tests.acceptance.orders import group_of, order
from tests.mappings.language import overlaid

CORPUS = sorted((Path(__file__).parents[3] / "shared" / "corpus").glob("*.hl7"))
DEFAULTS = Defaults("SITE1", "UTC", datetime(2026, 11, 21, tzinfo=UTC))
PIECES = [
    b"|",
    b"^",
    b"~",
    b"\\",
    b"&",
    b'""',
    b" ",
    b"\r",
    b"\n",
    b"7",
    b"x",
    b"\xc3\xa9",
    b"\x1b",
    b"",
]


def orders() -> InboundMapping:
    """The default definition, that has seen nothing yet."""
    found = load(DEFINITIONS, "orders")
    assert isinstance(found, InboundMapping)
    return found


def full(mapping: InboundMapping, raw: bytes) -> tuple[str, ...]:
    """The lanes of a message without any issue; nothing for any other."""
    try:
        found = mapping.examine(Message.parse(raw), DEFAULTS)
    except Refusal:
        return ()
    return () if found.issues else found.lanes


def glance(mapping: InboundMapping, raw: bytes) -> str:
    """What is said at a glance of a message that is this mapping's by its header."""
    try:
        header = peek(raw)
    except Refusal:
        return ""
    if not mapping.accepts(header) or mapping.acceptance.refusals(header):
        return ""
    return mapping.glance(raw, header, DEFAULTS.site)


LEARNED = orders()
SEEN = order(1, extra="NTE|1||Note\rZXX|1\r")
for _ in range(2):
    full(LEARNED, SEEN)


def test_what_was_seen_is_known() -> None:
    """A third message of the form of two others; and nothing before: most forms come once."""
    mapping = orders()
    assert glance(mapping, order(2)) == ""
    for number in (1, 2):
        assert full(mapping, order(number)) == (f"SITE1|M{number}",)
        assert bool(glance(mapping, order(2))) == (number == 2)
    assert glance(mapping, order(2)) == "SITE1|M2"
    assert glance(mapping, order(3, control="CA", status="CA")) == "SITE1|M3"
    assert glance(mapping, order(4, extra="NTE|1||other form\r")) == ""
    long = f"NTE|1||{'x' * 2**20}\r"  # of a form that was seen: a glance at it holds up others
    assert [full(mapping, order(5, extra=f"NTE|1||{n}\r")) for n in "ab"] == [("SITE1|M5",)] * 2
    assert glance(mapping, order(6, extra="NTE|1||c\r")) == "SITE1|M6"
    assert glance(mapping, order(6, extra=long)) == ""


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"M1^^^HOSP^MR", b"X1^^^HOSP^XX~M2^^^HOSP"),
        (b"M1^^^HOSP^MR", "É1^^^HOSP^MR".encode()),
        (b"M1^^^HOSP^MR", b"M\\F\\1^^^HOSP^MR"),
        (b"M1^^^HOSP^MR", b'""'),
        (b"M1^^^HOSP^MR", b""),
        (b"ORC|NW", b"ORC|QQ"),
        (b"ORC|NW", b"ORC|"),
        (b"^CT CHEST", b"^Thorax\xfcbersicht"),
        (b"NTE|1", b"NTE\n1"),
    ],
)
def test_unusual_messages_get_the_full_check(was: bytes, now: bytes) -> None:
    """Repetitions without a type, escapes, nulls, unknown codes, bytes in no declared charset."""
    assert glance(LEARNED, SEEN)
    changed = SEEN.replace(was, now) if was in SEEN else SEEN + now
    assert glance(LEARNED, changed) == ""


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"M1^^^HOSP^MR", b"X1^^^HOSP^XX~M1^^^HOSP^MR~M3^^^^MR"),
        (b"^CT CHEST", "^Thoraxübersicht".encode()),
    ],
)
def test_other_identifiers_and_accents_are_usual(was: bytes, now: bytes) -> None:
    """The identifier is picked by its type; UTF-8 that says so is read as what it is."""
    changed = SEEN.replace(was, now)
    assert changed != SEEN
    assert (glance(LEARNED, changed),) == full(LEARNED, changed) == ("SITE1|M1",)


def test_several_orders_get_the_full_check() -> None:
    """Each group must be in order."""
    mapping, two = orders(), order(1) + group_of(2).encode()
    assert full(mapping, two)
    assert full(mapping, two)
    assert glance(mapping, two) == ""


@pytest.mark.parametrize(
    "change",
    [
        "tags: {SiteID: MSH-4}",
        "tags: {PatientSex: {from: PID-8, codes: sex, unknown: refuse}}",
        "tags: {PatientMRN: {from: PID-3.1, as: upper, required: true}}",
    ],
)
def test_other_rules_get_the_full_check(change: str) -> None:
    """Whatever more a definition asks, its own check answers."""
    mapping = overlaid(change)
    assert full(mapping, order(1))
    assert full(mapping, order(1))
    assert glance(mapping, order(1)) == ""


def test_groups_that_are_left_out_are_in_order() -> None:
    """`only` refuses nothing: a glance and the full check say the same of what it leaves out."""
    mapping = overlaid("only: {PV1-2: O}")
    left_out = order(3).replace(b"|O|", b"|I|")
    assert full(mapping, order(1))
    assert full(mapping, order(2))
    assert full(mapping, left_out) == ("SITE1|M3",)
    assert glance(mapping, left_out) == "SITE1|M3"


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SEEN)), st.integers(0, 3), st.sampled_from(PIECES)), max_size=4
    )
)
@example([(SEEN.index(b"|M1^") + 1, 0, b"~")])
def test_it_says_what_the_full_check_says(cuts: list[tuple[int, int, bytes]]) -> None:
    """Any damage to a message whose form is known."""
    raw = SEEN
    for at, length, piece in cuts:
        raw = raw[:at] + piece + raw[at + length :]
    if said := glance(LEARNED, raw):
        assert full(LEARNED, raw) == (said,)


def test_other_encoding_characters_are_another_form() -> None:
    """What parts a field is what this message says."""
    mapping = orders()
    for _ in range(2):
        full(mapping, order(1))
    other = order(1).replace(b"^", b"@")
    assert glance(mapping, order(1)) == "SITE1|M1"
    assert glance(mapping, other) == ""
    for _ in range(2):
        assert full(mapping, other) == ("SITE1|M1",)
    assert glance(mapping, other) == "SITE1|M1"
    assert glance(mapping, order(2)) == "SITE1|M2"


def test_lines_that_end_early() -> None:
    """Fields behind the last one are empty, whether their separators stand or not."""
    mapping = orders()
    for _ in range(2):
        full(mapping, order(1))
    lines = order(1).split(b"\r")
    for at, line in enumerate(lines):
        for cut in range(line.count(b"|") + 1):
            short = [*lines[:at], b"|".join(line.split(b"|")[: cut + 1]), *lines[at + 1 :]]
            if said := glance(mapping, b"\r".join(short)):
                assert full(mapping, b"\r".join(short)) == (said,)


@pytest.mark.skipif(not CORPUS, reason="the corpus of real messages is not here")
def test_real_messages() -> None:
    """Every order of the corpus as it comes over a wire, once all of them have been seen."""
    mapping = orders()
    messages = [file.read_bytes().replace(b"\r\n", b"\r").replace(b"\n", b"\r") for file in CORPUS]
    lanes = [full(mapping, raw) for raw in messages + messages][len(messages) :]
    said = [glance(mapping, raw) for raw in messages]
    assert sum(map(bool, said)) > 5
    for one, known in zip(said, lanes, strict=True):
        assert not one or known == (one,)
