"""The report of an examination, as text, HTML or PDF, to send to the partner."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from bridge.admin.examination.proposal import ProposedChange
from bridge.admin.examination.results import Examination, ProbeResult, Verdict
from bridge.admin.specification.document import Document, Paragraph, Section, Table

_MARKS: Final = {
    Verdict.OK: "ok",
    Verdict.NOTE: "NOTE",
    Verdict.FAULT: "FAULT",
    Verdict.SKIPPED: "skipped",
}
_TITLES: Final = {"receiver": "Examination of the receiver", "sender": "Examination of the sender"}
_ABOUT: Final = {
    "receiver": "All messages have processing id T (MSH-11), an invented patient, and a control id"
    " that begins with EXAM. This report contains no patient data.",
    "sender": "The messages were read for their header only, answered as the probes say, and not"
    " stored. This report contains no patient data.",
}
_LEGEND: Final = (
    "ok: as the standard wants, or harmless. NOTE: permitted, but good to know. FAULT: against the"
    " standard, or a message is lost."
)


_PROPOSED: Final = (
    "With these settings Report Bridge fits the partner as it is. The partner need not know them;"
    " they say what Report Bridge does until the partner has corrected a fault."
)


def document_of(
    examination: Examination, changes: Sequence[ProposedChange] = (), agreed: str = ""
) -> Document:
    """
    Return the report as a document; `agreed` is who at the partner agreed.

    `changes` are the settings that would fit.
    """
    rows = [
        [
            _MARKS[result.verdict],
            result.title,
            result.words,
            "" if result.verdict is Verdict.SKIPPED else f"{result.took_ms:,} ms",
        ]
        for result in examination.results
    ]
    columns = ("Result", "Probe", "What happened", "Time")
    advice = [
        [_MARKS[result.verdict], result.title, result.expected, result.advice]
        for result in examination.results
        if result.verdict in (Verdict.FAULT, Verdict.NOTE) and (result.expected or result.advice)
    ]
    sections = [Section("Results", [Paragraph(_LEGEND), Table(columns, rows, (1, 3, 5, 1))])]
    if advice:
        headings = ("Result", "Probe", "Expected", "Advice")
        sections.append(Section("Expected", [Table(headings, advice, (1, 3, 3, 4))]))
    if changes:
        settings = [[change.line, change.why] for change in changes]
        table = Table(("Setting", "Why"), settings, (3, 5))
        sections.append(Section("Settings of Report Bridge", [Paragraph(_PROPOSED), table]))
    sections.append(Section("Messages", [Paragraph(_ABOUT[examination.role])]))
    facts = _facts(examination)
    return Document(
        title=f"{_TITLES[examination.role]} {examination.target}",
        facts=[*facts, f"Agreed with {agreed}."] if agreed else facts,
        sections=sections,
    )


def text_lines(result: ProbeResult) -> Iterator[str]:
    """Yield the lines of one result, as the command prints them."""
    took = f"{result.took_ms:>7} ms" if result.verdict is not Verdict.SKIPPED else " " * 10
    yield f"{_MARKS[result.verdict]:<8}{took}  {result.title}: {result.words}"
    if result.verdict in (Verdict.NOTE, Verdict.FAULT):
        if result.expected:
            yield f"{'':20}expected: {result.expected}"
        if result.advice:
            yield f"{'':20}{result.advice}"


def _facts(examination: Examination) -> list[str]:
    began = datetime.fromtimestamp(examination.began_at / 1000, UTC)
    seconds = (examination.ended_at - examination.began_at) / 1000
    counts = ", ".join(
        f"{examination.count(verdict)} {_MARKS[verdict].lower()}" for verdict in Verdict
    )
    direction = "sent" if examination.role == "receiver" else "received"
    messages = (
        "not finished" if examination.sent is None else f"{examination.sent} messages {direction}"
    )
    return [f"{began:%Y-%m-%d %H:%M} UTC, {seconds:.0f} s, {messages}.", f"{counts}."]
