"""The check warns about rules without effect, and suggests corrections."""

import pytest

from mappings.compiler import check_sources
from mappings.language.diagnostics import IssueSeverity
from tests.mappings.definitions import SHIPPED

EMPTY = {
    "codes/none.csv": "code,value\n",
    "codes/comma.csv": "code,value\nM,Male, adult\n",
    "codes/latin.csv": "code,value\nM,m\ufffdnnlich\n",
}
WARNED = [
    ("tags: {Notes: [{const: a}, NTE-3]}", 28, "never reached: the one before always has a value"),
    ("tags: {Notes: [NTE-3, NTE-3]}", 23, "NTE-3 has been tried before: it has no value"),
    (
        "tags: {Notes: {from: NTE-3, default: x, required: yes}}",
        41,
        "never refuses: there is always a value",
    ),
    ("tags: {Notes: {from: NTE-3, default: ''}}", 38, "an empty default has no effect"),
    *(
        (f"tags: {{Notes: {{from: NTE-3, when: {when}}}}}", column, f"never true: {why}")
        for when, column, why in (
            ("{PV1-2: []}", 43, "no value passes all of these tests"),
            ("{PV1-2: {is: [A, B], not: [A, B]}}", 43, "no value passes all of these tests"),
            ("{PV1-2: {in: [CT, MR], matches: '^X'}}", 43, "no value passes all of these tests"),
            ("{PV1-2: {is: I, absent: true}}", 43, "no value passes all of these tests"),
            ("{PV1-2: {absent: true, not: ''}}", 43, "no value passes all of these tests"),
            ("{PV1-2: {absent: true, matches: '.'}}", 43, "no value passes all of these tests"),
            (
                "{PV1-2: {present: true, absent: true}}",
                43,
                "a value cannot be present and absent",
            ),
            (
                "{PV1-2: ' I'}",
                43,
                "values are compared without blanks around them, and a null as an empty text",
            ),
            ("{any: []}", 36, "`any` lists no condition"),
            ("{not: {}}", 36, "`not` has no condition"),
        )
    ),
    ("tags: {Notes: PID-999}", 15, "the last field in HL7 v2.5.1 is PID-39"),
    ("tags: {Notes: {from: NTE-3, separator: x}}", 29, "`separator` needs `all` or `join`"),
    ("tags: {Notes: {from: NTE-3, where: {NTE-2: L}}}", 29, "`where` needs `all` or `first`"),
    (
        "tags: {Notes: {from: NTE-3, unknown: keep}}",
        29,
        "`unknown` needs `codes` or `codes_back`",
    ),
    (
        "tags: {Notes: {from: NTE-3, codes: none, unknown: refuse}}",
        36,
        "none has no entry: every message is refused",
    ),
    ("tags: {Notes: {const: FF, codes: sex}}", 23, "sex has no entry 'FF'; did you mean 'F'?"),
    (
        "tags: {Notes: {const: “x”}}",
        23,
        "typographic quotes are part of the text here; YAML's own are \"…\" and '…'",
    ),
    ("accept: {messages: [ORM^001]}", 21, "hardly a message's type and event, such as ORM^O01"),
    ("accept: {versions: ['', 2.5.]}", 25, "HL7 has no version '2.5.'; did you mean '2.5.1'?"),
    ("accept: {processing: [p]}", 23, "HL7 has no processing id 'p'; did you mean 'P'?"),
]
TABLES = [
    ("comma", (2, 1), 'more cells than columns: a value with a comma needs "…"'),
    ("latin", (2, 4), "bytes that are no UTF-8: save the file as UTF-8"),
]
BEYOND = ["segments: [{use: header}, {OBR: {99: x}}]", "metadata: {targets: {Dose: OBR-99}}"]
MEANT = [
    ("PDI-3.1", "there is no segment PDI; did you mean 'PID-3.1'?"),
    ("pid-3", "'pid-3' is not a place such as PID-3.1; did you mean 'PID-3'?"),
    ("PID3.1", "'PID3.1' is not a place such as PID-3.1; did you mean 'PID-3.1'?"),
    ("PID-3-1", "'PID-3-1' is not a place such as PID-3.1; did you mean 'PID-3.1'?"),
    ("OBX[2].5", "'OBX[2].5' is not a place such as PID-3.1; did you mean 'OBX[2]-5'?"),
]
IMPOSSIBLE = ["{const: '', required: true}", "[]", "{join: [], required: true}"]


def found(text: str, severity: IssueSeverity) -> set[tuple[int, int, str]]:
    sources = {**SHIPPED, **EMPTY, "mine.yaml": f"include: orders.yaml\n{text}\n"}
    issues = check_sources(sources, ["mine"], tables=False)
    return {(i.line, i.column, i.message) for i in issues if i.severity is severity}


@pytest.mark.parametrize(("text", "column", "message"), WARNED)
def test_dead_rules_and_codes(text: str, column: int, message: str) -> None:
    """Each is a warning with its location; the definition can be used."""
    assert found(text, IssueSeverity.WARNING) == {(2, column, message)}
    assert not found(text, IssueSeverity.ERROR)


@pytest.mark.parametrize(
    "when",
    [
        "{PV1-2: ''}",
        "{PV1-2: {not: I}}",
        "{PV1-2: {is: [I, O], not: I}}",
        "{PV1-2: {absent: false}}",
        "{PV1-2: {present: false, not: I}}",
        "{PV1-2: {present: true, matches: x}}",
        "{any: [{PV1-2: I}, {not: {PV1-3: X}}]}",
    ],
)
def test_conditions_that_can_be_true(when: str) -> None:
    assert not found(f"tags: {{Notes: {{from: NTE-3, when: {when}}}}}", IssueSeverity.WARNING)


@pytest.mark.parametrize(("table", "place", "message"), TABLES)
def test_slips_in_code_tables(table: str, place: tuple[int, int], message: str) -> None:
    """A value that would be cut or has replaced bytes is reported."""
    noticed = found(f"tags: {{PatientSex: {{from: PID-8, codes: {table}}}}}", IssueSeverity.WARNING)
    assert noticed == {(*place, message)}


@pytest.mark.parametrize("text", BEYOND)
def test_fields_after_the_last_one(text: str) -> None:
    """A field number beyond the last field is reported."""
    sources = {**SHIPPED, "mine.yaml": f"include: results.yaml\n{text}\n"}
    messages = {issue.message for issue in check_sources(sources, ["mine"], tables=False)}
    assert "there is no OBR-99: OBR ends with OBR-50 in 2.5.1" in messages


@pytest.mark.parametrize(("path", "message"), MEANT)
def test_suggestions(path: str, message: str) -> None:
    assert found(f"tags: {{Notes: '{path}'}}", IssueSeverity.ERROR) == {(2, 15, message)}


@pytest.mark.parametrize("tag", ["PatientMRN", "Accession", "SiteID"])
@pytest.mark.parametrize("rule", IMPOSSIBLE)
def test_an_identity_that_can_have_no_value(tag: str, rule: str) -> None:
    """This is an error, because nothing could be reported."""
    messages = {message for _, _, message in found(f"tags: {{{tag}: {rule}}}", IssueSeverity.ERROR)}
    assert f"{tag} can have no value: nothing could be reported" in messages


def test_an_unused_part() -> None:
    """An unused part of the definition is reported; unused parts of included files are not."""
    text = "include: results.yaml\nparts:\n  mine: [{NTE: {1: x}}]\n"
    (issue,) = check_sources({**SHIPPED, "mine.yaml": text}, ["mine"], tables=False)
    assert (issue.line, issue.column, issue.message) == (3, 3, "no segment uses mine")


def test_shipped_files_have_no_warnings() -> None:
    """The shipped definitions and code tables have no issues."""
    names = [name.removesuffix(".yaml") for name in SHIPPED if name.count("/") == 0]
    assert check_sources(SHIPPED, names, tables=True) == []
