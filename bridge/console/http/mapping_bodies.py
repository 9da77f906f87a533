"""What requests of the mapping pages carry: bounded, and strict as all others."""

import base64
import binascii
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from bridge.request_body import Model

_MOST_FILES, _LONGEST_FILE = 64, 400_000
_MOST_MESSAGES, _LONGEST_TEXT = 100, 4_000_000

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
TABLE = r"^[A-Za-z0-9_-]{1,64}$"
Name = Annotated[str, Field(pattern=NAME)]
TableName = Annotated[str, Field(pattern=TABLE)]
Version = Annotated[str, Field(pattern=r"^[0-9a-f]{0,16}$")]
Word = Annotated[str, Field(pattern=r"^(now|active|draft|files|previous|[0-9a-f]{4,16})$")]
FileName = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_-]{1,64}\.(yaml|py)|codes/[A-Za-z0-9_-]{1,64}\.csv|"
        r"include/[A-Za-z0-9_-]{1,64}\.yaml)$"
    ),
]
FileText = Annotated[str, Field(max_length=_LONGEST_FILE)]
Reason = Annotated[str, Field(max_length=500)]


class _Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DraftBody(_Body):
    """The files that differ from what the draft was begun on."""

    files: Annotated[dict[FileName, FileText], Field(max_length=_MOST_FILES)]
    begun_on: Version
    revision: Annotated[int, Field(ge=0, lt=2**53)]


class StoredBody(_Body):
    """The last stored messages, or those with a control id (MSH-10)."""

    last: Annotated[int, Field(ge=1, le=50)] = 10
    control: Annotated[str, Field(max_length=200)] = ""


class Material(_Body):
    """Messages of a user's own: pasted text, and the bytes of files as base64."""

    text: Annotated[str, Field(max_length=_LONGEST_TEXT)] = ""
    files: Annotated[
        list[Annotated[str, Field(max_length=_LONGEST_TEXT)]], Field(max_length=_MOST_MESSAGES)
    ] = Field(default_factory=list)

    @field_validator("files")
    @classmethod
    def _are_base64(cls, value: list[str]) -> list[str]:
        for each in value:
            _decoded(each)
        return value

    @property
    def data(self) -> list[bytes]:
        """The bytes of the files."""
        return [_decoded(each) for each in self.files]


class SpecimenBody(_Body):
    """One message to try."""

    payload: Annotated[str, Field(max_length=_LONGEST_TEXT)]
    listener: Annotated[str, Field(max_length=100)] = ""
    mapping: Annotated[str, Field(max_length=100)] = ""
    """What the message was stored with: its definition, and the version."""
    version: Annotated[str, Field(max_length=64)] = ""

    @field_validator("payload")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        _decoded(value)
        return value

    @property
    def data(self) -> bytes:
        """The message's bytes."""
        return _decoded(self.payload)


class TrialBody(_Body):
    """Which version to try, and on what."""

    word: Word = "draft"
    messages: Annotated[list[SpecimenBody], Field(max_length=_MOST_MESSAGES)]


class CompareBody(_Body):
    """Two versions, and over how many stored messages."""

    before: Word
    after: Word
    last: Annotated[int, Field(ge=1, le=1000)] = 100


class ActivateBody(_Body):
    """Why, on what the draft was begun, and which listeners are to read with it from now on."""

    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version
    revision: Annotated[int, Field(ge=1, lt=2**53)]
    listeners: Annotated[list[str], Field(max_length=50)] = Field(default_factory=list)

    @field_validator("reason")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a reason is needed")
        return value.strip()


class RollbackBody(_Body):
    """Which version, none: the one before; and which is in force as the page knows it."""

    reason: Reason = ""
    version: Version = ""
    begun_on: Version


class CodeBody(_Body):
    """An entry for a code table; `back`: what messages had is a value, and its code is given."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    value: Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]
    back: bool = False


class LeaveBody(_Body):
    """A code that stays without an entry; empty: those that have no name."""

    mapping: Name
    code_table: TableName
    code: Annotated[str, Field(max_length=200)] = ""


class ReadingBody(_Body):
    """The definitions that a listener reads with, in their order; none: as in its settings."""

    mappings: Annotated[list[Name], Field(max_length=50)]
    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
