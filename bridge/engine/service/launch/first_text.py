"""The first text of a report: key findings and SR texts, in the template that was asked for.

Knows no launch; whether a report has a text already is asked here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from bridge.engine.records.tables import Report, metadata
from bridge.engine.rules.text.document import Document, from_text, restore, to_json
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service.work import Work

TEMPLATES = metadata.tables["engine_template"]


@dataclass(frozen=True, slots=True)
class FirstText:
    """The first text of a report, and the number of the template that it is written in."""

    document: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)
    template_number: int | None


def first_text_of(
    connection: Connection, site_id: str, wishes: Mapping[str, Any], text: str
) -> FirstText | None:
    """
    Return the first text of a report that has none; None where there is nothing to write.

    With a template (ApplyTemplate) its document becomes the draft and the text is mapped into
    its sections; without one the text stands as it came.
    """
    template, number = _template(connection, site_id, wishes)
    if template is None and not text.strip():
        return None
    document = from_text(text) if template is None else apply_template(template, text)
    return FirstText(to_json(document), plain_text(document), number)


def first_text(work: Work, report: Report, text: str) -> bool:
    """Write the first text of a report that has none; tell whether it did."""
    if report.content_text.strip() or report.template_number is not None:
        return False
    first = first_text_of(work.connection, report.site_id, report.reporting, text)
    if first is None:
        return False
    report.template_number = first.template_number
    report.document = dict(first.document)
    # What still equals the findings it was filled with, nobody has written in.
    report.content_text = report.key_findings = first.text
    return True


def rewrite(work: Work, report: Report, text: str) -> None:
    """Write another first text, with the template that was applied, over an untouched one."""
    report.content_text, report.template_number = "", None
    first_text(work, report, text)


def joined(*texts: str) -> str:
    """Return texts one below the other, each once: key findings, then what each SR file says."""
    return "\n\n".join(dict.fromkeys(part for each in texts if (part := each.strip())))


def _template(
    connection: Connection, site_id: str, wishes: Mapping[str, Any]
) -> tuple[Document | None, int | None]:
    number = wishes.get("template")
    if number is None:
        return None, None
    query = select(TEMPLATES.c.document).where(
        TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number
    )
    stored = connection.execute(query).scalar_one_or_none()
    return (None, None) if stored is None else (restore(stored), int(number))
