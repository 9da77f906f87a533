"""What composing needs of the report service: its exports."""

from typing import Protocol

from bridge.engine_client.models import Export, OrderKey


class Exporter(Protocol):
    """What is needed of the engine's client."""

    async def export_json(self, order: OrderKey, *, prelim_until: int | None = None) -> Export:
        """Export a report; `prelim_until` (ms): with the words of its last read by then."""

    async def export_pdf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export a report with its first addenda as PDF."""

    async def export_rtf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        content_only: bool = False,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export a report with its first addenda as RTF."""
