"""
The first text of a report: key findings and SR texts, in the template that was asked for.

Knows no launch; whether a report has a text already is asked here and nowhere else.
"""

from collections.abc import Iterable

from sqlmodel import select

from bridge.engine.records.tables import Report, Template
from bridge.engine.rules.document import Document, from_text, parse, plain_text, to_json
from bridge.engine.rules.mapping import apply_template
from bridge.engine.service.work import Work


def first_text(work: Work, report: Report, text: str) -> bool:
    """
    Write the first text of a report that has none; tell whether it did.

    With a template (ApplyTemplate) its document becomes the draft and the text is mapped into
    its sections; without one the text stands as it came.
    """
    if report.content_text.strip() or report.template_number is not None:
        return False
    template, number = _template(work, report)
    if template is None and not text.strip():
        return False
    document = from_text(text) if template is None else apply_template(template, text)
    report.template_number = number
    report.document = to_json(document)
    # What still equals the findings it was filled with, nobody has written in.
    report.content_text = report.key_findings = plain_text(document)
    return True


def rewrite(work: Work, report: Report, text: str) -> None:
    """Write another first text, with the template that was applied, over an untouched one."""
    report.content_text, report.template_number = "", None
    first_text(work, report, text)


def joined(key_findings: str, texts: Iterable[str]) -> str:
    """Return the key findings, then what each SR file says."""
    return "\n\n".join(part for each in (key_findings, *texts) if (part := each.strip()))


def _template(work: Work, report: Report) -> tuple[Document | None, int | None]:
    number = report.reporting.get("template")
    if number is None:
        return None, None
    query = select(Template.document).where(
        Template.site_id == report.site_id, Template.number == number
    )
    stored = work.session.exec(query).first()
    return (None, None) if stored is None else (parse(stored), int(number))
