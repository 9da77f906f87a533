"""The style settings of an outbound definition: their effects and their errors."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mappings.compiler import compile_sources
from mappings.hl7.message import Message
from mappings.hl7.versions import VERSIONS
from mappings.language.definition_files import overlay_settings
from mappings.language.diagnostics import MappingErrors
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.encoding import Encoded, fit_to_version
from mappings.outbound.results import (
    FileFormat,
    ResultEvent,
    SentSection,
    SignedAddendum,
    Signer,
)
from tests.mappings.definitions import SHIPPED
from tests.mappings.results import CONTEXT, NOW, ORDER, rendered

LATE = (SignedAddendum("more", NOW, Signer("Bea Late")),)


def with_settings(name: str = "results", **settings: Any) -> OutboundMapping:
    made = compile_sources(*overlay_settings(SHIPPED, name, settings, "destination ris"))
    assert isinstance(made, OutboundMapping)
    return made


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": "2.5.2"}, "unknown version '2.5.2'"),
    "layout": ({"layout": "block"}, "unknown layout 'block'"),
    "coding": ({"sections": "lonic"}, "did you mean 'loinc'?"),
    "addenda": ({"addenda": "newst"}, "did you mean 'newest'?"),
    "orders": ({"orders": "seperate"}, "did you mean 'separate'?"),
    "content": ({"content": ["text", "docx"]}, "unknown content 'docx'"),
    "no content": ({"content": []}, "name at least one of text, pdf, rtf"),
    "interpreter": ({"interpreter": "cn"}, "unknown interpreter 'cn'"),
    "times": ({"times": "utc"}, "unknown times 'utc'"),
    "echo": ({"echo": "all"}, "unknown echo 'all'"),
    "target": ({"metadata": {"Room": "OBX-5"}}, "'OBX-5' is no target"),
    "situation": ({"statuses": {"final after prelim": {}}}, "did you mean 'preliminary'?"),
    "base": ({"statuses": {"recall after final": {}}}, "recall is missing beside"),
    "part": ({"segments": [{"use": "heder"}]}, "did you mean 'header'?"),
    "itself": ({"parts": {"visit": [{"use": "visit"}]}}, "visit uses itself"),
    "no effect": (
        {"interpreter": "xcn", "segments": [{"MSH": {"10": "$control_id"}}]},
        "interpreter: has no effect: no segment has $interpreter",
    ),
    "no files": (
        {"content": ["pdf"], "segments": [{"MSH": {"10": "$control_id"}}]},
        "content: has no effect: no segment has each: documents",
    ),
}


@pytest.mark.parametrize(("settings", "expected"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(settings: dict[str, Any], expected: str) -> None:
    """An invalid setting is reported with its location and a suggestion."""
    with pytest.raises(MappingErrors) as caught:
        with_settings(**settings)
    assert expected in str(caught.value)


def test_without_settings_nothing_changes() -> None:
    """Without settings the mapping is unchanged."""
    assert with_settings().version == compile_sources(SHIPPED, "results").version
    assert with_settings().version != with_settings(version="2.4").version


FITTED = {
    "the last field": ("2.3", "OBX", 17, "a^b", "a^b"),
    "too many fields": ("2.3", "OBR", 44, "A^B^L", ""),
    "a code that was a text": ("2.3", "PID", 10, "^Asian^L", "Asian"),
    "a family name in parts": ("2.3", "PID", 5, "van Berg&van&Berg^Ann", "van Berg^Ann"),
    "one repetition": ("2.3", "PID", 5, "A^B~C^D", "A^B"),
    "components of later": ("2.3.1", "PID", 3, "1^^^N^MR^^20200101", "1^^^N^MR"),
    "subcomponents of later": ("2.3.1", "PID", 3, "1^^^N&1.2&ISO&X", "1^^^N&1.2&ISO"),
    "the structure of a message": ("2.3", "MSH", 9, "ORU^R01^ORU_R01", "ORU^R01"),
    "as it is": ("2.5.1", "OBR", 44, "A^B^L", "A^B^L"),
    "text": ("2.3", "OBX", 5, "a^b&c~d", "a^b&c~d"),
    "segments of one's own": ("2.3", "ZDS", 99, "a^b&c~d", "a^b&c~d"),
}


@pytest.mark.parametrize(("version", "segment", "number", "value", "left"), FITTED.values())
def test_fitted(version: str, segment: str, number: int, value: str, left: str) -> None:
    """A field keeps what the version has."""
    assert fit_to_version(VERSIONS[version], segment, number, Encoded(value)) == left


def test_fields_written_in_some_cases_are_echoed() -> None:
    """Fields that the definition writes only in some cases are repeated otherwise."""
    lines = (
        "MSH|^~\\&|R",
        "ORC|NW|P1|F1||SC||1^^^^^S|P0^A|20260301",
        "OBR|1|P1|F1|X" + "|" * 23 + "1^^^^^S",
    )
    order = replace(ORDER, echo=lines)
    message = Message.parse(with_settings(echo="whole").render(replace(CONTEXT, orders=(order,))))
    assert [message.value(path) for path in ("ORC-7", "ORC-8", "OBR-27")] == [
        *("1^^^^^S", "P0^A", "1^^^^^S")
    ]
    assert [message.value(path) for path in ("ORC-5", "ORC-9")] == ["", ""]


def test_the_previous_event_selects_the_codes() -> None:
    """`final after preliminary` applies only after a preliminary report was sent."""
    mapping = with_settings(
        statuses={"final after preliminary": {"result": "F", "observation": "U"}},
    )
    first = rendered(CONTEXT, mapping)
    second = rendered(replace(CONTEXT, earlier=(ResultEvent.PRELIMINARY,)), mapping)
    assert [m.value("OBX-11") for m in (first, second)] == ["F", "U"]


def test_metadata_targets() -> None:
    """Targets are observations, notes, fields, Z segments by key or by field, and none."""
    targets = {
        "Room": "NTE", "Dose": "OBR-21", "More": "OBR-21", "Plan": "ZMD-3", "Step": "ZMD-1",
        "Own": "ZOW", "Secret": "none", "*": "OBX",
    }  # fmt: skip
    order = replace(ORDER, metadata={key: key.lower() for key in (*targets, "Else") if key != "*"})
    message = rendered(replace(CONTEXT, orders=(order,)), with_settings(metadata=targets))
    assert [s.text() for s in message.named("NTE")] == ["NTE|1|L|Room: room"]
    assert message.value("OBR-21") == "dose more"
    assert [s.text() for s in message.segments if s.id in ("ZMD", "ZOW")] == [
        "ZOW|1|Own|own",
        "ZMD|step||plan",
    ]
    assert [s.value("OBX-3.2") for s in message.named("OBX") if s.value("OBX-11") == "O"] == [
        "Else"
    ]
    assert not any("secret" in segment.text() for segment in message.segments)
    ids = [s.id for s in message.segments]
    assert ids.index("NTE") == ids.index("OBR") + 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FINDINGS\nx\nIMPRESSION\ny", ["59776-5", "19005-8"]),
        ("Preamble\nFindings: x\n**Impression:** y", ["18748-4", "59776-5", "19005-8"]),
        ("Befund:\nx\n\nBeurteilung\ny", ["59776-5", "19005-8"]),
        ("所見\uff1ax\n印象\uff1ay", ["59776-5", "19005-8"]),
        ("The findings: all well", ["18748-4"]),
        ("Findings\nx\nFindings\ny", ["59776-5", "59776-5"]),
        ("findings of note\nimpressions vary", ["18748-4"]),
    ],
)
def test_headings(text: str, found: list[str]) -> None:
    """A heading starts a section, in any language; a sentence does not. No line is lost."""
    mapping = with_settings(sections="loinc", layout="repetitions")
    message = rendered(replace(CONTEXT, report_text=text), mapping)
    texts = message.named("OBX")
    assert [item.value("OBX-3.1") for item in texts] == found
    assert len({(item.value("OBX-3.1"), item.value("OBX-4")) for item in texts}) == len(found)
    lines = [line for item in texts for line in item.values("OBX-5")]
    assert lines == [line for line in text.split("\n") if line]


def test_a_repeated_section_that_was_sent_is_not_deleted() -> None:
    """Of the sections that the receiver has, only those without text now are deleted."""
    mapping = with_settings(sections="loinc")
    sent = tuple(SentSection("59776-5", "LN", number) for number in ("1", "2", "3"))
    text = "Findings\nx\nFindings\ny"
    message = rendered(replace(CONTEXT, report_text=text, sent_sections=sent), mapping)
    statuses = {s.value("OBX-4"): s.value("OBX-11") for s in message.named("OBX")}
    assert statuses == {"1": "F", "2": "F", "3": "D"}


def test_the_time_of_the_newest_addendum() -> None:
    """OBR-22 has the time at which the newest addendum was signed."""
    later = replace(LATE[0], signed_at=NOW + timedelta(hours=1))
    message = rendered(replace(CONTEXT, event=ResultEvent.ADDENDUM, addenda=(*LATE, later)))
    assert message.value("OBR-22").startswith("20260302163000")


def test_an_own_part() -> None:
    """A definition may replace one part and keep the others."""
    mapping = with_settings(parts={"visit": [{"PV1": {"2": "I"}}]})
    message = rendered(CONTEXT, mapping)
    assert message.value("PV1-2") == "I"
    assert [s.id for s in message.segments][:3] == ["MSH", "PID", "PV1"]


def test_a_child_names_its_parent() -> None:
    """ORC-8 and OBR-29 have the parent's number. Events other than addenda have no child."""
    mapping = with_settings(addenda="child")
    late = replace(CONTEXT, event=ResultEvent.ADDENDUM, addenda=LATE)
    child = Message.parse(mapping.render(late))
    assert (child.value("ORC-1"), child.value("OBR-3")) == ("CH", "F1-A1")
    assert (child.value("ORC-8"), child.value("OBR-29")) == ("P1&RISA^F1", "P1&RISA^F1")
    whole = Message.parse(mapping.render(replace(late, event=ResultEvent.CORRECTION)))
    assert (whole.value("ORC-1"), whole.value("OBR-3"), whole.value("ORC-8")) == ("RE", "F1", "")
    assert "more" not in whole.values("OBX[*]-5")


@pytest.mark.parametrize("event", [ResultEvent.RETRACTION, ResultEvent.CANCELLATION])
@pytest.mark.parametrize("sections", ["none", "loinc", "dicom"])
def test_a_withdrawal_withdraws_all_sections(event: ResultEvent, sections: str) -> None:
    """OBX-3 and OBX-4 of each section and addendum that may have been sent are withdrawn."""
    mapping = with_settings(sections=sections)
    text = "Before\nHistory: a\nTechnique: b\nFindings: c\nImpression: d\nConclusion: e"
    sent = replace(CONTEXT, report_text=text, addenda=LATE * 2)
    removed = replace(sent, event=event, report_text="Withdrawn.")
    keys = [
        {(s.value("OBX-3.1"), s.value("OBX-4")) for s in rendered(message, mapping).named("OBX")}
        for message in (sent, removed)
    ]
    assert keys[0] <= keys[1]
    assert set(rendered(removed, mapping).values("OBX[*]-5")) == {"Withdrawn."}


def test_a_file_is_withdrawn_too() -> None:
    """A sent file is withdrawn under its OBX-3 and OBX-4; other formats are not."""
    mapping = with_settings(content=["pdf"])
    sent = replace(CONTEXT, files={FileFormat.PDF: b"%PDF-"})
    removed = replace(sent, event=ResultEvent.CANCELLATION, report_text="Withdrawn.", files={})
    found = [
        [(s.value("OBX-3"), s.value("OBX-4")) for s in rendered(message, mapping).named("OBX")]
        for message in (sent, removed)
    ]
    assert found[0] == found[1]
    assert [s.value("OBX-2") for s in rendered(removed, mapping).named("OBX")] == ["TX"]
