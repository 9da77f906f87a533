"""
How results are written for one destination: words that are laid over its mapping.

Each may be left out; then the mapping decides. `docs/reference/mapping-language.md` explains them.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Target = Annotated[
    str,
    StringConstraints(
        pattern=r"^(none|OBX|NTE|Z[A-Z0-9]{2}(-[1-9]\d?)?|(OBR|ORC|PV1|PID)-[1-9]\d?)$"
    ),
]


class Rendering(BaseModel):
    """The words; None is silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    version: Literal["2.3", "2.3.1", "2.4", "2.5.1"] | None = Field(
        None, description="2.3 | 2.3.1 | 2.4 | 2.5.1; this and the next: else as the mapping says"
    )
    content: list[Literal["text", "pdf", "rtf"]] | None = Field(
        None, min_length=1, description="text, pdf, rtf: what of the report is sent"
    )
    layout: Literal["lines", "repetitions", "formatted"] | None = Field(
        None, description="lines | repetitions | formatted: OBX per line, TX with ~, FT"
    )
    sections: str | None = Field(
        None, min_length=1, description="none | loinc | dicom: an OBX-3 for each section"
    )
    addenda: Literal["whole", "newest", "child", "mdm", "none"] | None = Field(
        None, description="whole | newest | child | mdm | none: how an addendum is sent"
    )
    orders: Literal["separate", "combined", "grouped"] | None = Field(
        None, description="separate | combined | grouped: linked orders"
    )
    interpreter: Literal["ndl", "xcn", "name"] | None = Field(
        None, description="ndl | xcn | name: OBR-32"
    )
    times: Literal["offset", "local"] | None = Field(
        None, description="offset | local: date-times with or without their offset to UTC"
    )
    echo: Literal["fields", "whole"] | None = Field(
        None, description="fields | whole: how much of the order's PV1, ORC and OBR returns"
    )
    metadata: dict[str, Target] = Field(
        default_factory=dict, description="where keys go: OBX, NTE, none, a Z segment, a field"
    )
