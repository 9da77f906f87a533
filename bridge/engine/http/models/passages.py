"""Bodies with text in them: a document of ours, or plain text that becomes one."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import Field, StringConstraints, model_validator

from bridge.engine.http.models.fields import Body, OptionalIdentifier
from bridge.engine.rules.document import Document, from_text, to_json
from bridge.engine.service.editing import read_document

Trigger = Annotated[
    str, StringConstraints(pattern=r"^[^\s\x85/]{1,32}$"), Path(description="One word, no slash")
]
"""What is typed for a macro."""


class Passage(Body):
    """A text, in one of two forms."""

    document: dict[str, Any] | None = None
    text: str | None = Field(default=None, max_length=4_000_000)

    @model_validator(mode="after")
    def _one_of_both(self) -> "Passage":
        if (self.document is None) == (self.text is None):
            message = "either document or text is needed"
            raise ValueError(message)
        return self

    def sent(self) -> dict[str, Any]:
        """Return the document's JSON, whichever form was sent; not checked yet."""
        return to_json(from_text(self.text or "")) if self.document is None else self.document

    def content(self) -> Document:
        """Return the document, whichever form was sent; raise `RuleBroken`."""
        return read_document(self.sent())


class MacroBody(Passage):
    """A macro: its text, and what it is called in lists."""

    name: OptionalIdentifier = ""


class MappingBody(Body):
    """Key findings to be mapped into a template."""

    findings: str = Field(default="", max_length=100_000)


class FindingsBody(Passage):
    """The text as it stands, and key findings to be put into its sections."""

    findings: str = Field(max_length=100_000)
