"""Paths and their texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.path import EVERY, InvalidPath, Path, RepetitionFilter, within_field

CASES = {
    "MSH": Path("MSH"),
    "MSH[2]": Path("MSH", occurrence=2),
    "PID-3": Path("PID", 3),
    "PID-3.1": Path("PID", 3, 1),
    "PID-3.4.2": Path("PID", 3, 4, 2),
    "PID-3[2].1": Path("PID", 3, 1, repetition=2),
    "OBR[2]-4.2": Path("OBR", 4, 2, occurrence=2),
    "OBX[*]-5": Path("OBX", 5, occurrence=EVERY),
    "PID-3[CX-5=MR].1": Path("PID", 3, 1, filters=(RepetitionFilter(5, "MR", data_type="CX"),)),
    "PID-3[5=MR][4.1=HOSP A].1": Path(
        "PID",
        3,
        1,
        filters=(RepetitionFilter(5, "MR"), RepetitionFilter(4, "HOSP A", subcomponent=1)),
    ),
    "3.1": Path("", 3, 1),
    "ZDS-1.1": Path("ZDS", 1, 1),
}


@pytest.mark.parametrize(("text", "path"), list(CASES.items()), ids=list(CASES))
def test_both_ways(text: str, path: Path) -> None:
    """Parsing and formatting are inverse."""
    assert Path.parse(text) == path
    assert str(path) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "PID-",
            "PID-0",
            "pid-3",
            "PID-3.",
            "PID3",
            "PID-3[0]",
            "PID-3[]",
            "-3",
            "PID-3.1.2.3",
        ),
        *(
            "PID-3[CX-5]",
            "PI-3",
            "PID[x]-3",
            "PID 3",
            "PID-3.1\n",
            "PID-3[5=M]R]",
            "3-PID",
            "PID[1]"[:4],
        ),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidPath, match="not an HL7 path"):
        Path.parse(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", Path("", 1)),
        ("4", Path("", 1, 4)),
        ("4.2", Path("", 1, 4, 2)),
        ("[2].1", Path("", 1, 1, repetition=2)),
        ("[CX-5=MR].1", Path("", 1, 1, filters=(RepetitionFilter(5, "MR", data_type="CX"),))),
    ],
)
def test_within_a_field(text: str, path: Path) -> None:
    """In a field a path starts with the repetition or the component."""
    assert within_field(text) == path


_number = st.integers(1, 99)
_filter = st.builds(
    RepetitionFilter,
    component=_number,
    value=st.text(st.characters(exclude_characters="[]=", exclude_categories=["Cs"]), max_size=8),
    subcomponent=st.just(0) | _number,
    data_type=st.sampled_from(["", "CX", "XCN", "EI"]),
)


@given(
    segment=st.sampled_from(["PID", "OBX", "ZDS", "IN1"]),
    numbers=st.lists(_number, max_size=3),
    occurrence=st.integers(0, 9),
    repetition=st.none() | _number,
    filters=st.lists(_filter, max_size=3),
)
def test_parse_inverts_str(
    segment: str,
    numbers: list[int],
    occurrence: int,
    repetition: int | None,
    filters: list[RepetitionFilter],
) -> None:
    field, component, subcomponent = [*numbers, 0, 0, 0][:3]
    picked = repetition if field else None
    conditions = tuple(filters) if field and repetition is None else ()
    path = Path(segment, field, component, subcomponent, occurrence, picked, conditions)
    assert Path.parse(str(path)) == path


@given(st.text(max_size=20))
def test_nothing_else_is_raised(text: str) -> None:
    try:
        path = Path.parse(text)
    except InvalidPath:
        return
    assert Path.parse(str(path)) == path
