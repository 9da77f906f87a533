"""The requests and responses about background jobs, as the console's pages read them."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from bridge.admin.background.exports import ExportFormat
from bridge.admin.background.jobs import JobKind, JobState, Selection
from bridge.admin.background.requests import MAX_EXCEPT_IDS, MAX_EXPORT_COLUMNS, MAX_IDS, JobRequest
from bridge.console.http.models.bodies import NAME, Body, Filters, Text
from bridge.contract.requests import Model, RowId

SelectedIds = Annotated[list[RowId], Field(default_factory=list, max_length=MAX_IDS)]
ExceptIds = Annotated[list[RowId], Field(default_factory=list, max_length=MAX_EXCEPT_IDS)]


class SelectionBody(Body):
    """Rows of a list: those with `ids`, or all that match `filters` but `except_ids`."""

    list: Literal["messages", "deliveries"]
    ids: SelectedIds
    filters: Filters | None = None
    except_ids: ExceptIds


class OptionsBody(Body):
    """Options of an export, of a search (`where`), or of an action (`rate`, rows a second)."""

    format: ExportFormat | None = None
    columns: Annotated[list[Text], Field(max_length=MAX_EXPORT_COLUMNS)] | None = None
    keep_text: bool | None = None
    keep_sites: bool | None = None
    consistent: bool | None = None
    as_examples: Annotated[str, Field(pattern=NAME)] | None = None
    where: Annotated[dict[Text, Any], Field(max_length=20)] | None = None
    rate: Annotated[float, Field(gt=0, le=100)] | None = None


class BackgroundJobBody(Body):
    """A job to create."""

    kind: Literal["replay", "retry", "skip", "cancel", "acknowledge", "export", "search"]
    selection: SelectionBody
    options: OptionsBody = OptionsBody()
    reason: Annotated[str, Field(max_length=500)] = ""

    def request(self) -> JobRequest:
        selection = Selection(**self.selection.model_dump())
        options = self.options.model_dump(exclude_none=True, mode="json")
        return JobRequest(JobKind(self.kind), selection, options, self.reason)


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BackgroundJobResponse(_Response):
    """
    A background job; times in ms.

    `expected` is the number of rows, a lower bound unless `exact`. `format` is that of an export.
    `result` has the `name` and `bytes` of a file, which is kept `until`, `more` if rows were left
    out by a limit, and the `error` and `detail` of a failed job.
    """

    id: int
    kind: JobKind
    title: str
    actor: str
    reason: str
    state: JobState
    list: str
    format: str
    expected: int
    exact: bool
    handled: int
    succeeded: int
    failed: int
    created_at: int
    finished_at: int | None
    result: dict[str, Any]


class BackgroundJobsResponse(_Response):
    """Background jobs, newest first."""

    rows: "list[BackgroundJobResponse]"


class JobRowResponse(_Response):
    """The result for one row: `done`, `found`, or the code of an error, and a note."""

    row_id: int
    outcome: str
    detail: str


class JobRowsResponse(_Response):
    """Results of rows; `next` continues (`after`)."""

    rows: list[JobRowResponse]
    next: int | None
