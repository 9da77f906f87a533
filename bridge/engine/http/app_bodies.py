"""Bodies of the administrative endpoints (sites, users, tokens, templates), accounts and pages."""

# ruff: noqa: N815  # the spelling of the interface reference

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)
from typing_extensions import override

from bridge.audit.trail import TrailQuery
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import Body, Identifier, OptionalIdentifier
from bridge.engine.errors import EngineError
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import MAX_NODES, Document, from_text, to_json
from bridge.engine.rules.text.plain_text import from_lines
from bridge.engine.rules.timestamps import parse_iso
from bridge.engine.service.caller import TokenScope
from bridge.engine.service.signing.page_actions import read_document
from bridge.engine.service.sites.site_settings import (
    MAX_SIGN_DELAY,
    Language,
    Preferences,
    SiteSettings,
    apply_changes,
    prepare,
)

Names = Annotated[list[Identifier], Field(max_length=1000)]


Delay = Annotated[StrictInt, Field(ge=0, le=MAX_SIGN_DELAY, description="Seconds; 0: none.")]
Zone = Annotated[Identifier, Field(description="IANA time zone")]
ImageType = Annotated[str | None, Field(description="Media type of headerImg")]
HeaderImage = Annotated[str | None, Field(description="Base64; stored re-encoded", repr=False)]
FooterImage = Annotated[str | None, Field(description="A data URI", repr=False)]


class SiteBody(Body):
    """All settings of a site; absent members get the default of a new site."""

    name: OptionalIdentifier = ""
    timeZone: Zone = "UTC"
    signDelay: Delay = 0
    locations: Names = Field(default_factory=list)
    hostOrigins: Names = Field(default_factory=list)
    settings: Preferences = Preferences()
    headerImgType: ImageType = None
    headerImg: HeaderImage = None
    footerImg: FooterImage = None

    def to_settings(self, site_id: str) -> SiteSettings:
        """Return the settings for the use case; re-encodes images, so call it in a thread."""
        values = self.model_dump(exclude={"SiteID"})
        changes = prepare({**values, "name": self.name or site_id})
        return apply_changes(SiteSettings(site_id), changes)


class SiteChangeBody(Body):
    """Members of a site to change; null restores the default or removes an image."""

    name: OptionalIdentifier | None = None
    timeZone: Zone | None = None
    signDelay: Delay | None = None
    locations: Names | None = None
    hostOrigins: Names | None = None
    settings: Preferences | None = None
    headerImgType: ImageType = None
    headerImg: HeaderImage = None
    footerImg: FooterImage = None

    def changes(self) -> dict[str, Any]:
        """Return the members that were sent."""
        return self.model_dump(exclude_unset=True)


class NewSiteBody(SiteBody):
    """A new site."""

    SiteID: Identifier


class UserBody(Body):
    """A user of a site."""

    email: Identifier
    name: OptionalIdentifier = ""
    role: SiteRole = SiteRole.USER
    password: Any = Field(
        default=None, repr=False, description="Not accepted: only the owner sets the password"
    )


class SignatureBody(Body):
    """The signature image of a user."""

    signature: str | None = Field(description="A data URI; null removes it", repr=False)


class TokenBody(Body):
    """A new token for a user of the site."""

    email: Identifier
    label: OptionalIdentifier = ""
    scopes: list[TokenScope] = Field(default_factory=list)
    expiresDays: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None


class PrelimGroupBody(Body):
    """A prelim group: its tags, members and reviewers (null: all users in no group)."""

    name: Identifier
    tags: Annotated[list[Identifier], Field(min_length=1, max_length=100)]
    members: Names = Field(default_factory=list)
    reviewers: Names | None = None


class TemplateBody(Body):
    """A numbered template: a structured document, or plain text to convert."""

    name: Identifier
    document: dict[str, Any] | None = None
    text: Annotated[str | None, Field(max_length=1_000_000)] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "TemplateBody":
        if (self.document is None) == (self.text is None):
            message = "either document or text is needed"
            raise ValueError(message)
        return self


class MrrtBody(Body):
    """An IHE MRRT template."""

    html: Annotated[str, Field(min_length=1, max_length=1_000_000, description="HTML5")]
    name: OptionalIdentifier = Field(default="", description="Default: the file's own title")


class CodeMapBody(Body):
    """A billing code map."""

    csv: Annotated[str, Field(max_length=8_000_000, description="system,match,code,description")]


_EventNumber = Annotated[int, Field(ge=0, lt=2**63)]


def _parse_time(value: object) -> object:
    """Parse a time of the query; numbers and times without a zone are refused."""
    if value is None:
        return None
    try:
        return parse_iso(str(value))
    except (ValueError, OverflowError):
        message = "Input should be a time in ISO 8601 with its zone: 2027-01-15T08:00:00Z"
        raise ValueError(message) from None


_DateTime = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
_Time = Annotated[int, BeforeValidator(_parse_time, json_schema_input_type=_DateTime)]
_Word = Annotated[str, Field(min_length=1, max_length=320)]


class AuditQuery(BaseModel):
    """Filters of audit events; times in ISO 8601 with zone, `user` is an e-mail address."""

    after: _EventNumber | None = None
    before: Annotated[
        _EventNumber | None, Field(description="Continues a page of newest events")
    ] = None
    since: _Time | None = None
    until: _Time | None = None
    action: _Word | None = None
    user: _Word | None = None
    reportId: _Word | None = None
    limit: int = Field(100, ge=1, le=1000)

    def to_query(self, site_id: str) -> TrailQuery:
        """Return the query for the use case."""
        span = (self.since, self.until)
        return TrailQuery(site_id, *span, self.reportId, self.action, self.user, self.before)


Password = Annotated[str, Field(max_length=1024, repr=False)]
"""Any text; the password policy is in `bridge.engine.rules.passwords`."""


class ChoicesBody(Body):
    """Display preferences of a user; absent members are unchanged."""

    AppLanguage: Language | Literal[""] | None = None
    theme: Literal["dark", "light", "system", ""] | None = None
    AutoComparePrior: StrictBool | None = None

    def choices(self) -> dict[str, Any]:
        """Return the preferences that were sent."""
        return self.model_dump(exclude_unset=True, exclude={"name", "signature"})


class ProfileBody(ChoicesBody):
    """Changes to the own profile; absent members are unchanged."""

    name: Identifier | None = None
    SpeechLanguage: Language | Literal[""] | None = None
    signatureText: Annotated[str, Field(max_length=500)] | None = None
    signature: Annotated[str | None, Field(description="A data URI", repr=False)] = None


class PasswordBody(Body):
    """A new password, and the current one as proof."""

    present: Password
    wanted: Password


class ConfirmBody(Body):
    """The current password, and a one-time code if the account has an authenticator."""

    password: Password
    code: Annotated[str, Field(max_length=20, repr=False)] = ""


class OwnTokenBody(Body):
    """A new access token for the user."""

    label: Identifier
    expiresDays: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None


class AssignBody(Body):
    """The reader of a report; an empty e-mail address removes the assignment."""

    reportId: Identifier
    email: OptionalIdentifier = ""


class AccountBody(Body):
    """An account by its id."""

    accountId: Identifier


class EnrolmentBody(AccountBody):
    """An account whose owner must set a new password."""

    secondFactor: StrictBool = False
    endTokens: StrictBool = True


class SecondFactorBody(AccountBody):
    """Whether an account needs a second factor."""

    required: StrictBool


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
