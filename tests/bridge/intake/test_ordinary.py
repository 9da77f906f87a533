"""What goes the short way is recorded as the long way records it, byte for byte; and some goes."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.intake.answers import Answers
from bridge.intake.listening import Acknowledge, Listening, Replies, Reuse
from bridge.intake.ordinary import OrdinaryMessages
from bridge.intake.validating import validated
from bridge.intake.verdict import Judge
from bridge.queue.arrivals import Arrival
from mllp.framing import START, Frame
from tests.acceptance.orders import adt, group_of, order
from tests.bridge.intake.desk import LISTENING, NOW, definitions
from tests.bridge.intake.test_checks_at_a_glance import Asking
from tests.mappings.language import overlaid

CORPUS = sorted((Path(__file__).parents[4] / "shared" / "corpus").glob("*.hl7"))
SEEN = order(1, mrn="M0017", extra="NTE|1||Hüfte\\T\\Knie\rZXX|1\r")
ENOUGH = 9
"""Messages of one kind after which there is a stencil of it."""
PIECES = [b"|", b"^", b"~", b"\\", b"&", b'""', b" ", b"\r", b"\n", b"7", b"x", b"-", b"/", b""]
PIECES += ["é".encode(), b"\xe9", b"\x1b", b"\x0b", b"MSH|", b"MRG|", b"ORC|NW|P9\r", b"0" * 70]


class Ways:
    """Both ways of one listener, whose own control ids are always the same."""

    def __init__(self, listening: Listening = LISTENING) -> None:
        self.listening = replace(listening, definitions=definitions())
        self.answers = Answers(self.listening, lambda: "ACK1")
        self.judge = Judge(self.listening, self.alarm)
        self.ordinary = OrdinaryMessages(self.listening, lambda: "ACK1")

    def alarm(self, error: Exception) -> None:
        raise error

    def long(self, raw: bytes) -> Arrival:
        """The record that the full check leads to, of which the short way learns."""
        verdict = self.judge.judge(Frame(raw, START in raw), NOW)
        arrival = self.answers.arrival(verdict, raw, NOW)
        self.ordinary.learn(verdict, arrival, NOW)
        return arrival

    def short(self, raw: bytes) -> Arrival | None:
        """The record by a stencil."""
        return self.ordinary.arrival(raw, NOW)

    def learned(self, raw: bytes) -> "Ways":
        """These, after enough messages of a kind."""
        for _ in range(ENOUGH):
            self.long(raw)
        return self


LEARNED = Ways().learned(SEEN)
AMONG = b"X1^^^HOSP^XX~M0017^^^HOSP^MR~V5^^^HOSP^VN"
SEVERAL = Ways().learned(SEEN.replace(b"M0017^^^HOSP^MR", AMONG))


def test_a_kind_that_was_accepted_goes_the_short_way() -> None:
    """With other numbers, texts and times; not before it has been seen some times."""
    ways, other = Ways(), order(4, mrn="X-9/b_2.c", sent="20270101")
    assert ways.short(other) is None
    ways.learned(order(1))
    for raw in (other, order(5, title="Thoraxübersicht"), order(6, msh10="a.b-c_d/7")):
        assert ways.short(raw) == ways.long(raw)
    later = ways.ordinary.arrival(other, NOW + timedelta(seconds=2))
    assert later is not None
    assert b"|20261121120002" in later.ack


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"M0017^^^HOSP^MR", b""),
        (b"M0017^^^HOSP^MR", b'""'),
        (b"M0017^^^HOSP^MR", b"^^^HOSP^MR"),
        (b"M0017^^^HOSP^MR", b"M0017^^^HOSP^SS"),
        (b"M0017^^^HOSP^MR", b"M1^^^HOSP^MR~M0017^^^HOSP^MR"),
        (b"ORC|NW", b"ORC|CA"),
        (b"ORC|NW", b"ORC|QQ"),
        (b"|C1|P|", b"||P|"),
        (b"|C1|P|", b'|""|P|'),
        (b"|C1|P|", b"|C 1|P|"),
        (b"|C1|P|", b"|C1|T|"),
        (b"|2.5.1|", b"|9.9|"),
        (b"|RIS|HOSP|", b"|RIS2|HOSP|"),
        (b"UNICODE UTF-8", b"8859/1"),
        (b"ORM^O01^ORM_O01", b"ORM^O02"),
        ("ü".encode(), b"\xfc"),
        (b"|||||UNICODE", b"|AL||||UNICODE"),
        (b"ZXX|1\r", group_of(7).encode()),
        (b"ZXX|1\r", b"ZXX|1\nORC|QQ\r"),
        (b"ZXX|1\r", b"ZXX|\x1b$B1\r"),
    ],
)
def test_what_differs_in_anything_that_is_asked_goes_the_long_way(was: bytes, now: bytes) -> None:
    """Whose, which order, what is to be done, who sent it, how it is read and answered."""
    assert was in SEEN
    assert LEARNED.short(SEEN.replace(was, now, 1)) is None


@settings(max_examples=600)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SEEN)), st.integers(0, 4), st.sampled_from(PIECES)), max_size=3
    )
)
@example([(SEEN.index(b"|M0017") + 1, 5, b"x")])
@example([(SEEN.index(b"|A1|") + 1, 2, b"")])
def test_the_short_way_records_what_the_long_way_does(cuts: list[tuple[int, int, bytes]]) -> None:
    """Any damage to a message that there is a stencil of."""
    raw = SEEN
    for at, length, piece in cuts:
        raw = raw[:at] + piece + raw[at + length :]
    if (said := LEARNED.short(raw)) is not None and START not in raw:
        assert said == LEARNED.answers.arrival(LEARNED.judge.judge(Frame(raw), NOW), raw, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"acknowledge": Acknowledge.APPLIED},
        {"reuse": Reuse.REFUSE},
        {"replies": Replies.ORDER},
        {"commit_blocks": True},
        {"site": ""},
    ],
)
def test_listeners_that_answer_otherwise_have_no_short_way(changes: dict[str, object]) -> None:
    """What they answer is not known when a message is stored, or is not the same for all."""
    assert Ways(replace(LISTENING, **changes)).learned(SEEN).short(SEEN) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("asks", [True, False])
def test_a_check_that_wants_to_see_each_message_does(asks: bool) -> None:
    """No stencil is cut of what somebody has to look at."""
    ways = Ways()
    ways.listening = validated(LEARNED.listening, Asking(asks=asks))
    ways.judge = Judge(ways.listening, ways.alarm)
    assert (ways.learned(SEEN).short(SEEN) is None) == asks


@pytest.mark.parametrize("place", ["PID-2.1", "PID-4.1", "PID-18.1"])
def test_a_place_that_is_asked_first_and_was_empty_stays_empty(place: str) -> None:
    """Where it says something, it says who the patient is."""
    first = overlaid(f"tags: {{PatientMRN: {{from: [{place}, PID-3.1], required: true}}}}")
    ways = Ways()
    ways.listening = replace(ways.listening, definitions=(first,))
    ways.judge = Judge(ways.listening, ways.alarm)
    field = int(place.split("-")[1].split(".", maxsplit=1)[0])
    line = next(each for each in SEEN.split(b"\r") if each.startswith(b"PID"))
    parts = line.split(b"|") + [b""] * 20
    other = b"|".join([*parts[:field], b"X1", *parts[field + 1 :]])
    assert ways.learned(SEEN).short(SEEN) == ways.long(SEEN)
    assert ways.short(SEEN.replace(line, other)) is None
    assert ways.long(SEEN.replace(line, other)).lanes != ways.long(SEEN).lanes


@pytest.mark.parametrize(
    ("now", "fits"),
    [
        (b"X2^^^HOSP^XX~M9^^^HOSP^MR~V6^^^HOSP^VN", True),
        (b"X2^^^HOSP^MR~M9^^^HOSP^MR~V6^^^HOSP^VN", False),
        (b"X2^^^HOSP^MR~M9^^^HOSP^XX~V6^^^HOSP^VN", False),
        (b"M9^^^HOSP^MR~X2^^^HOSP^XX~V6^^^HOSP^VN", False),
        (b"X2^^^HOSP^XX~^^^HOSP^MR~V6^^^HOSP^VN", False),
        (b"X2^^^HOSP^XX~M9^^^HOSP^MR", False),
        (b"X2^^^HOSP^XX~M9^^^HOSP^MR~V6^^^HOSP^VN~W7^^^HOSP^PI", False),
    ],
)
def test_a_number_among_others(now: bytes, fits: bool) -> None:
    """Picked by its type, which is the same in all: the others may be each patient's own."""
    raw, other = (SEEN.replace(b"M0017^^^HOSP^MR", each) for each in (AMONG, now))
    ways = Ways().learned(raw)
    assert ways.short(raw) == ways.long(raw)
    assert (ways.short(other) is not None) == fits
    assert not fits or ways.short(other) == ways.long(other)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4), st.sampled_from(PIECES)), max_size=3)
)
def test_damage_among_several_numbers(cuts: list[tuple[int, int, bytes]]) -> None:
    """Whatever becomes of the field."""
    field = AMONG
    for at, length, piece in cuts:
        field = field[:at] + piece + field[at + length :]
    raw = SEEN.replace(b"M0017^^^HOSP^MR", field)
    if (said := SEVERAL.short(raw)) is not None and START not in raw:
        assert said == SEVERAL.answers.arrival(SEVERAL.judge.judge(Frame(raw), NOW), raw, NOW)


def test_several_kinds_and_kinds_without_a_stencil() -> None:
    """Four kinds of one listener go the short way; the fifth takes the oldest one's place."""
    ways = Ways()
    kinds = [order(1, control=code) for code in ("NW", "CA", "XO", "SC", "NW")]
    kinds[4] = kinds[4].replace(b"PV1|1|O", b"PV1|1|O|X\rPV2|1")
    for raw in kinds:
        for _ in range(5000):
            ways.long(raw)
            if ways.short(raw) is not None:
                break
    assert [ways.short(raw) is not None for raw in kinds] == [False, True, True, True, True]
    for raw in (adt("A08", 1, "M1", "DOE^JANE"), order(1) + group_of(2).encode()):
        assert Ways().learned(raw).short(raw) is None


@pytest.mark.skipif(not CORPUS, reason="the corpus of real messages is not here")
def test_real_messages() -> None:
    """Every message of the corpus that goes the short way is recorded as the long way does."""
    short = 0
    for file in CORPUS:
        raw = file.read_bytes().replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        ways = Ways().learned(raw)
        if (said := ways.short(raw)) is not None:
            assert said == ways.long(raw)
            short += 1
    assert short > 3
