"""Request bodies and query parameters, with bounded sizes. An unknown member is an error."""

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from bridge.admin.access.permissions import ALL_SITES_ROLES, ConsoleRole, Grant
from bridge.contract.requests import Model, RowId
from mappings.authoring.edits import (
    AddSource,
    MoveSource,
    Position,
    RemoveSource,
    SetCode,
    SetModifier,
    SetRule,
    SetSource,
    Together,
)
from mappings.hl7.batch import MAX_MESSAGES, count_messages

Text = Annotated[str, Field(max_length=200)]
Moment = Annotated[int, Field(ge=0, lt=2**53)]


NotBlank = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]


def _require_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    return text


class Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


FilterName = Annotated[str, Field(min_length=1, max_length=40)]
FilterValue = (
    Annotated[int, Field(ge=0, lt=2**53)] | Text | Annotated[list[Text], Field(max_length=64)]
)
Filters = Annotated[dict[FilterName, FilterValue], Field(max_length=30)]


class FiltersBody(Body):
    """The filters of a list, by name."""

    filters: Filters = Field(default_factory=dict)


Segments = Annotated[
    list[Annotated[str, Field(max_length=2**21)]], Field(min_length=1, max_length=5000)
]


class EditedMessageBody(Body):
    """The segments of an edited message."""

    segments: Segments


class ResentMessageBody(EditedMessageBody):
    """An edited message to resend, with the reason."""

    reason: NotBlank


class ReasonBody(Body):
    """Why an action is done; the audit trail keeps it."""

    reason: NotBlank


class WorklistSearchBody(Body):
    """Criteria for reports of a worklist, in the body because they may name a patient."""

    status: Text | None = None
    accession: Text | None = None
    mrn: Text | None = None
    text: Text | None = None
    cursor: Annotated[str, Field(max_length=1000)] | None = None
    limit: int = Field(50, ge=1, le=200)

    def query(self) -> dict[str, Any]:
        """Return the parameters for the report engine; empty values become None."""
        return {name: value or None for name, value in self.model_dump().items()}


class GrantBody(Body):
    """
    A role to assign; `bodies` permits to read message content.

    `sites` limits the role; null permits all sites. An empty list is refused, because it might mean
    no site.
    """

    role: ConsoleRole
    bodies: bool = False
    sites: list[Annotated[str, Field(min_length=1, max_length=128)]] | None = Field(
        None, min_length=1, max_length=1000
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> "GrantBody":
        if self.role is ConsoleRole.SITE_ADMINISTRATOR and not self.sites:
            raise ValueError("a site administrator needs at least one site")
        if self.role in ALL_SITES_ROLES and self.sites:
            raise ValueError("this role cannot be limited to sites")
        return self

    def grant(self, email: str) -> Grant:
        sites = None if self.sites is None else frozenset(self.sites)
        return Grant(email, self.role, self.bodies, sites)


class EngineEventParameters(Body):
    """Criteria for a site's audit events, with the parameter names of the report engine."""

    action: Text | None = None
    user: Text | None = None
    reportId: Text | None = None  # noqa: N815  # the report engine's spelling
    since: Moment | None = None
    until: Moment | None = None
    before: RowId | None = None
    limit: int = Field(100, ge=1, le=500)


_MAX_FILES, _MAX_FILE_LENGTH = 64, 400_000
_MAX_SAMPLES, _MAX_TEXT_LENGTH = 100, 4_000_000

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


class DraftBody(Body):
    """The changed files of a draft, and the version that the draft is based on."""

    files: Annotated[dict[FileName, FileText], Field(max_length=_MAX_FILES)]
    begun_on: Version
    revision: Annotated[int, Field(ge=0, lt=2**53)]


Rule = str | list[Any] | dict[str, Any] | None
SourceNumber = Annotated[int, Field(ge=0, lt=1000)]


class SetRuleBody(Body):
    kind: Literal["set_rule"]
    rule: Rule

    @property
    def value(self) -> SetRule:
        return SetRule(self.rule)


class AddSourceBody(Body):
    kind: Literal["add_source"]
    source: Rule
    position: Position = Position.FALLBACK

    @property
    def value(self) -> AddSource:
        return AddSource(self.source, self.position)


class SetSourceBody(Body):
    kind: Literal["set_source"]
    number: SourceNumber
    source: Rule

    @property
    def value(self) -> SetSource:
        return SetSource(self.number, self.source)


class RemoveSourceBody(Body):
    kind: Literal["remove_source"]
    number: SourceNumber

    @property
    def value(self) -> RemoveSource:
        return RemoveSource(self.number)


class MoveSourceBody(Body):
    kind: Literal["move_source"]
    number: SourceNumber
    to: SourceNumber

    @property
    def value(self) -> MoveSource:
        return MoveSource(self.number, self.to)


class SetModifierBody(Body):
    kind: Literal["set_modifier"]
    modifier: Annotated[str, Field(max_length=20)]
    setting: Rule = None
    """The value of the modifier; null removes it."""
    source: SourceNumber | None = None

    @property
    def value(self) -> SetModifier:
        return SetModifier(self.modifier, self.setting, self.source)


class SetCodeBody(Body):
    """An entry of the code table `codes:NAME`; null removes it."""

    kind: Literal["set_code"]
    code: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
    entry: Annotated[str, Field(max_length=500)] | None

    @property
    def value(self) -> SetCode:
        return SetCode(self.code, self.entry)


RuleChangeBody = Annotated[
    SetRuleBody
    | AddSourceBody
    | SetSourceBody
    | RemoveSourceBody
    | MoveSourceBody
    | SetModifierBody,
    Field(discriminator="kind"),
]


class TogetherBody(Body):
    """Several changes of one rule, which are one step of undo."""

    kind: Literal["together"]
    changes: Annotated[list[RuleChangeBody], Field(min_length=1, max_length=10)]

    @property
    def value(self) -> Together:
        return Together(tuple(change.value for change in self.changes))


class RuleEditBody(Body):
    """
    A change of the rule of a target, such as `tag:Modality`, in the files of the page.

    The target of an entry of a code table is `codes:NAME`.
    """

    files: Annotated[dict[FileName, FileText], Field(max_length=_MAX_FILES)]
    target: Annotated[str, Field(max_length=300)]
    change: Annotated[
        RuleChangeBody | SetCodeBody | TogetherBody,
        Field(discriminator="kind"),
    ]


class StoredBody(Body):
    """The last stored messages, or those with a control id (MSH-10)."""

    last: Annotated[int, Field(ge=1, le=50)] = 10
    control: Annotated[str, Field(max_length=200)] = ""


class SampleMessagesBody(Body):
    """Sample messages: pasted text, and files as base64."""

    text: Annotated[str, Field(max_length=_MAX_TEXT_LENGTH)] = ""
    files: Annotated[
        list[Annotated[str, Field(max_length=_MAX_TEXT_LENGTH)]], Field(max_length=_MAX_SAMPLES)
    ] = Field(default_factory=list)

    @field_validator("files")
    @classmethod
    def _are_base64(cls, value: list[str]) -> list[str]:
        return [*map(_require_base64, value)]

    @model_validator(mode="after")
    def _are_few(self) -> "SampleMessagesBody":
        texts = [self.text.encode("utf-8", "replace"), *self.data]
        if sum(map(count_messages, texts)) > MAX_MESSAGES:
            raise ValueError(f"more than {MAX_MESSAGES} messages")
        return self

    @property
    def data(self) -> list[bytes]:
        return [base64.b64decode(file) for file in self.files]


class TrialMessageBody(Body):
    """One message to try, as base64."""

    payload: Annotated[str, Field(max_length=_MAX_TEXT_LENGTH), AfterValidator(_require_base64)]
    listener: Annotated[str, Field(max_length=100)] = ""
    mapping: Annotated[str, Field(max_length=100)] = ""
    """The definition that read a stored message, and its version."""
    version: Annotated[str, Field(max_length=64)] = ""

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.payload)


class TrialBody(Body):
    """The version to try (`word`), the messages, and which of them is traced, from 0."""

    word: VersionName = "draft"
    messages: Annotated[list[TrialMessageBody], Field(max_length=_MAX_SAMPLES)]
    traced: Annotated[int, Field(ge=0, le=_MAX_SAMPLES)] | None = None


class ReleasesBody(Body):
    """A version to compose with (`word`), and the destination; '' for all that use it."""

    word: VersionName = "draft"
    destination: Annotated[str, Field(max_length=100)] = ""
    last: Annotated[int, Field(ge=1, le=50)] = 10


class CompareBody(Body):
    """Two versions to compare on the `last` stored messages."""

    before: VersionName
    after: VersionName
    last: Annotated[int, Field(ge=1, le=1000)] = 100


class ShadowBody(Body):
    """Two versions to compare on the messages of some days, also only of some connections."""

    version: VersionName = "draft"
    before: VersionName = "active"
    days: Annotated[float, Field(gt=0, le=400)] = 7
    connections: Annotated[list[Text], Field(max_length=50)] = Field(default_factory=list)


class AcceptedExamplesBody(Body):
    """Examples whose result with a version is right; no ids: all that differ."""

    version: VersionName = "draft"
    ids: Annotated[list[RowId], Field(max_length=500)] = Field(default_factory=list)


class ActivateBody(Body):
    """The draft to activate, the reason, and the listeners that use the definition from then on."""

    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version
    revision: Annotated[int, Field(ge=1, lt=2**53)]
    listeners: Annotated[list[str], Field(max_length=50)] = Field(default_factory=list)
    shadow_job: RowId | None = None
    """The shadow run that proves this draft."""

    @field_validator("reason")
    @classmethod
    def _is_not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a reason is needed")
        return value.strip()


class MergesBody(Body):
    """The site whose merges are listed; `undone` lists those that were undone."""

    site: Annotated[str, Field(min_length=1, max_length=1024)]
    number: Annotated[str, Field(max_length=1024)] = ""
    undone: bool = False
    limit: int = Field(50, ge=1, le=200)


class MergeBody(Body):
    """The merged patient number of a site."""

    site: Annotated[str, Field(min_length=1, max_length=1024)]
    number: Annotated[str, Field(min_length=1, max_length=1024)]


class UndoneMergeBody(MergeBody):
    """
    A patient number whose merge was wrong, and the reason.

    `include_signed`: also return orders whose text was signed under the survivor's name. `keep` has
    the accessions of orders that stay with the survivor.
    """

    reason: NotBlank
    include_signed: bool = False
    keep: tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...] = Field(
        (), max_length=1000
    )


class CorrectedMergeBody(MergeBody):
    """A patient number whose merge was undone, and why its results are corrected."""

    reason: NotBlank


class RollbackBody(Body):
    """The version to activate, empty: the previous one; `begun_on`: the active one as displayed."""

    reason: Reason = ""
    version: Version = ""
    begun_on: Version


class CodeBody(Body):
    """An entry for a code table; `back`: the unmapped text is the value, and the code is new."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    value: Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]
    back: bool = False


class IgnoredCodeBody(Body):
    """A code that stays without an entry; empty: the codes that are not shown."""

    mapping: Name
    code_table: TableName
    code: Annotated[str, Field(max_length=200)] = ""


class ListenerDefinitionsBody(Body):
    """The definitions of a listener, in their order; an empty list: as in its settings."""

    mappings: Annotated[list[Name], Field(max_length=50)]
    reason: Annotated[Reason, Field(min_length=1)]
    begun_on: Version


_MAX_KEYS = 60

_ConnectionReason = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)
]
_Table = Annotated[dict[str, Any], Field(max_length=_MAX_KEYS)]


class ProposedConnectionBody(Body):
    """Settings as a table of bridge.toml; `new`: the name must be free."""

    table: _Table
    new: bool = False


class ConnectionRollbackBody(Body):
    """The reason, and the active version as displayed."""

    reason: _ConnectionReason
    begun_on: Version


class ConnectionChangeBody(ConnectionRollbackBody):
    """The new settings; null: those of bridge.toml."""

    table: _Table | None
    new: bool = False


_MAX_ZIP_CHARACTERS = 8 * 2**20
_MAX_XML_CHARACTERS = 19 * 2**20


class PackageBody(Body):
    """A ZIP file, as base64; `disabled`: new connections are disabled."""

    zip: Annotated[
        str, Field(min_length=1, max_length=_MAX_ZIP_CHARACTERS), AfterValidator(_require_base64)
    ]
    disabled: bool = False

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.zip)


class MirthExportBody(Body):
    """An export of channels (XML) as base64, and the settings that a channel does not have."""

    xml: Annotated[
        str, Field(min_length=1, max_length=_MAX_XML_CHARACTERS), AfterValidator(_require_base64)
    ]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,48}$")] = ""
    site: Text = ""
    time_zone: Annotated[str, Field(max_length=64)] = ""

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.xml)


class PackageImportBody(PackageBody):
    """The package, the mark of its preview, and whether existing files may be replaced."""

    mark: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    replace: bool = False
    reason: NotBlank
