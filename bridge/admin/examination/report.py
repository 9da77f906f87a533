"""The report of an examination, as text and as HTML, to send to the partner."""

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import Final

from bridge.admin.examination.results import Examination, ProbeResult, Verdict

_MARKS: Final = {
    Verdict.OK: "ok",
    Verdict.NOTE: "NOTE",
    Verdict.FAULT: "FAULT",
    Verdict.SKIPPED: "skipped",
}
_TITLES: Final = {"receiver": "Examination of the receiver", "sender": "Examination of the sender"}
_ABOUT: Final = (
    "All messages have processing id T (MSH-11), an invented patient, and a control id that begins"
    " with EXAM. This report contains no patient data."
)
_STYLE: Final = (
    "body{font:14px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;"
    "color:#1c2430;background:#fff}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.4em .6em;border-bottom:1px solid #d5dae2}"
    "td:nth-child(4),th:nth-child(4){text-align:right;white-space:nowrap}"
    ".ok{color:#17653a}.note{color:#805200}.fault{color:#a4161a;font-weight:600}"
    ".skipped{color:#5b6472}small{display:block;color:#5b6472}"
)


def text_report(examination: Examination) -> str:
    """Return the report as plain text."""
    title = f"{_TITLES[examination.role]} {examination.target}"
    lines = [title, "=" * len(title), "", *_facts(examination), ""]
    for result in examination.results:
        lines += text_lines(result)
    return "\n".join([*lines, "", _ABOUT, ""])


def text_lines(result: ProbeResult) -> Iterator[str]:
    """Yield the lines of one result."""
    took = f"{result.took_ms:>7} ms" if result.verdict is not Verdict.SKIPPED else " " * 10
    yield f"{_MARKS[result.verdict]:<8}{took}  {result.title}: {result.words}"
    if result.verdict in (Verdict.NOTE, Verdict.FAULT):
        if result.expected:
            yield f"{'':20}expected: {result.expected}"
        if result.advice:
            yield f"{'':20}{result.advice}"


def html_report(examination: Examination) -> str:
    """Return the report as one HTML page without scripts and without other files."""
    title = escape(f"{_TITLES[examination.role]} {examination.target}")
    facts = "".join(f"<p>{escape(fact)}</p>" for fact in _facts(examination))
    rows = "\n".join(map(_row, examination.results))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>{facts}\n<table><thead><tr>"
        '<th scope="col">Result</th><th scope="col">Probe</th><th scope="col">What happened</th>'
        f'<th scope="col">Time</th></tr></thead><tbody>\n{rows}\n</tbody></table>\n'
        f"<p>{escape(_ABOUT)}</p></body></html>\n"
    )


def _facts(examination: Examination) -> list[str]:
    began = datetime.fromtimestamp(examination.began_at / 1000, UTC)
    seconds = (examination.ended_at - examination.began_at) / 1000
    counts = ", ".join(
        f"{examination.count(verdict)} {_MARKS[verdict].lower()}" for verdict in Verdict
    )
    direction = "sent" if examination.role == "receiver" else "received"
    return [
        f"{began:%Y-%m-%d %H:%M} UTC, {seconds:.0f} s, {examination.sent} messages {direction}.",
        f"{counts}.",
    ]


def _row(result: ProbeResult) -> str:
    more = ""
    if result.verdict in (Verdict.NOTE, Verdict.FAULT):
        expected = f"expected: {result.expected}" if result.expected else ""
        more = "".join(
            f"<small>{escape(text)}</small>" for text in (expected, result.advice) if text
        )
    took = "" if result.verdict is Verdict.SKIPPED else f"{result.took_ms:,} ms"
    return (
        f'<tr><td class="{result.verdict}">{_MARKS[result.verdict].lower()}</td>'
        f"<td>{escape(result.title)}</td><td>{escape(result.words)}{more}</td><td>{took}</td></tr>"
    )
