"""
A report as plain text: the content alone, or with its addenda and signatures.

The content is exactly what GET content and the JSON record give. No line is wrapped here.
"""

from datetime import tzinfo

from bridge.engine.documents.model import Exported
from bridge.engine.documents.sheet import Part, lay_out
from bridge.engine.rules.document import Document
from bridge.engine.rules.plain_text import plain_text


def content(document: Document) -> str:
    """Return the text of a report or addendum (interface document, GET content)."""
    return plain_text(document)


def render(exported: Exported, zone: tzinfo) -> str:
    """Return report and addenda one after the other, each with heading and signature line."""
    sheet = lay_out(exported, zone)
    banner = f"{sheet.banner}\n\n" if sheet.banner else ""
    return banner + "\n\n".join(_part(part) for part in (sheet.report, *sheet.addenda)) + "\n"


def _part(part: Part) -> str:
    lines = (part.heading, plain_text(part.body), part.signature)
    return "\n\n".join(line for line in lines if line)
