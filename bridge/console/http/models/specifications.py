"""The response with a partner specification."""

from pydantic import BaseModel


class FactBody(BaseModel):
    name: str
    value: str


class DefinitionUsedBody(BaseModel):
    """A definition; `active_since` is in ms, null for a version that is not active."""

    name: str
    version: str
    active_since: int | None


class MessageSpecificationBody(BaseModel):
    type: str
    purpose: str


class FieldSpecificationBody(BaseModel):
    """A field; `usage` is R, C, RE or O."""

    place: str
    name: str
    type: str
    usage: str
    cardinality: str
    content: str
    condition: str
    codes: str
    example: str


class SegmentSpecificationBody(BaseModel):
    name: str
    title: str
    cardinality: str
    fields: list[FieldSpecificationBody]
    note: str
    within: str


class CodeRowBody(BaseModel):
    code: str
    value: str
    remark: str


class CodeTableBody(BaseModel):
    name: str
    rows: list[CodeRowBody]
    note: str


class ControlRowBody(BaseModel):
    """`status` '' is any other one."""

    control: str
    status: str
    action: str


class ExampleMessageBody(BaseModel):
    """A made-up or de-identified message, one segment a line."""

    title: str
    text: str


class SpecificationChangeBody(BaseModel):
    """A change; `kind` is `added`, `changed` or `removed`."""

    place: str
    fact: str
    before: str
    after: str
    kind: str


class ActivatedVersionBody(BaseModel):
    """A version of a definition that can be chosen; `at` (ms): its last activation."""

    definition: str
    version: str
    at: int
    is_active: bool


class SpecificationBody(BaseModel):
    """The specification of a listener or destination; `changes` null: nothing was compared."""

    kind: str
    name: str
    definitions: list[DefinitionUsedBody]
    transport: list[FactBody]
    messages: list[MessageSpecificationBody]
    segments: list[SegmentSpecificationBody]
    codes: list[CodeTableBody]
    acknowledgments: list[FactBody]
    control: list[ControlRowBody]
    replies: list[FactBody]
    examples: list[ExampleMessageBody]
    versions: list[ActivatedVersionBody]
    changes: list[SpecificationChangeBody] | None
