"""Matching of worklist items (PS3.4 C.2.2.2 and K.6.1.2)."""

import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dicom.matching import (
    STEPS,
    BadKey,
    Key,
    Query,
    answer,
    check,
    has_unknown_keys,
    matches,
)
from tests.bridge.dicom.worklist_items import HONG, JEROME, YAMADA, element, make_item

NAME, ID, ACCESSION, STUDY = "00100010", "00100020", "00080050", "0020000D"
MODALITY, STATION, DATE, TIME = "00080060", "00400001", "00400002", "00400003"


def step_query(**keys: Key) -> Query:
    return {STEPS: Key("SQ", (), {tag.removeprefix("T"): key for tag, key in keys.items()})}


def named(text: str, name: dict[str, str]) -> bool:
    return matches({NAME: Key("PN", (text,))}, make_item(name=name))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("P1", True),
        ("p1", False),
        ("P", False),
        ("P*", True),
        ("*1", True),
        ("?1", True),
        ("P?", True),
        ("P1?", False),
        ("P1*", True),
        ("*", True),
        ("**", True),
        ("P.", False),
        ("[P]1", False),
    ],
)
def test_texts(text: str, *, fits: bool) -> None:
    """A text matches exactly, with case, or by `*` and `?`."""
    assert matches({ID: Key("LO", (text,))}, make_item()) is fits


@pytest.mark.parametrize(
    ("text", "name", "fits"),
    [
        ("YAMADA^TAROU", YAMADA, True),
        ("yamada^*", YAMADA, True),
        ("Yamada", YAMADA, False),
        ("Yamada^Tarou^^^", YAMADA, True),
        ("山田^太郎", YAMADA, True),
        ("山田*", YAMADA, True),
        ("山?^*", YAMADA, True),
        ("やまだ^たろう", YAMADA, True),
        ("まだ*", YAMADA, False),
        ("やまた^たろう", YAMADA, False),
        ("Yamada*=山田*", YAMADA, True),
        ("=山田*", YAMADA, True),
        ("=Yamada*", YAMADA, False),
        ("Yamada*=田中*", YAMADA, False),
        ("Hong^Gildong=洪^吉洞=홍^길동", HONG, True),
        ("홍^길동", HONG, True),
        ("홍^?동", HONG, True),
        ("buc^jerome", JEROME, True),
        ("BUC^JÉRÔME", JEROME, True),
        ("B*", JEROME, True),
        ("buc^*^*^*", JEROME, True),
        ("Buc^Jérôme^*", JEROME, True),
        ("Buc^*^M*", JEROME, False),
        ("*^*^*^*", YAMADA, True),
        ("山田^*^*", YAMADA, True),
        ("^^^^", JEROME, True),
        ("^^^^=^", YAMADA, True),
        ("Buc^", JEROME, False),
    ],
)
def test_names(text: str, name: dict[str, str], *, fits: bool) -> None:
    """A key matches any group of a name without case and accents, or each group its own."""
    assert named(text, name) is fits


def test_half_width_kana() -> None:
    """A name in half-width kana matches the same letters in full width."""
    assert named("ﾔﾏﾀﾞ^*", {"Alphabetic": "Yamada^Tarou", "Phonetic": "ヤマダ^タロウ"})


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("20261130", True),
        ("2026.11.30", True),
        ("20261129", False),
        ("20261129-", True),
        ("20261201-", False),
        ("-20261130", True),
        ("-20261129", False),
        ("20261101-20261130", True),
        ("20261201-20261130", False),
        ("*", True),
    ],
)
def test_dates(text: str, *, fits: bool) -> None:
    """A date matches a day or a closed, half open range; `*` alone matches all, as in texts."""
    query = step_query(T00400002=Key("DA", (text,)))
    check(query)
    assert matches(query, make_item()) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("083000", True),
        ("0830", True),
        ("08", True),
        ("08:30:00", True),
        ("083001", False),
        ("08-09", True),
        ("-0830", True),
        ("-0829", False),
        ("0831-", False),
        ("083000-083000.5", True),
        ("07-08", True),
    ],
)
def test_times(text: str, *, fits: bool) -> None:
    """A time without minutes or seconds means all of them."""
    assert matches(step_query(T00400003=Key("TM", (text,))), make_item()) is fits


@pytest.mark.parametrize(
    ("dates", "times", "fits"),
    [
        ("20261129-20261130", "1000-0900", True),
        ("20261130-20261201", "1000-0800", False),
        ("20261129-20261130", "0700-0800", False),
        ("20261129-20261201", "0900-0800", True),
        ("20261130-", "0830-", True),
        ("20261130-", "0831-", False),
        ("-20261130", "-0829", False),
        ("20261130", "0700-0900", True),
        ("20261130", "0900-1000", False),
    ],
)
def test_a_period(dates: str, times: str, *, fits: bool) -> None:
    """Ranges of start date and start time are one period, from the first moment to the last."""
    query = step_query(T00400002=Key("DA", (dates,)), T00400003=Key("TM", (times,)))
    assert matches(query, make_item()) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("20261130083000", True),
        ("202611300830", True),
        ("20261130", True),
        ("2026", True),
        ("20261130093000+0100", True),
        ("20261130033000-0500", True),
        ("20261130083001", False),
        ("20261130-20261201", True),
        ("20261130083000.000001-", False),
        ("-20261130083000", True),
        ("20261129-0500-20261201-0500", True),
    ],
)
def test_date_times(text: str, *, fits: bool) -> None:
    """A date-time has a precision and an offset; a hyphen is a range or a negative offset."""
    value = element("DT", "20261130083000+0000")
    item = make_item(T00404005=value)
    assert matches({"00404005": Key("DT", (text,))}, item) is fits


def test_lists() -> None:
    """A list of UIDs, or of other values, matches any of them."""
    assert matches({STUDY: Key("UI", ("2.25.7", "2.25.1"))}, make_item())
    assert not matches({STUDY: Key("UI", ("2.25.7", "2.25.8"))}, make_item())
    assert matches(step_query(T00080060=Key("CS", ("MR", "CT"))), make_item())
    several = make_item(T00101000=element("LO", "X1", "X2"))
    assert matches({"00101000": Key("LO", ("X2",))}, several)


def test_numbers() -> None:
    """Numbers match by value."""
    item = make_item(T00101030=element("DS", 70.5))
    assert matches({"00101030": Key("DS", ("70.50",))}, item)
    assert not matches({"00101030": Key("DS", ("70",))}, item)


def test_spaces() -> None:
    """Spaces at the ends of a value do not count."""
    assert matches({ID: Key("LO", ("4711",))}, make_item(T00100020=element("LO", " 4711 ")))


def test_an_attribute_without_a_value() -> None:
    """A step without a value for an attribute of the worklist matches the universal key only."""
    item = make_item(station=None)
    assert matches(step_query(T00400001=Key("AE")), item)
    assert matches(step_query(T00400001=Key("AE", ("*",))), item)
    assert not matches(step_query(T00400001=Key("AE", ("CT1",))), item)
    assert not matches({"00380300": Key("LO", ("WARD",))}, item)


def test_an_unknown_attribute() -> None:
    """A key that the worklist does not have restricts nothing, is empty, and is reported."""
    query = {"00080052": Key("CS", ("STUDY",)), MODALITY: Key("CS", ("MR",)), ID: Key("LO")}
    item = make_item()
    assert matches(query, item)
    assert has_unknown_keys(query, item)
    assert answer(query, item)["00080052"] == {"vr": "CS"}
    assert not has_unknown_keys({ID: Key("LO"), "00380300": Key("LO")}, item)
    inside = step_query(T00090010=Key("LO", ("PRIVATE",)))
    assert matches(inside, item)
    assert has_unknown_keys(inside, item)


def test_an_answer() -> None:
    """An answer has exactly the attributes of the query, also inside sequences."""
    item = make_item()
    query = {
        ID: Key("LO"),
        "00380300": Key("LO"),
        "00321064": Key("SQ", (), {"00080100": Key("SH")}),
        **step_query(T00080060=Key("CS", ("CT",)), T00400010=Key("SH")),
    }
    assert answer(query, item) == {
        ID: element("LO", "P1"),
        "00380300": element("LO"),
        "00321064": element("SQ", {"00080100": element("SH", "CTHEAD")}),
        STEPS: element("SQ", {MODALITY: element("CS", "CT"), "00400010": element("SH")}),
    }


@pytest.mark.parametrize("key", [Key("SQ"), Key("SQ", (), {})])
def test_a_whole_sequence(key: Key) -> None:
    """A sequence without an item, or with an empty one, gets whole items."""
    item = make_item()
    assert answer({STEPS: key}, item)[STEPS] == item[STEPS]
    assert matches({STEPS: key}, item)


def test_matching_items_of_a_sequence() -> None:
    """An answer has those items of a sequence that match."""
    codes = element("SQ", {"00080100": element("SH", "A")}, {"00080100": element("SH", "B")})
    item = make_item(T00321064=codes)
    query = {"00321064": Key("SQ", (), {"00080100": Key("SH", ("B",))})}
    assert matches(query, item)
    assert answer(query, item) == {"00321064": element("SQ", {"00080100": element("SH", "B")})}
    assert not matches({"00321064": Key("SQ", (), {"00080100": Key("SH", ("C",))})}, item)


@pytest.mark.parametrize(
    ("vr", "text"),
    [
        ("DA", "2026-11-30"),
        ("DA", "-"),
        ("DA", "20261130-20261131-"),
        ("DA", "today"),
        ("TM", "8"),
        ("TM", "8h30"),
        ("DT", "x"),
        ("DT", "20261340"),
        ("UI", "1.2.x"),
        ("UI", "1.2.*"),
        ("IS", "one"),
        ("DS", "1,5"),
        ("PN", "*a" * 600),
        ("LO", "a" * 1025),
    ],
    ids=lambda value: value[:10],
)
def test_wrong_values(vr: str, text: str) -> None:
    """A value that its representation does not permit is refused with its attribute."""
    with pytest.raises(BadKey) as raised:
        check(step_query(T00400002=Key(vr, (text,))))
    assert raised.value.tag == "00400002"


TEXTS = st.text(alphabet="ab*?[]\\.^ é", max_size=12)


@given(TEXTS, st.text(alphabet="ab[]\\.^ é", max_size=12))
def test_wildcards_against_a_model(pattern: str, value: str) -> None:
    """Wildcards match as a plain recursive definition says."""

    def fits(pattern: str, value: str) -> bool:
        if not pattern:
            return not value
        if pattern[0] == "*":
            return any(fits(pattern[1:], value[at:]) for at in range(len(value) + 1))
        return bool(value) and pattern[0] in ("?", value[0]) and fits(pattern[1:], value[1:])

    if not pattern.strip() or pattern != pattern.strip():
        return
    item = make_item(T00100020=element("LO", value) if value.strip() else element("LO"))
    found = matches({ID: Key("LO", (pattern,))}, item)
    stripped = value.strip()
    assert found is (set(pattern) == {"*"} or (bool(stripped) and fits(pattern, stripped)))


@given(st.text(max_size=20), st.text(max_size=20))
def test_names_are_equal_by_their_letters(first: str, second: str) -> None:
    """A name matches itself in any case and normal form."""
    name = f"A{first}^B{second}".replace("=", "").replace("*", "").replace("?", "").strip()
    if name.endswith("^") or "\\" in name:
        return
    for form in (name.upper(), unicodedata.normalize("NFD", name)):
        if form.casefold() == name.casefold() or unicodedata.normalize("NFC", form) == name:
            assert named(form, {"Alphabetic": name})


def test_patterns_of_strangers() -> None:
    """A pattern of many wildcards takes no longer than its length times that of the value."""
    item = make_item(T00100020=element("LO", "a" * 10_000))
    began = time.process_time()
    assert not matches({ID: Key("LO", ("*a" * 30 + "b",))}, item)
    assert time.process_time() - began < 5


TAGS = [NAME, ID, STEPS, MODALITY, DATE, TIME, STATION, "00321064", "00091001"]
VALUES = st.builds(
    Key, st.sampled_from(["LO", "PN", "DA", "TM", "UI", "UN", "IS"]), st.tuples(st.text())
)


def sequences_of(keys: st.SearchStrategy[Key]) -> st.SearchStrategy[Key]:
    items = st.dictionaries(st.sampled_from(TAGS), keys)
    return st.builds(Key, st.just("SQ"), st.just(()), items)


@given(st.recursive(VALUES, sequences_of, max_leaves=6))
def test_any_query(key: Key) -> None:
    """Whatever a peer asks, an answer has the attributes of the query, or it is a mistake."""
    query: Any = {STEPS: key}
    try:
        check(query)
    except BadKey:
        return
    item = make_item()
    if matches(query, item):
        assert answer(query, item).keys() == query.keys()
    has_unknown_keys(query, item)
