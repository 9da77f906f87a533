"""The difference of two messages by place."""

from pathlib import Path as File

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.differences import MAX_DIFFERENCES, differences
from mappings.hl7.message import Message
from mappings.hl7.refusals import MalformedMessage
from mappings.hl7.tree import MAX_TEXT
from tests.corpus import CORPUS

HEAD = "MSH|^~\\&|RIS|NORTH|||20260102||ORM^O01|A1|P|2.5.1||||||UNICODE UTF-8"
PID = "PID|1||A1^^^NORTH^MR~N2^^^^NI||DOE^JANE|||F"
OBX = [f"OBX|{number}|TX|X^Y||line {number}" for number in range(1, 6)]


def message(*segments: str, codec: str = "utf-8") -> Message:
    return Message.parse("\r".join([*segments, ""]).encode(codec))


def found(before: list[str], after: list[str]) -> list[tuple[str, str, str, str]]:
    return [
        (difference.place, difference.before, difference.after, difference.kind.value)
        for difference in differences(message(*before), message(*after))
    ]


def test_a_component_with_another_value() -> None:
    """The place is that of the component, with its name."""
    changed = PID.replace("JANE", "JOAN").replace("N2^", "N3^")
    (identifier, name) = differences(message(HEAD, PID), message(HEAD, changed))
    assert (identifier.place, identifier.before, identifier.after) == ("PID-3[2].1", "N2", "N3")
    assert (name.place, name.name) == ("PID-5.2", "Given name")
    assert (name.before, name.after, name.kind) == ("JANE", "JOAN", "changed")


def test_an_inserted_segment_is_one_difference() -> None:
    """The segments behind it are the same as before, whatever their occurrence."""
    inserted = "OBX|9|TX|X^Y||inserted"
    assert found([HEAD, PID, *OBX], [HEAD, PID, OBX[0], inserted, *OBX[1:]]) == [
        ("OBX[2]", "", inserted, "added")
    ]
    assert found([HEAD, PID, *OBX], [HEAD, PID, *OBX[1:]]) == [("OBX", OBX[0], "", "removed")]


def test_renumbered_segments_are_paired_in_order() -> None:
    """Set ids that shift are differences of one field each."""
    after = [HEAD, PID, *OBX[:2], "OBX|3|TX|X^Y||new", *(o.replace("3|", "4|") for o in OBX[2:3])]
    assert found([HEAD, PID, *OBX[:3]], after) == [
        ("OBX[3]-5", "line 3", "new", "changed"),
        ("OBX[4]", "", "OBX|4|TX|X^Y||line 3", "added"),
    ]


def test_an_added_repetition() -> None:
    """Repetitions that stay are aligned."""
    after = PID.replace("A1^", "B0^^^^PI~A1^")
    assert found([HEAD, PID], [HEAD, after]) == [("PID-3[1]", "", "B0^^^^PI", "added")]
    assert found([HEAD, after], [HEAD, PID]) == [("PID-3[1]", "B0^^^^PI", "", "removed")]


@pytest.mark.parametrize(
    ("before", "after", "place", "values"),
    [
        ("DOE", "DOE^JANE", "PID-5.2", ("", "JANE")),
        ("DOE^JANE", "DOE", "PID-5.2", ("JANE", "")),
        ("DOE", "ROE", "PID-5", ("DOE", "ROE")),
        ("van&DOE", "von&DOE", "PID-5.1.1", ("van", "von")),
        ("a^van&DOE", "a^von&DOE", "PID-5.2.1", ("van", "von")),
        ("DOE", "", "PID-5", ("DOE", "")),
        ("", "DOE", "PID-5", ("", "DOE")),
        ("DOE", '""', "PID-5", ("DOE", '""')),
    ],
)
def test_the_place_is_that_of_the_part(
    before: str, after: str, place: str, values: tuple[str, str]
) -> None:
    rows = found([HEAD, f"PID|1||||{before}"], [HEAD, f"PID|1||||{after}"])
    assert [(row[0], row[1], row[2]) for row in rows] == [(place, *values)]


def test_delimiters_escapes_and_character_sets_make_no_difference() -> None:
    """The values are the same, however they are written."""
    before = message(HEAD, "PID|1||A^^^B~C||MÜLLER \\T\\ CO")
    head = HEAD.replace("|", "#").replace("^~\\&", "*@!%").replace("^", "*")
    head = head.replace("UNICODE UTF-8", "8859/1")
    after = message(head, "PID#1##A***B@C##MÜLLER & CO", codec="latin-1")
    assert [row.place for row in differences(before, after)] == ["MSH-18"]


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_message_does_not_differ_from_itself(file: File) -> None:
    try:
        read = Message.parse(file.read_bytes())
    except MalformedMessage:
        return
    assert differences(read, read) == []


SEGMENT = st.builds(
    "{}|{}".format, st.sampled_from(["PID", "OBX", "NTE"]), st.text("ab|~^&", max_size=12)
)


@given(st.lists(SEGMENT, max_size=8), st.lists(SEGMENT, max_size=8))
def test_differences_are_found_both_ways(before: list[str], after: list[str]) -> None:
    """Two messages differ in the same number of parts in both directions, or in none."""
    there, back = found([HEAD, *before], [HEAD, *after]), found([HEAD, *after], [HEAD, *before])
    assert bool(there) == bool(back)
    values = [line.rstrip("|~^&") for line in before], [line.rstrip("|~^&") for line in after]
    if values[0] == values[1]:
        assert not [row for row in there if row[3] == "changed"]


def test_many_differences_are_bounded() -> None:
    """A long list of other segments takes little time; texts are cut."""
    before = [HEAD, *(f"NTE|{number}||a" for number in range(3000))]
    after = [HEAD, *(f"NTE|{number}||b" for number in range(3000))]
    assert len(found(before, after)) == MAX_DIFFERENCES
    (row,) = found([HEAD], [HEAD, "NTE|1||" + "x" * 5000])
    assert len(row[2]) == MAX_TEXT + 1
