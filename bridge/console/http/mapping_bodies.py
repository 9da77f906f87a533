"""Request bodies of the mapping pages, with bounded sizes. An unknown member is an error."""

import base64
import binascii
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from bridge.request_body import Model

_MAX_FILES, _MAX_FILE_LENGTH = 64, 400_000
_MAX_MESSAGES, _MAX_TEXT_LENGTH = 100, 4_000_000

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
TABLE = r"^[A-Za-z0-9_-]{1,64}$"
Name = Annotated[str, Field(pattern=NAME)]
TableName = Annotated[str, Field(pattern=TABLE)]
Version = Annotated[str, Field(pattern=r"^[0-9a-f]{0,16}$")]
VersionName = Annotated[str, Field(pattern=r"^(now|active|draft|files|previous|[0-9a-f]{4,16})$")]
FileName = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_-]{1,64}\.(yaml|py)|codes/[A-Za-z0-9_-]{1,64}\.csv|"
        r"include/[A-Za-z0-9_-]{1,64}\.yaml)$"
    ),
]
FileText = Annotated[str, Field(max_length=_MAX_FILE_LENGTH)]
Reason = Annotated[str, Field(max_length=500)]


class _Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DraftBody(_Body):
    """The changed files of a draft, and the version that the draft is based on."""

    files: Annotated[dict[FileName, FileText], Field(max_length=_MAX_FILES)]
    begun_on: Version
    revision: Annotated[int, Field(ge=0, lt=2**53)]


class StoredBody(_Body):
    """The last stored messages, or those with a control id (MSH-10)."""

    last: Annotated[int, Field(ge=1, le=50)] = 10
    control: Annotated[str, Field(max_length=200)] = ""


class SampleMessagesBody(_Body):
    """Sample messages: pasted text, and files as base64."""

    text: Annotated[str, Field(max_length=_MAX_TEXT_LENGTH)] = ""
    files: Annotated[
        list[Annotated[str, Field(max_length=_MAX_TEXT_LENGTH)]], Field(max_length=_MAX_MESSAGES)
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


class TrialMessageBody(_Body):
    """One message to try, as base64."""

    payload: Annotated[str, Field(max_length=_MAX_TEXT_LENGTH)]
    listener: Annotated[str, Field(max_length=100)] = ""
    mapping: Annotated[str, Field(max_length=100)] = ""
    """The definition that read a stored message, and its version."""
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
    """The version to try (`word`), and the messages."""

    word: VersionName = "draft"
    messages: Annotated[list[TrialMessageBody], Field(max_length=_MAX_MESSAGES)]


class CompareBody(_Body):
    """Two versions to compare on the `last` stored messages."""

    before: VersionName
    after: VersionName
    last: Annotated[int, Field(ge=1, le=1000)] = 100


class ActivateBody(_Body):
    """The draft to activate, the reason, and the listeners that use the definition from then on."""

    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version
    revision: Annotated[int, Field(ge=1, lt=2**53)]
    listeners: Annotated[list[str], Field(max_length=50)] = Field(default_factory=list)

    @field_validator("reason")
    @classmethod
    def _is_not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a reason is needed")
        return value.strip()


class RollbackBody(_Body):
    """The version to activate, empty: the previous one; `begun_on`: the active one as displayed."""

    reason: Reason = ""
    version: Version = ""
    begun_on: Version


class CodeBody(_Body):
    """An entry for a code table; `back`: the unmapped text is the value, and the code is new."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    value: Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]
    back: bool = False


class IgnoredCodeBody(_Body):
    """A code that stays without an entry; empty: the codes that are not shown."""

    mapping: Name
    code_table: TableName
    code: Annotated[str, Field(max_length=200)] = ""


class ListenerDefinitionsBody(_Body):
    """The definitions of a listener, in their order; an empty list: as in its settings."""

    mappings: Annotated[list[Name], Field(max_length=50)]
    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
