"""Responses about rules: the trace of a message, the outline of a definition, and rule edits."""

from typing import Any

from pydantic import BaseModel


class Step(BaseModel):
    """A change of a value, such as `as person-name`, and the value after it."""

    name: str
    value: str


class TracedSource(BaseModel):
    """
    A source that was tried, or why it was not.

    `places` are like `OBR[2]-18` or `PID-3[2].1`; `spans` are their offsets in the bytes of the
    message, -1 if unknown. `raw` is the text as sent.
    """

    kind: str
    text: str
    file: str
    line: int
    outcome: str
    places: list[str]
    spans: list[tuple[int, int]]
    raw: str
    value: str
    note: str
    steps: list[Step]


class Target(BaseModel):
    """A target such as `tag:Modality`; `present`: the event has it, also with an empty value."""

    target: str
    value: str
    present: bool
    explained: bool
    file: str
    line: int
    sources: list[TracedSource]
    steps: list[Step]


class Row(BaseModel):
    """The row of order control or of events that decided."""

    key: str
    text: str
    file: str
    line: int


class TracedEvent(BaseModel):
    """An order or a patient of a message; `links` are like `study-uid=1.2.3`."""

    place: str
    action: str
    note: str
    site: str
    mrn: str
    accession: str
    row: Row | None
    targets: list[Target]
    links: list[str]


class TracedRefusal(BaseModel):
    """Why a message is refused or parked, and the rule that decided."""

    code: str
    place: str
    text: str
    target: str
    file: str
    line: int


class Trace(BaseModel):
    """The trace of a message; `left`: further orders; `note`: why there is no trace."""

    definition: str
    version: str
    active: bool
    events: list[TracedEvent]
    refusal: TracedRefusal | None
    left: int
    note: str


class OutlineSource(BaseModel):
    """A source of a rule, with the sources that it consists of."""

    kind: str
    text: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    modifiers: dict[str, str]
    condition: str
    paths: list[str]
    children: list["OutlineSource"]


class OutlineRule(BaseModel):
    """
    A rule; `form`: a form can show and change all of it; `words`: what it does.

    `parts` are its sources as they are written, counted as changes of the rule count them; `own`
    are its modifiers.
    """

    target: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    sources: list[OutlineSource]
    modifiers: dict[str, str]
    condition: str
    inherited: bool
    form: bool
    within: list[str]
    words: str
    parts: list[Any]
    own: dict[str, Any]


class Outline(BaseModel):
    definition: str
    kind: str
    rules: list[OutlineRule]


class TextEdit(BaseModel):
    """Replaces a part of a text; the offsets are UTF-16 code units."""

    start: int
    end: int
    insert: str


class RuleEdit(BaseModel):
    """The edits of one file, the rule after them in words and for the form, and new warnings."""

    file: str
    edits: list[TextEdit]
    said: str
    rule: OutlineRule | None
    issues: list[dict[str, Any]]
