"""
The initial text of a report: key findings and SR texts, in the requested template.

It is written only into a report that has no text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy
from sqlalchemy import Connection

from bridge.engine.records.tables import Report, metadata
from bridge.engine.rules.text.document import Document, from_text, restore, to_json
from bridge.engine.rules.text.key_findings import apply_template
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service.work import Work

TEMPLATES = metadata.tables["engine_template"]


@dataclass(frozen=True, slots=True)
class FirstText:
    """The initial text of a report, and the number of its template."""

    document: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)
    template_number: int | None


def first_text_of(
    connection: Connection, site_id: str, options: Mapping[str, Any], text: str
) -> FirstText | None:
    """
    Return the initial text of a report; None if there is nothing to write.

    With a template (ApplyTemplate) the text is mapped into the template's sections. Without one the
    text is used as it is.
    """
    template, number = _template(connection, site_id, options)
    if template is None and not text.strip():
        return None
    document = from_text(text) if template is None else apply_template(template, text)
    return FirstText(to_json(document), plain_text(document), number)


def write_first_text(work: Work, report: Report, text: str) -> bool:
    """Write the initial text into a report that has none; tell whether it was written."""
    if report.content_text.strip() or report.template_number is not None:
        return False
    first = first_text_of(work.connection, report.site_id, report.reporting, text)
    if first is None:
        return False
    report.template_number = first.template_number
    report.document = dict(first.document)
    # A text that still equals the key findings has not been edited.
    report.content_text = report.key_findings = first.text
    return True


def rewrite(work: Work, report: Report, text: str) -> None:
    """Replace an unedited initial text, with the template that was applied."""
    report.content_text, report.template_number = "", None
    write_first_text(work, report, text)


def joined(*texts: str) -> str:
    """Return the distinct texts, separated by blank lines: key findings, then SR files."""
    return "\n\n".join(dict.fromkeys(part for each in texts if (part := each.strip())))


def _template(
    connection: Connection, site_id: str, options: Mapping[str, Any]
) -> tuple[Document | None, int | None]:
    number = options.get("template")
    if number is None:
        return None, None
    query = sqlalchemy.select(TEMPLATES.c.document).where(
        TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number
    )
    stored = connection.execute(query).scalar_one_or_none()
    return (None, None) if stored is None else (restore(stored), int(number))
