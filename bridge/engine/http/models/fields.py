"""Field types of request bodies: what is accepted, what it becomes, and texts.

Scalar tags arrive as strings or numbers and become strings; blank means unset.
Objects and lists where a tag belongs are refused by the type itself.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Path
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    model_validator,
)

from bridge.engine.rules.identity import has_unseen
from bridge.engine.rules.text.document import Document, from_text, to_json
from bridge.engine.service.signing.page_actions import read_document
from bridge.request_body import Model

TAG_LENGTH = 1024
IDENTIFIER_BYTES = 1024


def _scalar(value: object) -> object:
    """Numbers count as text (they are what careless clients send for `all strings`)."""
    if isinstance(value, str | bool):
        return value
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def _whole(value: object) -> object:
    """As `_scalar`, but whole numbers only: a fraction has more than one spelling."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else value
    return _scalar(value)


def _indexable(text: str) -> str:
    """Bound what is indexed together: index rows of PostgreSQL end at 2,704 bytes."""
    few = len(text) * 4 <= IDENTIFIER_BYTES  # no character has more bytes
    if not few and len(text.encode("utf-8", "surrogatepass")) > IDENTIFIER_BYTES:
        message = f"String should have at most {IDENTIFIER_BYTES} bytes in UTF-8"
        raise ValueError(message)
    return text


def _visible(text: str) -> str:
    """Refuse what nobody sees: two identifiers that differ by it look the same."""
    if has_unseen(text):
        message = "String should have no control characters, line ends or marks of direction"
        raise ValueError(message)
    return text


# Constraints come first: what stands behind them is applied before them.
Tag = Annotated[
    str,
    StringConstraints(max_length=TAG_LENGTH),
    BeforeValidator(_scalar, json_schema_input_type=str | int | float | None),
]
"""A scalar clinicalInfo tag: optional, and empty when unset."""

Text = Annotated[str, BeforeValidator(_scalar, json_schema_input_type=str | None)]
"""A long text, limited by the use case and not by the shape."""

Identifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_indexable),
    AfterValidator(_visible),
    BeforeValidator(
        _whole,
        json_schema_input_type=Annotated[
            str, Field(min_length=1, max_length=TAG_LENGTH, pattern=r"\S")
        ]
        | int,
    ),
]
"""A required part of an identity: blank is missing."""

OptionalIdentifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=TAG_LENGTH),
    AfterValidator(_indexable),
    BeforeValidator(
        _whole,
        json_schema_input_type=Annotated[str, Field(max_length=TAG_LENGTH)] | int | None,
    ),
]


OptionalNumber = Annotated[OptionalIdentifier, AfterValidator(_visible)]
"""A part of an identity that an SR file may supply."""


def _off(value: object) -> object:
    """Null is silence: what is optional may be sent as null by clients that send every member."""
    return False if value is None else value


Flag = Annotated[StrictBool, BeforeValidator(_off, json_schema_input_type=StrictBool | None)]
"""An optional switch, off when it is absent or null; nothing else passes for a boolean."""

QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_indexable),
    AfterValidator(_visible),
]


class Body(Model):
    """A request body: frozen, tolerant of members that it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_enum_values=False)


class ResponseType(StrEnum):
    """What a launch answers with."""

    LINK = "link"
    QRCODE = "qrcode"
    ALL = "all"


def null_as(default: StrEnum) -> BeforeValidator:
    """Take null for `default`, in an optional choice."""
    return BeforeValidator(
        lambda value: default if value is None else value,
        json_schema_input_type=type(default) | None,
    )


def nest_identity(body: Any, members: tuple[str, ...]) -> Any:
    """
    Move flat identity members into `clinicalInfo` when that is absent.

    The interface document nests them for most endpoints and leaves them flat for
    two; both forms are accepted everywhere.
    """
    if not isinstance(body, Mapping) or "clinicalInfo" in body:
        return body
    flat = {name: body[name] for name in members if name in body}
    return {**body, "clinicalInfo": flat} if flat else body


def flatten_identity(body: Any, members: tuple[str, ...]) -> Any:
    """Move members of a nested `clinicalInfo` to the top where they are absent there."""
    if not isinstance(body, Mapping) or not isinstance(body.get("clinicalInfo"), Mapping):
        return body
    nested = {name: body["clinicalInfo"][name] for name in members if name in body["clinicalInfo"]}
    return {**nested, **body}


Trigger = Annotated[
    str, StringConstraints(pattern=r"^[^\s\x85/]{1,32}$"), Path(description="One word, no slash")
]
"""What is typed for a macro."""


class TextBody(Body):
    """A text, in one of two forms."""

    document: dict[str, Any] | None = None
    text: str | None = Field(default=None, max_length=4_000_000)

    @model_validator(mode="after")
    def _one_of_both(self) -> "TextBody":
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


class MacroBody(TextBody):
    """A macro: its text, and what it is called in lists."""

    name: OptionalIdentifier = ""


class MappingBody(Body):
    """Key findings to be mapped into a template."""

    findings: str = Field(default="", max_length=100_000)


class FindingsBody(TextBody):
    """The text as it stands, and key findings to be put into its sections."""

    findings: str = Field(max_length=100_000)
