"""
Shapes of the change feed, for the OpenAPI description; the route sends plain JSON.

The feed is ours, beside the interface document.
"""

# ruff: noqa: N815  # the spelling of the interface document

from typing import Any

from pydantic import BaseModel, Field

from bridge.engine.http.models.responses import RECORD, TAGS, StatusRecordBody, example


class ReleaseBody(BaseModel):
    """What was released."""

    kind: str
    sequence: int


class SignerBody(BaseModel):
    """Who signed."""

    name: str
    email: str


class SignedTextBody(BaseModel):
    """The text of a report or an addendum, as its export has it."""

    content: str
    signedAt: str | None
    signedBy: SignerBody | None


class ReleasedTextBody(BaseModel):
    """What a release says: the report, and its signed addenda in order."""

    reportInfo: SignedTextBody
    addendumInfo: list[SignedTextBody]


class StatusAnswerBody(StatusRecordBody):
    """A record of `POST /api/report/status`."""

    text: ReleasedTextBody | None = Field(
        default=None,
        description="With `texts`, and where the quota of exports allows it: of a signed report",
    )


class ChangeBody(BaseModel):
    """One change of one report."""

    cursor: int
    at: str
    event: str
    reportId: str
    record: StatusRecordBody
    orders: list[dict[str, Any]]
    release: ReleaseBody | None
    addenda: int | None = Field(
        default=None, description="Place of a released addendum among those of the export"
    )
    cancelled: bool | None = Field(
        default=None, description="Of a deleted report: whether its order does not come back"
    )
    text: ReleasedTextBody | None = Field(
        default=None, description="With `texts`, and where the quota of exports allows it"
    )


class ChangesResponse(BaseModel):
    """Changes in commit order; go on from `cursor`."""

    model_config = example(
        {
            "changes": [
                {
                    "cursor": 4711,
                    "at": "2027-01-15T08:00:00.000Z",
                    "event": "report_finalized",
                    "reportId": RECORD["reportId"],
                    "record": RECORD,
                    "orders": [TAGS],
                    "release": {"kind": "final", "sequence": 1},
                }
            ],
            "cursor": 4503599936107239,
        }
    )

    changes: list[ChangeBody]
    cursor: int = Field(
        description="Where to go on, as `after`. It is opaque, grows, and has at most 53 bits. It"
        " bears a mark of the feed: after the database was restored from a backup, it is refused"
    )
