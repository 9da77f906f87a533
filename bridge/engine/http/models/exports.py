"""
Bodies of exports as files, with what we add to the interface document.

`addenda` shows only the first so many: one inside its sign delay must not leave with another.
"""

from typing import Annotated

from pydantic import Field

from bridge.engine.http.models.reports import ExportBody, RtfBody

_Count = Annotated[int, Field(strict=True, ge=0, le=10_000)]


class PdfBody(ExportBody):
    """`POST /api/report/export/pdf`, an addition of ours."""

    addenda: _Count | None = None


class RtfFileBody(RtfBody):
    """`POST /api/report/export/rtf`."""

    addenda: _Count | None = None
