"""
Field types of request bodies.

A scalar tag may be sent as a string or a number and becomes a string; blank means unset. Objects
and lists are refused where a tag is expected.
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
from typing_extensions import override

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.rules.order import has_invisible
from bridge.engine.rules.text.document import MAX_NODES, Document, from_text, to_json
from bridge.engine.rules.text.plain_text import from_lines
from bridge.engine.service.signing.page_actions import read_document
from bridge.web.bodies import Model

TAG_LENGTH = 1024
IDENTIFIER_BYTES = 1024


def _scalar(value: object) -> object:
    """Convert numbers to text, because some clients send numbers for string tags."""
    if isinstance(value, str | bool):
        return value
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def _whole_number(value: object) -> object:
    """Convert whole numbers to text; a fraction is refused, as it has several spellings."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else value
    return _scalar(value)


def _require_indexable(text: str) -> str:
    """Limit the bytes of an identifier: an index row of PostgreSQL has at most 2,704 bytes."""
    short = len(text) * 4 <= IDENTIFIER_BYTES  # a character has at most 4 bytes
    if not short and len(text.encode("utf-8", "surrogatepass")) > IDENTIFIER_BYTES:
        message = f"String should have at most {IDENTIFIER_BYTES} bytes in UTF-8"
        raise ValueError(message)
    return text


def _require_visible(text: str) -> str:
    """Refuse invisible characters: two identifiers that differ by one look the same."""
    if has_invisible(text):
        message = "String should have no control characters, line ends or direction marks"
        raise ValueError(message)
    return text


# Pydantic applies the validators of an annotation from right to left.
Tag = Annotated[
    str,
    StringConstraints(max_length=TAG_LENGTH),
    BeforeValidator(_scalar, json_schema_input_type=str | int | float | None),
]
"""A scalar clinicalInfo tag: optional, and empty when unset."""

Text = Annotated[str, BeforeValidator(_scalar, json_schema_input_type=str | None)]
"""A long text; the use case limits its length."""

Identifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    AfterValidator(_require_visible),
    BeforeValidator(
        _whole_number,
        json_schema_input_type=Annotated[
            str, Field(min_length=1, max_length=TAG_LENGTH, pattern=r"\S")
        ]
        | int,
    ),
]
"""A required identifier; blank counts as missing."""

OptionalIdentifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    BeforeValidator(
        _whole_number,
        json_schema_input_type=Annotated[str, Field(max_length=TAG_LENGTH)] | int | None,
    ),
]


OptionalVisibleIdentifier = Annotated[OptionalIdentifier, AfterValidator(_require_visible)]
"""An optional identifier without invisible characters."""


def _null_as_false(value: object) -> object:
    """Accept null as absent: some clients send every optional member."""
    return False if value is None else value


Flag = Annotated[
    StrictBool, BeforeValidator(_null_as_false, json_schema_input_type=StrictBool | None)
]
"""An optional boolean, false if it is absent or null; other types are refused."""

QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    AfterValidator(_require_visible),
]

OptionalQueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
]


class Body(Model):
    """A request body; it is immutable and ignores unknown members."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_enum_values=False)


class ResponseType(StrEnum):
    """The content of a launch response."""

    LINK = "link"
    QRCODE = "qrcode"
    ALL = "all"


def null_as(default: StrEnum) -> BeforeValidator:
    """Accept null as `default` in an optional choice."""
    return BeforeValidator(
        lambda value: default if value is None else value,
        json_schema_input_type=type(default) | None,
    )


def nest_identity(body: Any, members: tuple[str, ...]) -> Any:
    """
    Move flat identity members into `clinicalInfo` if that is absent.

    The interface reference nests them for most endpoints and not for two; both forms are accepted
    everywhere.
    """
    if not isinstance(body, Mapping) or "clinicalInfo" in body:
        return body
    flat = {name: body[name] for name in members if name in body}
    return {**body, "clinicalInfo": flat} if flat else body


def flatten_identity(body: Any, members: tuple[str, ...]) -> Any:
    """Copy members of a nested `clinicalInfo` to the top level if they are absent there."""
    if not isinstance(body, Mapping) or not isinstance(body.get("clinicalInfo"), Mapping):
        return body
    nested = {name: body["clinicalInfo"][name] for name in members if name in body["clinicalInfo"]}
    return {**nested, **body}


Trigger = Annotated[
    str, StringConstraints(pattern=r"^[^\s\x85/]{1,32}$"), Path(description="One word, no slash")
]
"""The word that a user types for a macro."""


class TextBody(Body):
    """A text, as a structured document or as plain text."""

    document: dict[str, Any] | None = None
    text: str | None = Field(default=None, max_length=4_000_000)

    @model_validator(mode="after")
    def _one_of_both(self) -> "TextBody":
        if (self.document is None) == (self.text is None):
            message = "either document or text is needed"
            raise ValueError(message)
        return self

    def sent(self) -> dict[str, Any]:
        """Return the JSON of the document; not validated. Raise EngineError for too many lines."""
        if self.document is not None:
            return self.document
        text = self.text or ""
        # Counted first: a document of millions of lines needs seconds and a gigabyte.
        if text.count("\n") + text.count("\r") - text.count("\r\n") >= MAX_NODES:
            raise EngineError(ErrorCode.BAD_DOCUMENT, pointer="/document/content")
        return to_json(self.read_text(text))

    def read_text(self, text: str) -> Document:
        """Return the document of a plain text."""
        return from_text(text)

    def content(self) -> Document:
        """Return the document in either form; raise `EngineError`."""
        return read_document(self.sent())


class MacroBody(TextBody):
    """A macro: its text, and its name in lists."""

    name: OptionalIdentifier = ""

    @override
    def read_text(self, text: str) -> Document:
        """Return the document of a plain text whose brackets are fields, as in a template."""
        return from_lines(text)


class MappingBody(Body):
    """Key findings to be mapped into a template."""

    findings: str = Field(default="", max_length=100_000)


class FindingsBody(TextBody):
    """The current text, and key findings to insert into its sections."""

    findings: str = Field(max_length=100_000)
