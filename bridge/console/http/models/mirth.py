"""Responses about the import from Mirth Connect."""

from pydantic import BaseModel


class ConvertedChannel(BaseModel):
    """A channel of the export, with its line, and the names of what is proposed for it."""

    name: str
    version: str
    line: int
    listener: str
    definition: str
    destinations: list[str]


class MirthFinding(BaseModel):
    """
    What became of a part of the export: `converted`, `check` or `not converted`.

    `text` says what it became, or why it was not converted. `excerpt` is the begin of a script.
    """

    line: int
    what: str
    outcome: str
    text: str
    hint: str
    excerpt: str


class MirthConversion(BaseModel):
    """
    A proposal. `package` is an interface package (ZIP, base64), empty if there is none.

    `files` are its files. `issues` are what the checker says about the definitions.
    """

    package: str
    files: dict[str, str]
    channels: list[ConvertedChannel]
    report: list[MirthFinding]
    issues: list[str]
