"""Written code says what the rules say: event for event, error for error, key for key."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mappings.inbound import InboundMapping
from tests.mappings.forms.sameness import RICH, by_form, by_rules, is_written, orders, recipes
from tests.mappings.forms.sameness import samples as all_samples

SAMPLES = all_samples()
MAPPINGS = [orders(), *recipes()]
SHIPPED = MAPPINGS[0]
PIECES = [
    *(
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
        b"",
        b"|||",
        b'|""|',
        b'~""~',
    ),
    *("é".encode(), b"\xe9", b"\x1b", b"\t", b"\\F\\", b"\\.br\\", b"\\X2222\\", b"\\X22\\"),
    *(b"20260230", b"19700203", b"20260102030405+0200", b"2026", b"CT", b"QQ", b"F", b"MR", b"CE"),
    *(b"TCM", b"printset:", b"NW", b"CA", b"1.2.3", b"\rZDS|1.2.3", b"\rOBR|2|P2|F2|X^Y"),
    *(b"\rORC|NW|P3|F3", b"\rNTE|1||abc", b"\rOBX|9|ST|Q||1", b"\rPID|2||M2^^^^MR", b"\rRXO|1"),
]
LEARNED = 4
"""Often enough for code to be written, and run."""


@pytest.mark.parametrize("mapping", MAPPINGS, ids=lambda mapping: mapping.version[:4])
def test_every_sample(mapping: InboundMapping) -> None:
    """Each order of corpus and samples, by the definition and by every recipe of the guide."""
    chosen = SAMPLES if mapping is SHIPPED else [*SAMPLES[::5], *SAMPLES[-30:]]
    for raw in chosen:
        expected = by_rules(mapping, raw)
        for _ in range(LEARNED):
            assert by_form(mapping, raw) == expected
    assert mapping.specialist is not None
    assert mapping.specialist.refuted == 0


def test_most_samples_have_code() -> None:
    """It is no way around: what is an order, and is not refused, is mapped by its form."""
    mapping = orders()
    for raw in SAMPLES * LEARNED:
        by_form(mapping, raw)
    taken = [raw for raw in SAMPLES if isinstance(by_rules(mapping, raw)[0], list)]
    assert sum(is_written(mapping, raw) for raw in taken) > 0.8 * len(taken)


Damage = list[tuple[float, int, bytes]]
damages = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES)), max_size=4
)


def damaged(raw: bytes, damage: Damage) -> bytes:
    """A message with pieces put in and cut out."""
    for share, length, piece in damage:
        at = int(share * len(raw))
        raw = raw[:at] + piece + raw[at + length :]
    return raw


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([*SAMPLES, *[RICH] * len(SAMPLES)]),
    damages,
    st.lists(damages, max_size=3),
    st.sampled_from(["utf-8", "latin-1", "cp1252"]),
    st.sampled_from([SHIPPED, SHIPPED, *MAPPINGS]),
)
def test_damaged_messages(
    raw: bytes, first: Damage, later: list[Damage], fallback: str, mapping: InboundMapping
) -> None:
    """Code is written for a damaged order, and others run it; the learner only ever learns more."""
    base = damaged(raw, first)
    others = [damaged(base, each) for each in later]
    for each in [*[base] * LEARNED, *others, base, *others]:
        assert by_form(mapping, each, fallback) == by_rules(mapping, each, fallback)
    assert mapping.specialist is not None
    assert mapping.specialist.refuted == 0


def test_fields_that_come_and_go() -> None:
    """Orders of one sender that fill other fields each time, hundreds of them in turn."""
    mapping, chance = orders(), random.Random(7)
    for _ in range(150):
        lines = [line.split(b"|") for line in RICH.rstrip(b"\r").split(b"\r")]
        for _ in range(chance.randrange(6)):
            fields = chance.choice(lines[1:])
            fields[chance.randrange(1, len(fields))] = chance.choice(
                [b"", b"", b"X^Y", b'""', b"7"]
            )
        raw = b"\r".join(map(b"|".join, lines))
        assert by_form(mapping, raw) == by_rules(mapping, raw)
    assert is_written(mapping, RICH)
